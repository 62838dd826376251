#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Makes the files of a release from HEAD: tools/release.sh [-d] [-w] [-k KEY] FOLDER (docs/releasing.md). They are the source archive, its bill
# of materials (CycloneDX), with -w the wheels, SHA256SUMS of all, and with -k its signature by a key of GnuPG. The same commit gives the same
# archive on every machine, and the same of everything else with the same packages. -d: a draft, of a tree that is not ready to be released.
set -eu
cd "$(dirname "$0")/.."
draft="" wheels="" key=""
while getopts dk:w option; do
  case $option in
  d) draft=yes ;;
  k) key=$OPTARG ;;
  w) wheels=yes ;;
  *) exit 2 ;;
  esac
done
shift $((OPTIND - 1))
[ $# = 1 ] || { echo "tools/release.sh: expected a folder" >&2; exit 2; }
version=$(sed -n 's/^VERSION := //p' Makefile)

refuse() { echo "tools/release.sh: $1" >&2; exit 1; }
if [ -z "$draft" ]; then
  [ -z "$(git status --porcelain)" ] || refuse "the work tree has changes that the archive would lack (-d for a draft)"
  grep -q "^## $version, [0-9]" CHANGELOG.md || refuse "CHANGELOG.md: expected \"## $version, DATE\" (-d for a draft)"
  [ "$(git describe --exact-match --tags 2>/dev/null)" = "v$version" ] || refuse "HEAD has no tag v$version (-d for a draft)"
fi
tools/check-recipes.py >/dev/null || refuse "tools/check-recipes.py found mistakes"
mkdir -p "$1"
folder=$(cd "$1" && pwd)
rm -f "$folder"/*
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH
make -s dist B="$folder"
[ -z "$wheels" ] || tools/wheel.sh "$folder" >/dev/null
tools/sbom.py "$version" "$folder/kiln-$version.cdx.json" "$folder"/*.tar.xz $(find "$folder" -name '*.whl')
(cd "$folder" && LC_ALL=C sha256sum kiln* >SHA256SUMS)
[ -z "$key" ] || gpg --batch --yes --local-user "$key" --armor --detach-sign "$folder/SHA256SUMS"
ls "$folder"
