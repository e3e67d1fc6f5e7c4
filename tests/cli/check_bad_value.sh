mkdir data
cat >graph.yaml <<'END'
session: {pixel_size: one}
stages:
  fake-watcher: {directory: data}
  fake-picker:
    from: fake-watcher
    diameter: wide
    invert: perhaps
END
icestream check graph.yaml
