#!/usr/bin/env bash
# tests/docs/man.sh BUILD: checks that each program has a manual page. The page must format without a warning, have a
# name and a summary, and list every parameter. Nor does --help or the page list a parameter twice.
set -u
bad=0
fail() {
  echo "$*"
  bad=1
}
command -v groff >/dev/null || { echo "groff is missing: scripts/packages.sh --tests installs it"; exit 77; }
for program in "$1"/bin/icestream "$1"/bin/icestream-*; do
  name=$(basename "$program")
  page=$1/man/$name.1
  [ -s "$page" ] || { fail "$name has no manual page: cmake --build --preset cpu --target manuals makes it"; continue; }
  cmp -s "$page" <("$program" --manual man) || fail "$page is older than $name"
  shown=$(groff -k -man -Tutf8 -ww -rLL=100n "$page" 2>&1 >/dev/null)
  [ -z "$shown" ] || fail "$name: groff warns:"$'\n'"$shown"
  if command -v lexgrog >/dev/null; then
    lexgrog "$page" | grep -q "\"$name - .*\"" || fail "$name: lexgrog finds no name and summary"
  fi
  formatted=$(groff -k -man -Tutf8 -rLL=100n -P-c "$page" 2>/dev/null | sed $'s/.\b//g')
  while read -r parameter; do
    grep -qF -- "--$parameter" <<<"$formatted" || fail "$name: the manual page does not name --$parameter"
  done < <("$program" --manual markdown | # without what stands before the program's own section
    sed -nE -e '1,/^## icestream/{/^## icestream/!d}' -e 's/^\| \x60(--)?([a-z_-]+)\x60 .*/\2/p')
  [ "$name" != icestream ] || continue # its commands share options
  for text in "$("$program" --help)" "$formatted"; do
    twice=$(grep -oE '^ +--[a-z_-]+( |$)' <<<"$text" | sort | uniq -d)
    [ -z "$twice" ] || fail "$name: --help or the manual page lists ${twice//$'\n'/,} twice"
  done
done
exit $bad
