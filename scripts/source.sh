#!/usr/bin/env bash
# scripts/source.sh [FOLDER]: writes the sources of the last commit to FOLDER/icestream-VERSION.tar.gz (default: here). The
# file VERSION in it tells a build without git which version it is.
set -euo pipefail
folder=$(cd "${1:-.}" && pwd)
cd "$(dirname "${BASH_SOURCE[0]}")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
version=$(cmake -P cmake/Version.cmake)
echo "$version" >"$work/VERSION"
git archive --format=tar.gz --prefix="icestream-$version/" --add-file="$work/VERSION" -o "$folder/icestream-$version.tar.gz" HEAD
echo "$folder/icestream-$version.tar.gz"
