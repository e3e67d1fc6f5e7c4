mkdir data
cat >graph.yaml <<'END'
session: {voltage: 300}
stages:
  fake-watcher: {directory: data}
END
icestream check graph.yaml
