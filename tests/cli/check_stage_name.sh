cat >graph.yaml <<'END'
stages:
  ../escape: {program: fake-watcher}
  log: {program: fake-watcher}
END
icestream check graph.yaml
