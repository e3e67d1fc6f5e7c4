cp "${ICESTREAM_SOURCE:-$here/../..}/pipelines/ensemble.yaml" .
mkdir data
cat >both.yaml <<'END'
stages:
  watcher: {directory: data, pattern: "*.pdb,*.mrc"}
  superposer: {from: watcher, select: calpha}
  lowpass-picker: {from: watcher, diameter: 100}
END
cat >order.yaml <<'END'
session: {pixel_size: 1}
stages:
  watcher: {directory: data}
  extractor: {from: superposer}
  superposer: {from: watcher, replicas: 2}
END
icestream check ensemble.yaml --set watcher.directory=data >/dev/null 2>&1 || echo "the example is refused"
icestream check both.yaml
icestream check order.yaml
