mkdir data
cat >graph.yaml <<'END'
session: {pixel_size: 1.0}
stages:
  fake-watcher: {directory: data}
  one: {program: fake-picker, from: [fake-watcher, three], diameter: 100, method: log}
  two: {program: fake-picker, from: one, diameter: 100, method: log}
  three: {program: fake-picker, from: two, diameter: 100, method: log}
END
icestream check graph.yaml
