# The graph for single particles needs only the values that every session must set. Without one of them it is refused.
mkdir data
: >reference.mrc
spa=$(dirname "${BASH_SOURCE[0]}")/../../pipelines/spa.yaml
sed '/gpu:/d' "$spa" >spa.yaml
check() { echo "--- $*" >&2; icestream check spa.yaml "$@" >/dev/null; }
check --set session.pixel_size=1.62 --set watcher.directory=data --set lowpass-picker.diameter=250 || exit
check --set session.pixel_size=1.62 --set watcher.directory=data --set lowpass-picker.diameter=250 \
  --set refiner.reference=reference.mrc || exit
check --set session.pixel_size=1.5 --set watcher.directory=data --set refiner.diameter=132 \
  --set refiner.reference=reference.mrc || exit
check --set session.pixel_size=1.5 --set watcher.directory=data
