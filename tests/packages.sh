#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Debian's packages of what is built already: tests/packages.sh BUILD. tools/deb.sh -b packs it; lintian must be silent, no file may be missing
# (tests/package_contents.py), and the packages are installed in a bare Debian 12, where the README's programs run (tests/bare_debian.sh -n). Wants root, and what
# installs lintian and mmdebstrap if they are not there. Ends with the line `N passed, N failed, N skipped`.
set -u
build=$(cd "${1:?usage: tests/packages.sh BUILD}" && pwd)
cd "$(dirname "$0")/.."
passed=0 failed=0 skipped=0
step() { # NAME COMMAND...: one test, or as many as its last line of sums says
  local name=$1 status=0 line p f s start=$SECONDS
  shift
  "$@" >"$folder/told" 2>&1 || status=$?
  tail -n 30 "$folder/told"
  line=$(grep -E '^[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped$' "$folder/told" | tail -n 1)
  [ -n "$line" ] || line="$((status == 0)) passed, $((status != 0)) failed, 0 skipped"
  read -r p _ f _ s _ <<<"${line//,/}"
  [ "$status" = 0 ] || [ "$f" != 0 ] || f=1
  passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
  echo "== $name: $line ($((SECONDS - start)) s)"
}

folder=$(mktemp -d /var/tmp/kiln-packages.XXXXXX)
trap 'rm -rf --one-file-system "$folder"' EXIT
mkdir "$folder/debs"
missing=""
for tool in lintian mmdebstrap; do command -v $tool >/dev/null || missing="$missing $tool"; done
[ -z "$missing" ] || step "lintian and mmdebstrap" sh -c "apt-get update -q && apt-get install -y -q --no-install-recommends$missing"
step "the packages are made, lintian finds nothing" tools/deb.sh -b "$build" "$folder/debs"
step "each file is in its package" tests/package_contents.py "$folder/debs"
step "a bare Debian 12 with the packages" tests/bare_debian.sh -n "$folder/debs"
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed = 0 ]
