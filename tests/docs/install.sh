#!/usr/bin/env bash
# tests/docs/install.sh BUILD: checks that an installation has programs, graphs, manual pages, completion and the pages
# of the documentation. Their links must work there too.
set -u
source=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
prefix=$(mktemp -d)
trap 'rm -rf "$prefix"' EXIT
bad=0
cmake --install "$1" --prefix "$prefix" >"$prefix/log" 2>&1 || { cat "$prefix/log"; exit 1; }
documents=$prefix/share/doc/icestream
for program in "$prefix"/bin/*; do
  name=$(basename "$program")
  for file in "share/man/man1/$name.1" "share/bash-completion/completions/$name"; do
    [ -s "$prefix/$file" ] || { echo "$file is not installed"; bad=1; }
  done
done
for file in README.md ARCHITECTURE.md CHANGELOG.md CONTRIBUTING.md LICENSE docs; do
  diff -r -x '*.py' "$source/$file" "$documents/$file" || bad=1
done
for file in prometheus-rules.yml notify/mail.sh notify/webhook.sh systemd/onfailure.conf; do
  [ -s "$prefix/share/icestream/$file" ] || { echo "share/icestream/$file is not installed"; bad=1; }
done
[ -s "$prefix/share/icestream/pipelines/spa.yaml" ] || { echo "the graphs are not installed"; bad=1; }
# Links may name folders that are not installed, such as examples. Pages must be installed.
while IFS=: read -r page link; do
  target=$(dirname "$page")/${link%%#*}
  [ -e "$target" ] || { echo "${page#"$documents/"}: $link leads nowhere in an installation"; bad=1; }
done < <(grep -roE --include='*.md' '\]\([^):#]+\.md[^)]*\)' "$documents" | sed -E 's/\]\(([^)]*)\)/\1/')
exit $bad
