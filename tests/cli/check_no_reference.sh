# A refiner without a reference makes its first map from the particles. Poses of the table need a reference.
mkdir data
cat >graph.yaml <<'EOF'
session: {pixel_size: 1.0}
stages:
  fake-watcher: {directory: data, threads: 1}
  fake-picker: {from: fake-watcher, diameter: 100, method: log, threads: 1}
  fake-extractor: {from: fake-picker, threads: 1}
  fake-refiner: {from: fake-extractor, symmetry: D2, threads: 1}
EOF
icestream check graph.yaml || exit
graph=$(dirname "${BASH_SOURCE[0]}")/../../pipelines/spa.yaml
sed '/gpu:/d; s/from: classifier/from: extractor/' "$graph" >spa.yaml
spa() {
  echo "--- $*"
  icestream check spa.yaml --set session.pixel_size=1.5 --set watcher.directory=data --set refiner.diameter=30 \
    --set extractor.coordinates=poses.star "$@" 2>&1 >/dev/null | grep "refiner.*reference"
  echo "exit ${PIPESTATUS[0]}"
}
touch poses.star
spa
spa --set refiner.poses=table
spa --set refiner.skip_align=true
spa --set refiner.poses=search --set refiner.skip_align=false
# The same on files.
echo "--- on files"
icestream-refiner --i poses.star --o map --diameter 30 --skip_align true
echo "exit $?"
