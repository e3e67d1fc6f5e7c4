cp "${ICESTREAM_SOURCE:-$here/../..}/pipelines/crystals.yaml" .
mkdir data
echo "icestream crystal-scorer model 2" >a.model
echo "icestream crystal-scorer model 1" >old.model
cat >wrong.yaml <<'END'
stages:
  watcher: {directory: data, pattern: "*.jpeg"}
  crystal-scorer: {from: watcher, modle: a.model, diameter: 20, features: texture, centre: 5}
END
cat >both.yaml <<'END'
stages:
  watcher: {directory: data}
  crystal-scorer: {from: watcher, model: a.model}
  lowpass-picker: {from: watcher, diameter: 100}
END
icestream check crystals.yaml --set watcher.directory=data --set crystal-scorer.model=a.model >/dev/null 2>&1 || echo "the example is refused"
for model in b.model old.model data; do
  icestream check crystals.yaml --set watcher.directory=data --set crystal-scorer.model=$model 2>&1 | grep -v note: >&2
done
icestream check crystals.yaml --set watcher.directory=data 2>&1 | grep -v note: >&2
icestream check wrong.yaml
icestream check both.yaml
