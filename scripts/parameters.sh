#!/usr/bin/env bash
# scripts/parameters.sh BIN [--write]: prints docs/parameters.md. The programs in BIN list their own parameters. --write
# replaces the page in docs/; `cmake --build --preset cpu --target docs` does so for the build cpu.
set -euo pipefail
bin=${1:?usage: scripts/parameters.sh BIN [--write]}
page=$(dirname "${BASH_SOURCE[0]}")/../docs/parameters.md

print_page() {
  LC_ALL=C
  for program in "$bin"/icestream "$bin"/icestream-*; do
    "$program" --manual markdown
  done
}

if [ "${2:-}" = --write ]; then
  print_page >"$page.new"
  mv "$page.new" "$page"
else
  print_page
fi
