mkdir data
cat >graph.yaml <<'END'
session: {pixel_size: 1.0}
stages:
  fake-watcher: {directory: data}
  fake-picker: {from: fake-picker, diameter: 100, method: log}
END
icestream check graph.yaml
