# The stages whose templates a picker adopts are stages of the graph that make templates.
mkdir data
touch map.mrc
cp "$(dirname "${BASH_SOURCE[0]}")/../../pipelines/spa.yaml" all.yaml
sed '/gpu:/d' all.yaml >spa.yaml
graph() {
  echo "--- $*" >&2
  icestream check spa.yaml --set session.pixel_size=1.5 --set watcher.directory=data --set lowpass-picker.diameter=180 \
    "$@" 2>&1 >/dev/null | grep -v "no .diameter\|no .box\|no .reference" >&2
}
graph --set lowpass-picker.templates_from=classifier
graph --set 'lowpass-picker.templates_from=[classifier, sorter]'
graph --set lowpass-picker.templates_from=extractor
graph --set lowpass-picker.templates_from=refiner
graph --set lowpass-picker.templates_from=classifier --set lowpass-picker.method=log
graph --set lowpass-picker.templates_from=classifier --set lowpass-picker.threshold=0.3
graph --set lowpass-picker.templates_from=classifier --set lowpass-picker.whiten=off
graph --set lowpass-picker.templates_history=map.mrc
true
