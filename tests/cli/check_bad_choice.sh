mkdir data
cat >graph.yaml <<'END'
session: {pixel_size: 1.0, transport: udp}
stages:
  fake-watcher: {directory: data, order: oldst}
END
icestream check graph.yaml
