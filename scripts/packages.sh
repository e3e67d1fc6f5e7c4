#!/usr/bin/env bash
# scripts/packages.sh [--tests]: installs the packages that icestream is built from, on Debian 12 and Ubuntu 24.04.
# --tests adds packages for the tests: RELION, MDTraj, MDAnalysis, gemmi, scikit-image, python3-mrcfile and pyzmq,
# strace, clang and its libFuzzer, and SPIN, which searches the model of the protocol. It also adds clang-format, flake8
# and shellcheck, which check the form of the sources, groff and man-db, which read the manual pages, and dpkg-dev and
# lintian, which make and check the Debian package. Chromium with its driver and python3-selenium test the live page;
# promtool of prometheus checks metrics and rules. iproute2 and openssl make hosts of network namespaces.
# Does nothing, and needs no privileges, when all packages are installed.
set -euo pipefail

packages=(gcc g++ cmake ninja-build pkg-config
  libzmq3-dev libsqlite3-dev libyaml-dev libjansson-dev libtiff-dev libpng-dev libjpeg-dev
  libfftw3-dev libopenblas-dev libchealpix-dev libxxhash-dev libcmocka-dev)
# Not every distribution has these. Without XGBoost crystal-scorer can neither train nor score; without libmicrohttpd
# there is no page; without libpq ledgers are SQLite files alone.
optional=(libxgboost-dev libmicrohttpd-dev zlib1g-dev libpq-dev)
# A test says so where it is not there, and goes on.
useful=()
[ "${1:-}" != --tests ] || useful=(lintian postgresql iproute2 openssl chromium chromium-driver python3-selenium prometheus)
[ "${1:-}" != --tests ] || packages+=(python3 python3-numpy python3-scipy python3-mrcfile python3-zmq python3-mdtraj
  python3-mdanalysis python3-gemmi python3-skimage python3-pil relion strace spin
  clang libclang-rt-dev clang-format-14 shellcheck flake8
  groff-base man-db dpkg-dev)

is_there() { dpkg-query -W -f '${Status}\n' "$1" 2>/dev/null | grep -q '^install ok installed'; }
is_known() { apt-cache show "$1" >/dev/null 2>&1; }
missing=()
wanted=()
lacking=()
for package in "${packages[@]}"; do
  is_there "$package" || missing+=("$package")
done
for package in "${optional[@]}"; do # apt-cache knows other packages but not this one, so waiting will not help
  is_there "$package" || { is_known cmake && ! is_known "$package"; } || wanted+=("$package")
done
for package in "${useful[@]}"; do
  is_there "$package" || lacking+=("$package")
done
[ $((${#missing[@]} + ${#wanted[@]} + ${#lacking[@]})) -gt 0 ] || exit 0

only_lacking() { [ $((${#missing[@]} + ${#wanted[@]})) -eq 0 ]; }
command -v apt-get >/dev/null || {
  only_lacking && exit 0
  echo "scripts/packages.sh: this system has no apt-get; install what corresponds to: ${missing[*]} ${wanted[*]}" >&2
  exit 1
}
as_root=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || ! only_lacking || exit 0
  command -v sudo >/dev/null || { echo "scripts/packages.sh: run as root, or install sudo: packages are missing: ${missing[*]}" >&2; exit 1; }
  as_root=(sudo)
fi
# A package list that is a day old names versions that no longer exist: refresh it first.
"${as_root[@]}" apt-get update -q
for package in "${wanted[@]}"; do
  if is_known "$package"; then missing+=("$package"); else echo "not in this distribution: $package"; fi
done
install() { "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "$@"; }
if [ ${#missing[@]} -gt 0 ]; then
  echo "installing: ${missing[*]}"
  install "${missing[@]}"
fi
for package in "${lacking[@]}"; do
  install "$package" || echo "not installed: $package; tests go on without it"
  # Tests need promtool alone; a server that comes with it need not run.
  if [ "$package" = prometheus ] && [ -d /run/systemd/system ]; then "${as_root[@]}" systemctl disable --now prometheus; fi
done
