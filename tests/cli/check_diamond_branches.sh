# Two branches that lead back to one watcher are refused where they meet, and there alone.
mkdir data
cat >graph.yaml <<'EOF'
session: {pixel_size: 1.0}
stages:
  fake-watcher: {directory: data}
  strict: {program: fake-picker, from: fake-watcher, diameter: 100, method: log}
  loose: {program: fake-picker, from: fake-watcher, diameter: 90, method: log}
  cut: {program: fake-extractor, from: strict}
  cut-b: {program: fake-extractor, from: loose}
  both: {program: fake-classifier, from: [cut, cut-b]}
  fake-classifier: {from: cut}
EOF
icestream check graph.yaml 2>&1 | grep -v note: >&2
echo "check: exit ${PIPESTATUS[0]}"
icestream run graph.yaml --session session 2>/dev/null
echo "run: exit $?"
# One of the two, or each with a watcher of its own, is a graph.
sed -e '/both:/d' graph.yaml >one.yaml
icestream check one.yaml >/dev/null 2>&1
echo "one of the two: exit $?"
sed -e 's/loose: {program: fake-picker, from: fake-watcher/loose: {program: fake-picker, from: other/' \
  -e 's/^stages:/&\n  other: {program: fake-watcher, directory: data}/' graph.yaml >two.yaml
icestream check two.yaml >/dev/null 2>&1
echo "two watchers: exit $?"
