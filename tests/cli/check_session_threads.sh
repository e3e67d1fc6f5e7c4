# Cores are divided among the stages that compute; a stage's own number stands.
mkdir data
cat >graph.yaml <<'END'
session: {pixel_size: 1.0, threads: 12}
stages:
  fake-watcher:    {directory: data}
  fake-picker:     {from: fake-watcher, replicas: 2, diameter: 180}
  fake-extractor:  {from: fake-picker, box: 200}
  fake-classifier: {from: fake-extractor, threads: 5}
END
icestream check graph.yaml 2>/dev/null
icestream check graph.yaml --set session.threads=0 2>&1
