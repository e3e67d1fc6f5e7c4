mkdir data
cat >graph.yaml <<'END'
session: {pixel_size: 1.0}
stages:
  fake-watcher: {directory: data, threads: 1}
  fake-picker: {from: fake-watcher, diameter: 100, method: log, threads: 1}
  fake-extractor: {from: fake-picker, threads: 1}
  fake-refiner: {from: fake-extractor, symmetry: D2}
END
icestream check graph.yaml
