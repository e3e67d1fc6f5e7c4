mkdir data
cat >graph.yaml <<'END'
session: {pixel_size: 1.0}
stages:
  fake-watcher: {directory: data}
END
icestream check graph.yaml --set fake-wacher.directory=data --set fake-watcher.order=sideways
icestream check graph.yaml --set fake-watcher
