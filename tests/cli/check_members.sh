mkdir data
cat >graph.yaml <<'END'
session: {pixel_size: 1.0}
stages:
  fake-watcher:    {directory: data}
  fake-extractor:  {from: fake-watcher}
  fake-picker:     {from: fake-watcher, diameter: 100, method: log}
  fake-classifier: {from: fake-picker}
END
icestream check graph.yaml
