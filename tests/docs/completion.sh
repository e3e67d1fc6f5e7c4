#!/usr/bin/env bash
# tests/docs/completion.sh BUILD: checks that bash completes the options of the programs, and the values of parameters
# with choices.
set -u
bad=0
# complete_line WORD...: prints the completions of the last word, one a line.
complete_line() {
  COMP_WORDS=("$@")
  COMP_CWORD=$(($# - 1))
  COMPREPLY=()
  local function
  function=$(complete -p "$1" | sed -E 's/.* -F ([^ ]+) .*/\1/')
  "$function"
  printf '%s\n' "${COMPREPLY[@]}"
}
# expect WANTED WORD...: checks that completion offers exactly these words, in any order.
expect() {
  local wanted=$1 found
  shift
  found=$(complete_line "$@" | sort | paste -sd' ')
  [ "$found" = "$wanted" ] && return
  echo "'$*' completes to '$found', not to '$wanted'"
  bad=1
}

for script in "$1"/completions/icestream*; do
  bash -n "$script" || bad=1
  # shellcheck source=/dev/null
  . "$script" || bad=1
done
for program in "$1"/bin/icestream "$1"/bin/icestream-*; do
  complete -p "$(basename "$program")" >/dev/null || bad=1
done

expect '--box' icestream-extractor --bo
expect '--describe --device --directory' icestream-watcher --d
expect 'newest oldest' icestream-watcher --order ''
expect 'newest' icestream-watcher --order = n
expect 'newest oldest' icestream-watcher --order =
expect '--min_free --min_free_memory' icestream-watcher --settle 10 --min
expect '' icestream-watcher --settle ''
expect 'redo repair replay report retry run' icestream r
expect '--follow' icestream status --f
expect '--classes --clear' icestream mark --cl
expect '--set' icestream check --s
expect 'eer mrc tiff' icestream-simulate --format ''
offered=$(complete_line icestream-refiner --)
while read -r parameter; do
  grep -qx -- "--$parameter" <<<"$offered" || { echo "icestream-refiner does not offer --$parameter"; bad=1; }
done < <("$1/bin/icestream-refiner" --manual markdown | sed -nE 's/^\| \x60([a-z_]+)\x60 .*/\1/p')
exit $bad
