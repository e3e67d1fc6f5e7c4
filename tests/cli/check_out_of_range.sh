mkdir data
cat >graph.yaml <<'END'
session: {pixel_size: -1}
stages:
  fake-watcher: {directory: data}
  fake-picker: {from: fake-watcher, diameter: 0.5}
END
icestream check graph.yaml
