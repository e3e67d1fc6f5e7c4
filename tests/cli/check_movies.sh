# A watcher before a stage that takes movies watches movies, and one graph has one kind behind each watcher.
mkdir data
stages() { printf 'session: {pixel_size: 1.0}\nstages:\n%s\n' "$1"; }
picker='  lowpass-picker: {from: fake-movies, diameter: 150}'
stages "  watcher: {directory: data, frames: 40}
  fake-movies: {from: watcher}
$picker" >good.yaml
stages '  watcher: {directory: data}
  fake-movies: {from: watcher}
  lowpass-picker: {from: watcher, diameter: 150}' >both.yaml
stages "  watcher: {directory: data, movies: false}
  fake-movies: {from: watcher}
$picker" >off.yaml
stages '  watcher: {directory: data, movies: true}
  lowpass-picker: {from: watcher, diameter: 150}' >on.yaml
check() { echo "--- $*" >&2; icestream check "$@" >/dev/null; }
check good.yaml || echo "a good graph is refused"
check both.yaml
check off.yaml
check on.yaml
