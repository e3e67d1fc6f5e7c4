# A selection replaces all particles, so nothing else may come into its stage. Items that begin at a cumulative stage
# have that stage as their source: the selections of two classifiers are no diamond of the watcher.
mkdir data
touch map.mrc
cat >graph.yaml <<'EOF'
session: {pixel_size: 1.0}
stages:
  fake-watcher: {directory: data}
  fake-picker: {from: fake-watcher, diameter: 100, method: log}
  fake-extractor: {from: fake-picker}
  fake-classifier: {from: fake-extractor}
  other: {program: fake-classifier, from: fake-extractor}
  mixed: {program: fake-refiner, from: [fake-classifier, fake-extractor], reference: map.mrc}
  two: {program: fake-refiner, from: [other, fake-classifier], reference: map.mrc}
EOF
icestream check graph.yaml 2>&1 | grep -v note: >&2
echo "check: exit ${PIPESTATUS[0]}"
sed -e '/mixed:/d' -e 's/\[other, fake-classifier\]/other/' graph.yaml >one.yaml
icestream check one.yaml >/dev/null 2>&1
echo "one selection: exit $?"
