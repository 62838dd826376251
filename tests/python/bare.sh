#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# The wheels where nothing else is: tests/python/bare.sh [-s SUITE] WHEELS [ROOT]. Makes a bare Debian (bookworm, which is Debian 12; other suites have newer
# interpreters) with python3-venv and no compiler, headers or network, installs the two wheels of tools/wheel.sh and NumPy's (WHEELS/numpy-*.whl, fetched by pip where it is not there) into an empty
# environment, and runs the README's first Python program with the kernel of the README. Where no such root can be made (that takes root,
# mount namespaces, mmdebstrap and a mirror) it says so. ROOT is such a root, made where it is not there and kept. Ends with the line `N passed, N failed, N skipped`.
set -eu
suite=bookworm
if [ "${1:-}" = -s ]; then suite=$2 && shift 2; fi
wheels=$(cd "${1:?usage: tests/python/bare.sh [-s SUITE] WHEELS [ROOT]}" && pwd)
cd "$(dirname "$0")/../.."
skip() { echo "[SKIP] $1"; echo "0 passed, 0 failed, 1 skipped"; exit 0; }
fail() { echo "[FAIL] $1"; echo "0 passed, 1 failed, 0 skipped"; exit 1; }

ls "$wheels"/kiln_runtime-*.whl "$wheels"/kiln_compiler-*.whl >/dev/null || fail "there are no wheels in $wheels"
[ "$(id -u)" = 0 ] || skip "this is not root"
command -v mmdebstrap >/dev/null || skip "mmdebstrap is not installed"
unshare --mount --net --pid --fork --kill-child true 2>/dev/null || skip "no namespaces can be made"
work=$(mktemp -d /var/tmp/kiln-wheels.XXXXXX)
trap 'rm -rf --one-file-system "$work"' EXIT
root=${2:-$work/root}
mapfile -t sources < <(.ci/apt-sources "$suite" "$work")
[ -d "$root" ] || mmdebstrap --quiet --mode=root --variant=minbase --include=python3,python3-venv --setup-hook='.ci/apt-configuration "$1"' "$suite" "$root" "${sources[@]}" ||
  skip "mmdebstrap failed"
rm -rf "$root/wheels" "$root/app"
mkdir "$root/wheels"
cp "$wheels"/kiln_*.whl "$root/wheels/"
version=$(chroot "$root" python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')
if ! cp "$wheels"/numpy-*-cp"${version/./}"-cp"${version/./}"-*.whl "$root/wheels/" 2>/dev/null; then
  python3 -m venv "$work/pip" && "$work/pip/bin/pip" -q --disable-pip-version-check download -q --no-deps --only-binary :all: --python-version "$version" \
    --platform manylinux_2_28_x86_64 --platform manylinux2014_x86_64 -d "$root/wheels" numpy || skip "pip does not get NumPy's wheel"
fi

fenced() { awk -v want="$1" '/^```/ {inside = !done && $0 == "```" want; if (!inside && seen) done = 1; next} inside {print; seen = 1}' README.md; }
mkdir "$root/app"
fenced kiln >"$root/app/add.kiln"
fenced python >"$root/app/app.py"
grep -q '^kernel add' "$root/app/add.kiln" && grep -q '^import kiln' "$root/app/app.py" || fail "the README's programs were not found"

env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/app LC_ALL=C unshare --mount --propagation private --net --pid --fork --kill-child bash -euc '
  mount -t proc proc "$1/proc"
  exec chroot "$1" /bin/bash -euc "$2"' bash "$root" '
  cd /app
  for tool in cc gcc clang as ld make; do ! command -v $tool || { echo "$tool is here" >&2; exit 1; }; done
  [ ! -e /usr/include/stdio.h ] || { echo "headers are here" >&2; exit 1; }
  python3 -m venv empty
  empty/bin/pip -q --disable-pip-version-check --no-cache-dir install --no-index --find-links /wheels kiln-runtime kiln-compiler numpy
  empty/bin/python -m kiln build -q --no-cache -t host -o app.kbundle add.kiln
  empty/bin/python app.py' >"$work/told" 2>&1 || { cat "$work/told"; fail "the README's program does not run"; }
cat "$work/told"
[ "$(tail -n 1 "$work/told")" = "2999 + 0.5 = 2999.5" ] || fail "the README's program says something else"
echo "CPython $(chroot "$root" python3 -c 'import platform; print(platform.python_version())')"
echo "1 passed, 0 failed, 0 skipped"
