mkdir data
cat >graph.yaml <<'END'
session: {pixel_size: 1.62, voltage: 300}
stages:
  fake-watcher:    {directory: data, pattern: "*.mrc"}
  fake-picker:     {from: fake-watcher, replicas: 2, threads: 3, method: log, diameter: 180}
  fake-extractor:  {from: fake-picker, threads: 1, box: 200, downscale_to: 64}
  fake-classifier: {from: fake-extractor, threads: 2}
END
icestream check graph.yaml
