mkdir data more
cat >graph.yaml <<'END'
session: {pixel_size: 1.0}
stages:
  left:  {program: fake-watcher, directory: data, threads: 1}
  right: {program: fake-watcher, directory: more, threads: 1}
  fake-picker: {from: [left, right], diameter: 100, method: log, threads: 1}
END
icestream check graph.yaml
