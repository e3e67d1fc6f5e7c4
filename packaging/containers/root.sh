#!/usr/bin/env bash
# packaging/containers/root.sh --package FILE.deb --o FOLDER [--suite NAME] [--mirror URL]
#
# Makes, as root, a root file system of Debian from nothing with debootstrap, installs the package of icestream into it, and
# packs it as FOLDER/icestream-root.tar.gz beside a copy of the Dockerfile:
#   docker build -t icestream FOLDER
# The suite must be that of the system on which the package was built (default: bookworm).
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
package='' out='' suite=bookworm mirror=http://deb.debian.org/debian
while [ $# -gt 1 ]; do
  case $1 in
    --package) package=$2 ;;
    --o) out=$2 ;;
    --suite) suite=$2 ;;
    --mirror) mirror=$2 ;;
    *) break ;;
  esac
  shift 2
done
if [ $# -gt 0 ] || [ -z "$package" ] || [ -z "$out" ]; then
  sed -n '2,8s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"
  exit 2
fi
[ -f "$package" ] || { echo "root.sh: there is no package $package; cpack makes it"; exit 2; }
[ "$(id -u)" -eq 0 ] || { echo "root.sh: debootstrap needs root: call it with sudo"; exit 2; }
command -v debootstrap >/dev/null || { echo "root.sh: debootstrap is missing: apt-get install debootstrap"; exit 2; }

mkdir -p "$out"
root=$(mktemp -d "$out/root.XXXXXX")
trap 'rm -rf "$root"' EXIT
chmod 755 "$root"
debootstrap --variant=minbase "$suite" "$root" "$mirror"
cp "$package" "$root/tmp/icestream.deb"
# Services must not start while the package is installed.
printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d"
chmod 755 "$root/usr/sbin/policy-rc.d"
chroot "$root" apt-get update -q
chroot "$root" env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends /tmp/icestream.deb
chroot "$root" apt-get clean
rm -rf "$root"/usr/sbin/policy-rc.d "$root"/tmp/* "$root"/var/lib/apt/lists/*
chroot "$root" icestream --version
tar -C "$root" --one-file-system --numeric-owner -czf "$out/icestream-root.tar.gz" .
cp "$here/Dockerfile" "$out"
ls -l "$out"
