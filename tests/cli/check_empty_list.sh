mkdir data
cat >graph.yaml <<'END'
session: {pixel_size: 1.0}
stages:
  watcher: {directory: data}
  lowpass-picker: {from: watcher, diameter: 100, method: []}
END
icestream check graph.yaml
