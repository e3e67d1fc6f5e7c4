#!/usr/bin/env bash
# tests/docs/parameters.sh BUILD: checks that docs/parameters.md is what the programs of the build print now.
set -u
source=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
diff -u "$source/docs/parameters.md" <("$source/scripts/parameters.sh" "$1/bin") && exit 0
echo "docs/parameters.md is not current; write it again: cmake --build --preset cpu --target docs"
exit 1
