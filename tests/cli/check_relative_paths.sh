# Relative paths are looked up beside the graph first, then in the working directory.
mkdir -p graphs/data here
cat >graphs/graph.yaml <<'END'
session: {pixel_size: 1.0}
stages:
  near: {program: fake-watcher, directory: data, threads: 1}
  far:  {program: fake-watcher, directory: here, threads: 1}
END
icestream check graphs/graph.yaml
