mkdir data
cat >graph.yaml <<'END'
session: {pixel_size: 1.0}
stages:
  fake-watcher: {directory: data}
  second: {program: fake-watcher, directory: data, from: fake-watcher}
END
icestream check graph.yaml
