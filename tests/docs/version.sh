#!/usr/bin/env bash
# tests/docs/version.sh: checks which version cmake/Version.cmake finds: of tags, of a tree without git, of neither.
set -u
source=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/tree/cmake" "$work/tree/scripts"
cp "$source/cmake/Version.cmake" "$work/tree/cmake"
cp "$source/scripts/source.sh" "$work/tree/scripts"
cd "$work/tree" || exit 1
bad=0
expect() { # expect PATTERN WHEN
  local found
  found=$(cmake -P cmake/Version.cmake 2>&1)
  [[ $found =~ ^$1$ ]] || { echo "$2: '$found', expected $1"; bad=1; }
}
expect '[0-9]+\.[0-9]+\.[0-9]+' 'without git and VERSION'
echo 3.1.4+5.g0123abcde >VERSION
expect '3\.1\.4\+5\.g0123abcde' 'a tarball'
echo three >VERSION
cmake -P cmake/Version.cmake >/dev/null 2>&1 && { echo 'a VERSION that is none is taken'; bad=1; }
rm VERSION

if ! command -v git >/dev/null; then
  echo 'git is not installed: versions of tags are not checked'
  exit $bad
fi
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1 GIT_AUTHOR_NAME=t GIT_AUTHOR_EMAIL=t@t GIT_COMMITTER_NAME=t GIT_COMMITTER_EMAIL=t@t
commit() { git commit -q --allow-empty -m "$1"; }
git init -q . 2>/dev/null && git add cmake scripts && commit one && commit two
expect '0\.1\.0~2\.g[0-9a-f]{9}' 'before any tag'
git tag v1.2.3
git tag other
expect '1\.2\.3' 'at a tag'
commit three && commit four
expect '1\.2\.3\+2\.g[0-9a-f]{9}' 'two commits after a tag'
# The tarball of the sources names the version that it was made of.
scripts/source.sh "$work" >/dev/null || { echo 'scripts/source.sh fails'; bad=1; }
tarballs=("$work"/icestream-1.2.3+2.g*.tar.gz)
tar -xzf "${tarballs[0]}" -C "$work" && cd "$work"/icestream-1.2.3+2.g*/ || exit 1
expect '1\.2\.3\+2\.g[0-9a-f]{9}' 'the tarball of the sources'
[ -s scripts/source.sh ] || { echo 'the tarball has no sources'; bad=1; }
# Debian must take each of them for newer than the one before.
if command -v dpkg >/dev/null; then
  order=(0.1.0~2.g0 0.1.0 1.2.3 1.2.3+2.g0 1.2.4)
  for i in 1 2 3 4; do
    dpkg --compare-versions "${order[i - 1]}" lt "${order[i]}" || { echo "${order[i]} is not the newer one"; bad=1; }
  done
fi
exit $bad
