mkdir data
cat >graph.yaml <<'END'
session: {pixel_size: 1.0}
stages:
  fake-watcher: {directory: data}
  fake-picker: {from: fake-watcher, diameter: 100, method: log, replicas: 2}
  fake-extractor: {from: fake-picker}
  fake-classifier:
    from: fake-extractor
    replicas: 2
END
icestream check graph.yaml
