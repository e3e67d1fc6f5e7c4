mkdir data
cat >graph.yaml <<'END'
stages:
  fake-watcher: {threads: 1}
  fake-extractor: {from: fake-watcher, threads: 1}
END
icestream check graph.yaml --set fake-watcher.directory=data --set session.pixel-size=1.2 --set fake-extractor.lanes=5 \
  --set=fake-extractor.program=fake-picker --set fake-extractor.diameter=100 --set fake-extractor.diameter=32
