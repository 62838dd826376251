#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Builds the packages of Debian from HEAD: tools/deb.sh [-s | -b BUILD] [FOLDER] (build/release/deb). They are the source package (orig archive, debian
# archive, .dsc) and, without -s, libkiln0, libkiln-dev, kiln and python3-kiln; lintian judges all of them if it is installed. With -b the source
# package's tree begins with a copy of BUILD, and its files have the times of those here, which must be those of HEAD: make compiles what it would compile
# here, and the archives are packed quickly, not tightly. An error or a warning of lintian fails the command. Wants dpkg-dev and debhelper, dh-python, and without -s what building wants (tools/install-packages.sh build).
set -eu
cd "$(dirname "$0")/.."
only_source="" built=""
while getopts b:s option; do
  case $option in
  b) built=$(cd "$OPTARG" && pwd) ;;
  s) only_source=yes ;;
  *) exit 2 ;;
  esac
done
shift $((OPTIND - 1))
folder=${1:-build/release/deb}
version=$(sed -n 's/^VERSION := //p' Makefile)
[ "$(sed -n '1s/^kiln (\(.*\)-[0-9]*) .*/\1/p' packaging/debian/changelog)" = "$version" ] ||
  { echo "packaging/debian/changelog: expected version $version first" >&2; exit 1; }
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
work=$folder/work # the same path each time: a compiler's cache finds what it has
rm -rf "$work"
mkdir "$work"
trap 'rm -rf "$work"' EXIT
if [ -n "$built" ]; then
  git diff --quiet HEAD || { echo "tools/deb.sh: -b: expected the files of HEAD, found changes" >&2; exit 1; }
  git -c tar.umask=0022 archive --format=tar --prefix="kiln-$version/" HEAD | xz -0 >"$work/kiln-$version.tar.xz"
else
  make -s dist B="$work"
fi
mv "$work/kiln-$version.tar.xz" "$work/kiln_$version.orig.tar.xz"
tar -C "$work" -xf "$work/kiln_$version.orig.tar.xz"
cp -R "$work/kiln-$version/packaging/debian" "$work/kiln-$version/debian"
(
  cd "$work/kiln-$version"
  export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(dpkg-parsechangelog -STimestamp)}
  # -d: LLVM may come from apt.llvm.org or a folder; make says what is missing.
  if [ -n "$built" ]; then
    dpkg-buildpackage -us -uc -d -S -nc
    (cd "$OLDPWD" && git ls-files -z | tar --null -T - -c) | tar -x
    mkdir -p build/release
    (cd "$built" && cp -a bin flags gen include lib llvm obj python same sysconfdir "$work/kiln-$version/build/release/")
    DPKG_DEB_COMPRESSOR_TYPE=gzip DPKG_DEB_COMPRESSOR_LEVEL=1 dpkg-buildpackage -us -uc -d -b -nc
  else dpkg-buildpackage -us -uc -d ${only_source:+-S --no-pre-clean -nc}; fi
)
rm -f "$folder"/kiln_* "$folder"/libkiln* "$folder"/python3-kiln*
find "$work" -maxdepth 1 -type f -exec mv {} "$folder" \;
if command -v lintian >/dev/null; then
  judges=()
  for changes in "$folder"/*.changes; do # each takes one processor
    lintian --fail-on error,warning --suppress-tags initial-upload-closes-no-bugs "$changes" & # nobody asked Debian for it
    judges+=($!)
  done
  for judge in "${judges[@]}"; do wait "$judge"; done
else echo "tools/deb.sh: lintian is not installed: the packages are not judged" >&2; fi
ls "$folder"
