mkdir data
cat >graph.yaml <<'END'
session: {pixel_size: 1.0}
stages:
  fake-watcher: {directory: data}
  fake-watcher: {directory: data}
END
icestream check graph.yaml
