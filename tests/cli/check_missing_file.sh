cat >graph.yaml <<'END'
session: {pixel_size: 1.0}
stages:
  fake-watcher: {directory: no/such/folder}
  fake-picker: {from: fake-watcher, templates: refs.mrcs, diameter: 100}
END
icestream check graph.yaml
