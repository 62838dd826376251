#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Debian's packages of Kiln where nothing else is: tests/bare_debian.sh [-n] DEBS. Makes a bare Debian 12, installs the packages of tools/deb.sh, and does there
# what README.md shows (tests/first_example.sh). Then, without -n and in the same root, cross: builds the runtime for aarch64 from source by a cross compiler, builds
# examples/cmake with the packages' kiln and that runtime, and runs the program under qemu. Where no such root can be made (that takes root, mount
# namespaces, mmdebstrap and a mirror) it says so. Ends with the line `N passed, N failed, N skipped`.
set -eu
crosses=yes
if [ "${1:-}" = -n ]; then crosses="" && shift; fi
debs=$(cd "${1:?usage: tests/bare_debian.sh [-n] DEBS}" && pwd)
cd "$(dirname "$0")/.."
suite=bookworm
skip() { echo "[SKIP] $1"; echo "0 passed, 0 failed, 1 skipped"; exit 0; }

ls "$debs"/kiln_*.deb "$debs"/libkiln0_*.deb "$debs"/libkiln-dev_*.deb "$debs"/python3-kiln_*.deb >/dev/null || { echo "0 passed, 1 failed, 0 skipped"; exit 1; }
[ "$(id -u)" = 0 ] || skip "this is not root"
command -v mmdebstrap >/dev/null || skip "mmdebstrap is not installed"
unshare --mount --pid --fork --kill-child true 2>/dev/null || skip "no namespaces can be made"
work=$(mktemp -d /var/tmp/kiln-debs.XXXXXX)
trap 'rm -rf --one-file-system "$work"' EXIT
root=$work/root
mapfile -t sources < <(.ci/apt-sources "$suite" "$work")
mmdebstrap --quiet --mode=root --variant=minbase --setup-hook='.ci/apt-configuration "$1"' "$suite" "$root" "${sources[@]}" || skip "mmdebstrap failed"
.ci/apt-configuration "$root"
mkdir "$root/debs" "$root/src"
cp "$debs"/*.deb "$root/debs/"
git archive HEAD | tar -x -C "$root/src"

passed=0 failed=0
step() { # NAME COMMANDS: in the root
  if env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C DEBIAN_FRONTEND=noninteractive unshare --mount --propagation private --pid --fork --kill-child bash -euc '
    mount -t proc proc "$1/proc"
    mount --bind /dev "$1/dev"
    exec chroot "$1" /bin/bash -euc "$2"' bash "$root" "$2" >"$work/told" 2>&1; then passed=$((passed + 1)) && echo "[PASS] $1"; else failed=$((failed + 1)) && echo "[FAIL] $1"; fi
  tail -n 12 "$work/told"
}

step "the packages install, the README's programs run" '
  apt-get update -q
  apt-get install -y -q --no-install-recommends /debs/*.deb gcc libc6-dev pkg-config python3-numpy
  [ "$(command -v kiln)" = /usr/bin/kiln ]
  /src/tests/first_example.sh'
[ -z "$crosses" ] || step "a program for aarch64 is built with CMake and runs under qemu" '
  dpkg --add-architecture arm64
  apt-get update -q
  apt-get install -y -q --no-install-recommends make cmake ninja-build gcc-aarch64-linux-gnu libc6-dev-arm64-cross libxxhash-dev libzstd-dev:arm64 qemu-user-static file
  cd /src
  make -s -j2 install-runtime CC=aarch64-linux-gnu-gcc B=/tmp/aarch64 VERIFY_KEYS=no STRIP=aarch64-linux-gnu-strip PREFIX=/opt/kiln-aarch64
  cat >/tmp/aarch64.cmake <<END
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_FIND_ROOT_PATH /opt/kiln-aarch64)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
END
  cd examples/cmake
  cmake -S . -B /tmp/out -G Ninja -DCMAKE_TOOLCHAIN_FILE=/tmp/aarch64.cmake -DCMAKE_PREFIX_PATH=/
  grep KILN_EXECUTABLE /tmp/out/CMakeCache.txt | grep -q bin/kiln
  cmake --build /tmp/out
  file /tmp/out/saxpy | grep -q aarch64
  kiln inspect /tmp/out/kernels.kbundle | grep targets
  [ "$(timeout -s KILL 300 qemu-aarch64-static /tmp/out/saxpy /tmp/out/kernels.kbundle)" = "1000 values, 0 wrong" ]
  echo "1000 values, 0 wrong, under qemu"'
echo "$passed passed, $failed failed, 0 skipped"
[ $failed = 0 ]
