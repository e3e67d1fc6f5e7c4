cp "${ICESTREAM_SOURCE:-$here/../..}/pipelines/tomography.yaml" .
mkdir data
cat >bad.yaml <<'END'
stages:
  watcher: {directory: data, series: mdoc}
  tilt-reconstructor: {from: watcher, thickness: 0, basis: blobs, iteration: 5, iterations: 10001, replicas: 2}
  extractor: {from: tilt-reconstructor, box: 64}
END
icestream check tomography.yaml --set watcher.directory=data --set tilt-reconstructor.thickness=300 >/dev/null 2>&1 ||
  echo "the example is refused"
# A build for the CPU prints a note that it has no CUDA.
icestream check tomography.yaml --set watcher.directory=data 2>&1 | grep -v ': note:' >&2
icestream check bad.yaml
