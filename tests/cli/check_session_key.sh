mkdir data
cat >graph.yaml <<'END'
session:
  pixel_size: 1.0
  voltge: 300
  amplitude_contrast: 1.5
stages:
  fake-watcher: {directory: data}
END
icestream check graph.yaml
