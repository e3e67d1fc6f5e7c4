# The launcher lists all mistakes at once, in the order of lines.
cat >graph.yaml <<'END'
session:
  voltage: 300
stages:
  fake-watcher:
    directory: nowhere
    ordre: newest
  fake-picker:
    from: fake-wacher
    diameter: -3
  fake-classifier: {from: fake-picker, classes: 0}
END
icestream check graph.yaml
