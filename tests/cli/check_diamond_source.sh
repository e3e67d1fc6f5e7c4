# A stage behind a watcher and behind a stage of that watcher would get each item twice.
mkdir data
cat >graph.yaml <<'EOF'
session: {pixel_size: 1.0}
stages:
  fake-watcher: {directory: data}
  fake-picker: {from: fake-watcher, diameter: 100, method: log}
  again: {program: fake-picker, from: [fake-watcher, fake-picker], diameter: 100, method: log}
EOF
icestream check graph.yaml 2>&1 | grep -v note: >&2
echo "check: exit ${PIPESTATUS[0]}"
