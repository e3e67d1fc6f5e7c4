# The harness and the launcher have one table of the parameters that every stage has.
mkdir data
cat >graph.yaml <<'END'
session: {pixel_size: 1.0}
stages:
  watcher: {directory: data, threads: 1024}
  fake-picker: {from: watcher, diameter: 100, threads: 2000, replicas: 257}
END
icestream check graph.yaml
icestream-watcher --i data --o out --threads 2000
