#!/usr/bin/env bash
# Installs what the build and the tests need on Debian 12; does nothing when all of it is there.
set -eu
packages="gcc g++ make bc pkg-config llvm-22-dev libpolly-22-dev liblld-22-dev lld-22 clang-22 llvm-22 zlib1g-dev libtinfo-dev libzstd-dev zstd libarchive-dev libarchive-tools
libsodium-dev nettle-dev libxxhash-dev libcriterion-dev libcurl4-openssl-dev libhiredis-dev python3 python3-numpy man-db groff-base strace ninja-build cmake
ccache unzip nginx-light libnginx-mod-http-dav-ext redis-server openssl musl-tools gcc-aarch64-linux-gnu libc6-dev-arm64-cross"
missing=""
for p in $packages; do
  dpkg-query -W -f='${Status}' "$p" 2>/dev/null | grep -q 'ok installed' || missing="$missing $p"
done
[ -n "$missing" ] || exit 0
echo "installing:$missing"
as_root=""
[ "$(id -u)" = 0 ] || as_root=sudo
export DEBIAN_FRONTEND=noninteractive
$as_root apt-get update -q
$as_root apt-get install -y -q --no-install-recommends $missing
