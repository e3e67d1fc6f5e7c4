mkdir data
cat >graph.yaml <<'END'
session: {pixel_size: 1.0}
stages:
  fake-watcher: {directory: data, threads: 1}
  fake-picker: {from: fake-watcher, diameter: 100, threads: 1}
  other: {program: fake-picker, from: fake-watcher, diameter: 100, method: template}
END
icestream check graph.yaml
