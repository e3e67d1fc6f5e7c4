mkdir data
cat >graph.yaml <<'END'
sesion: {pixel_size: 1.0}
stages:
  fake-watcher: {directory: data}
END
icestream check graph.yaml
