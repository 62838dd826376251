#!/usr/bin/env bash
# Installs packages of Debian 12 and 13, where they have the same names: tools/install-packages.sh [list...]. Lists are `build` (what
# programs, libraries and the demo need), `test` (what `make check` needs besides) and `lint` (clang 14: Debian 12 only); without a name,
# build and test. Does nothing when all of it is there, and wants root or sudo only when something is missing. docs/versions.md has the
# names elsewhere.
set -eu
cd "$(dirname "$0")/.."
llvm=${LLVM_VERSION:-$(sed -n 's/^LLVM_VERSION ?= //p' Makefile)}

build="gcc g++ make bc pkg-config llvm-$llvm-dev libpolly-$llvm-dev liblld-$llvm-dev zlib1g-dev libncurses-dev libzstd-dev
python3 libpython3-dev libarchive-dev libbz2-dev liblzma-dev libsodium-dev nettle-dev libxxhash-dev libcurl4-openssl-dev"
test="libcriterion-dev clang-$llvm lld-$llvm llvm-$llvm git xz-utils zstd libarchive-tools procps python3 python3-numpy python3-venv man-db groff-base strace
ninja-build cmake meson bazel-bootstrap bazel-rules-java zsh fish ccache unzip debhelper dh-python gnupg python3-cryptography nginx-light libnginx-mod-http-dav-ext redis-server openssl musl-tools gcc-aarch64-linux-gnu
libc6-dev-arm64-cross"
lint="git gcc clang-format-14 clang-tidy-14 cppcheck python3 llvm-$llvm-dev"

[ $# -gt 0 ] || set -- build test
wanted=""
for list; do
  case "$list" in
  build) wanted="$wanted $build" ;;
  test) wanted="$wanted $test" ;;
  lint) wanted="$wanted $lint" ;;
  *) echo "tools/install-packages.sh: expected 'build', 'test' or 'lint', found '$list'" >&2; exit 2 ;;
  esac
done
if ! command -v dpkg-query >/dev/null; then
  echo "this is no Debian: nothing is installed; what is needed is called there:" $wanted >&2
  exit 0
fi
missing=""
for p in $wanted; do
  dpkg-query -W -f='${Status}' "$p" 2>/dev/null | grep -q 'ok installed' || missing="$missing $p"
done
[ -n "$missing" ] || exit 0
if [ "$(id -u)" = 0 ]; then as_root=""
elif command -v sudo >/dev/null; then as_root=sudo
else
  echo "packages are missing, this is not root and there is no sudo. As root:" >&2
  echo "    apt-get update && apt-get install -y --no-install-recommends$missing" >&2
  exit 1
fi
echo "installing:$missing"
$as_root apt-get update -q
if [[ $missing == *" llvm-$llvm-dev"* ]] && command -v apt-cache >/dev/null && ! apt-cache show "llvm-$llvm-dev" >/dev/null 2>&1; then
  echo "no source of packages of this machine has llvm-$llvm-dev: https://apt.llvm.org says how to add one that does; or build with LLVM_VERSION=19" >&2
fi
$as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends -o DPkg::Lock::Timeout=600 $missing
