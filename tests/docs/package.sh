#!/usr/bin/env bash
# tests/docs/package.sh BUILD: makes the Debian package and the tarball of a build. Lintian must find no errors. dpkg
# installs the package into a folder of its own and removes it again; the programs must run from both packages.
set -u
build=$1
source=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
export LC_ALL=C.UTF-8
bad=0
fail() {
  echo "FAILED: $*"
  bad=1
}
# need PROGRAM...: exits with CTest's code for a skip, where one of them is not there.
need() {
  local program
  for program in "$@"; do
    command -v "$program" >/dev/null || { echo "skipped: $program is not installed (scripts/packages.sh --tests)"; exit 77; }
  done
}
need cpack dpkg dpkg-deb dpkg-shlibdeps gzip
as_root=()
if [ "$(id -u)" -ne 0 ]; then
  need fakeroot
  as_root=(fakeroot)
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cpack --config "$build/CPackConfig.cmake" -G 'DEB;TGZ' -B "$work" >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
packages=("$work"/*.deb) archives=("$work"/*.tar.gz)
package=${packages[0]} archive=${archives[0]}
for file in "$package" "$archive"; do
  [ -s "$file" ] || { cat "$work/log"; exit 1; }
done
version=$("$build/bin/icestream" --version | cut -d' ' -f2)

# Names, dependencies, and what Debian's policy wants.
[ "$(dpkg-deb -f "$package" Version)" = "$version-1" ] || fail "the version is $(dpkg-deb -f "$package" Version)"
for library in libzmq5 libtiff6 libsqlite3-0; do
  dpkg-deb -f "$package" Depends | grep -q "$library" || fail "the package does not depend on $library"
done
if command -v lintian >/dev/null; then
  found=$(lintian --allow-root --fail-on none "$package" 2>&1 | grep '^E:')
  [ -z "$found" ] || fail "lintian: $found"
else
  echo 'lintian is not installed: the package is not checked with it'
fi

# run_from FOLDER: the programs work where they lie, and find each other.
run_from() {
  [ "$("$1/bin/icestream" --version)" = "icestream $version" ] || fail "$1/bin/icestream --version"
  [ "$("$1/bin/icestream" stages | wc -l)" = "$("$build/bin/icestream" stages | wc -l)" ] || fail "$1: stages are missing"
  local file
  for file in bin/icestream-watcher share/icestream/pipelines/spa.yaml share/icestream/examples/quickstart.sh \
    share/icestream/examples/stage-c/stage.c share/icestream/python/icestream.py lib/systemd/system/icestream@.service; do
    [ -s "$1/$file" ] || fail "$1/$file is not there"
  done
  [ -z "$(find "$1" -type f -perm /022)" ] || fail "files that others may write: $(find "$1" -type f -perm /022)"
}

# dpkg runs the scripts of the package outside of the folder, with DPKG_ROOT; nothing of this machine is touched.
root=$work/root
mkdir -p "$root/var/lib/dpkg" "$root/etc"
touch "$root/var/lib/dpkg/status"
export PATH=$PATH:/usr/sbin:/sbin
manage() {
  "${as_root[@]}" dpkg --root="$root" --force-depends --force-script-chrootless --force-not-root "$@" >"$work/dpkg" 2>&1 || {
    cat "$work/dpkg"
    fail "dpkg $*"
  }
}
manage --install "$package"
run_from "$root/usr"
grep -q '^ExecStart=/usr/bin/icestream run ' "$root/usr/lib/systemd/system/icestream@.service" ||
  fail "the unit starts $(grep ^ExecStart= "$root/usr/lib/systemd/system/icestream@.service")"
dpkg-deb --fsys-tarfile "$package" | tar -t >"$work/files"
for file in share/man/man1/icestream.1.gz share/bash-completion/completions/icestream share/doc/icestream/README.md \
  share/doc/icestream/copyright share/doc/icestream/changelog.Debian.gz share/doc/icestream/docs/handbook/installing.md; do
  grep -qx "./usr/$file" "$work/files" || fail "the package has no $file"
done
if command -v systemd-sysusers >/dev/null; then
  grep -q '^icestream:' "$root/etc/passwd" || fail 'the user icestream was not made'
fi
manage --remove icestream
manage --purge icestream
left=$(find "$root/usr" -type f 2>/dev/null)
[ -z "$left" ] || fail "left behind by dpkg: $left"

tar -xzf "$archive" -C "$work"
unpacked=$work/$(basename "$archive" .tar.gz)
run_from "$unpacked"
grep -q '^ExecStart=/opt/icestream/bin/icestream run ' "$unpacked/lib/systemd/system/icestream@.service" ||
  fail "the tarball's unit starts $(grep ^ExecStart= "$unpacked/lib/systemd/system/icestream@.service")"
grep -rIl -e "$source" -e "$build" "$unpacked" | grep -q . && fail "paths of the build in $(grep -rIl -e "$source" "$unpacked")"

# The root of the containers is made with debootstrap, from the network; here only how it is asked.
containers=$source/packaging/containers
"$containers/root.sh" >/dev/null 2>&1
[ $? -eq 2 ] || fail 'root.sh without a package is no wrong usage'
told=$("$containers/root.sh" --package "$work/none.deb" --o "$work/image" 2>&1) && fail 'root.sh takes a package that is not there'
[[ $told == *"$work/none.deb"* ]] || fail "root.sh does not name what is missing: $told"
grep -q '^ADD icestream-root.tar.gz /$' "$containers/Dockerfile" || fail 'the Dockerfile adds another root'
grep -q 'icestream-root.tar.gz" \.$' "$containers/root.sh" || fail 'root.sh packs another root'
exit $bad
