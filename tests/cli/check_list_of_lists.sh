mkdir data
cat >graph.yaml <<'END'
session: {pixel_size: 1.0}
stages:
  fake-watcher: {directory: data, pattern: [[a], b]}
  fake-picker:
    from: fake-watcher
    diameter: {of: the particle}
END
icestream check graph.yaml
