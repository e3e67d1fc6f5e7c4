mkdir empty recorded
touch recorded/a.mrc
printf 'programs: [%s]\nstages: {mine: {program: %s}}\n' "$PWD/none" "$PWD/none" >graph.yaml
for words in "nowhere graph.yaml" "empty graph.yaml" "recorded graph.yaml" "recorded graph.yaml --fault corrupt:2" \
  "recorded graph.yaml --fault explode" "recorded graph.yaml --speed 0"; do
# shellcheck disable=SC2086
  icestream replay $words --session session
  echo "exit $?"
done
ls
# A session of two watched folders is no recording of one.
mkdir two
cat >two/graph.yaml <<'EOF'
stages:
  left: {program: fake-watcher, directory: /data/left}
  again: {program: fake-watcher, directory: /data/left}
  right: {program: fake-watcher, directory: /data/right}
EOF
icestream replay two graph.yaml --session session
echo "exit $?"
