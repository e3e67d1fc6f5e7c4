mkdir data
cat >graph.yaml <<'END'
session: {pixel_size: 1.0}
stages:
  fake-watcher: {directory: data, lanes: 0}
  fake-picker: {from: fake-watcher, diameter: 100, replicas: 1.5, threads: many}
END
icestream check graph.yaml
