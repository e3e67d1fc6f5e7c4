# Poses of the table are asked for behind a stage whose tables have none in 3D.
mkdir data
touch map.mrc
spa=$(dirname "${BASH_SOURCE[0]}")/../../pipelines/spa.yaml
sed '/gpu:/d' "$spa" >spa.yaml
graph() {
  echo "--- $*" >&2
  icestream check spa.yaml --set session.pixel_size=1.5 --set watcher.directory=data --set refiner.diameter=30 \
    --set refiner.reference=map.mrc "$@" 2>&1 >/dev/null | grep poses >&2
}
graph --set refiner.poses=table
graph --set refiner.skip_align=true
graph --set refiner.poses=search --set refiner.skip_align=false
sed -i 's/from: classifier/from: extractor/' spa.yaml
graph --set refiner.poses=table
# The coordinates may bring poses.
graph --set refiner.poses=table --set extractor.coordinates=poses.star
true
