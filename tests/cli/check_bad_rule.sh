mkdir data
cat >graph.yaml <<'END'
session: {pixel_size: 1.0}
stages:
  fake-watcher: {directory: data, reject_if: rlnDefocusU is large}
END
icestream check graph.yaml
