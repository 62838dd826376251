#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Makes the two wheels: tools/wheel.sh [-b BUILD] [-a ROOT] [-p PYTHON] [FOLDER]. The runtime (kiln_runtime: the package with its extension, libkiln,
# libkiln-more, libkiln-verify) for CPython 3.11 and newer, and the compiler (kiln_compiler: kiln, kiln-codegen, kiln-tool). They are built first, for
# this machine's architecture, and depend on libc alone; the tag is the oldest glibc that all of them start with. The same build gives
# the same bytes. With -a the runtime alone is made, for aarch64 by its cross compiler; ROOT is an unpacked Debian of that architecture
# with libzstd-dev, libsodium-dev and libpython3-dev (mmdebstrap --variant=extract --architectures=arm64 --include=...). With -p the runtime
# alone is made, for that free-threaded interpreter and no other, since those have no stable ABI.
set -eu
cd "$(dirname "$0")/.."
build="" other="" machine=$(uname -m) prefix="" python="" abi=cp311-abi3
while getopts a:b:p: option; do
  case $option in
  a) other=$OPTARG machine=aarch64 prefix=aarch64-linux-gnu- ;;
  b) build=$OPTARG ;;
  p) python=$OPTARG ;;
  *) exit 2 ;;
  esac
done
shift $((OPTIND - 1))
if [ -n "$python" ]; then
  abi=$("$python" -c 'import sys, sysconfig; v = "cp%d%d" % sys.version_info[:2]; sysconfig.get_config_var("Py_GIL_DISABLED") and print(v + "-" + v + sys.abiflags)')
  [ -n "$abi" ] || { echo "tools/wheel.sh: $python has the interpreter's lock: the wheel of the stable ABI serves it" >&2; exit 1; }
fi
build=${build:-build/release${other:+-aarch64}${python:+-${abi#*-}}}
folder=${1:-$build/wheels}
version=$(sed -n 's/^VERSION := //p' Makefile)
llvm=${LLVM_VERSION:-$(sed -n 's/^LLVM_VERSION ?= //p' Makefile)}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

if [ -n "$other" ]; then
  include=$(cd "$other/usr/include" && pwd)
  mkdir -p "$build/static"
  cp "$other"/usr/lib/aarch64-linux-gnu/lib{zstd,sodium}.a "$build/static/"
  make -s B="$build" CC=${prefix}gcc AR=${prefix}ar PYTHON_INCLUDE="$(printf '%s\n' "$include"/python3.* | head -n 1)" EXTRA_LDFLAGS="-L$build/static" \
    EXTRA_CFLAGS="-idirafter $include -idirafter $include/aarch64-linux-gnu" \
    "$build"/lib/libkiln{,-more,-observe}.so.0 "$build/wheel/libkiln-verify.so.0" "$build/python/kiln/_core.abi3.so"
elif [ -n "$python" ]; then make -s B="$build" PYTHON="$python" core "$build"/lib/libkiln{,-more,-observe}.so.0 "$build/wheel/libkiln-verify.so.0"
else make -s B="$build" programs libraries "$build/wheel/libkiln-verify.so.0"; fi
core=$(ls "$build"/python/kiln/_core.*.so 2>/dev/null) || { echo "tools/wheel.sh: the Python extension is not built: Python.h is missing" >&2; exit 1; }

runtime=$work/runtime compiler=$work/compiler
mkdir -p "$runtime/kiln/triton" "$compiler/kiln_compiler/bin" "$work/licenses-runtime" "$work/licenses-compiler"
cp python/kiln/*.py python/kiln/py.typed python/kiln/*.pyi "$runtime/kiln/"
cp python/kiln/triton/*.py python/kiln/triton/*.pyi "$runtime/kiln/triton/"
cp python/kiln-triton.pth "$runtime/"
mkdir -p "$runtime/kiln/include/kiln/base" "$runtime/kiln/lib/cmake/kiln"
cp runtime/kiln.h "$runtime/kiln/include/kiln/"
for header in kiln_observe kiln_verify; do sed -e 's|"runtime/kiln.h"|"kiln.h"|' runtime/$header.h >"$runtime/kiln/include/kiln/$header.h"; done
cp base/status.def "$runtime/kiln/include/kiln/base/"
sed -e 's|"base/status.def"|"status.def"|' base/status_code.h >"$runtime/kiln/include/kiln/base/status_code.h"
sed -e 's|@LIB@|lib|' tools/cmake/kilnConfig.cmake.in >"$runtime/kiln/lib/cmake/kiln/kilnConfig.cmake"
sed -e "s|@VERSION@|$version|" tools/cmake/kilnConfigVersion.cmake.in >"$runtime/kiln/lib/cmake/kiln/kilnConfigVersion.cmake"
cp tools/cmake/kilnBundle.cmake tools/cmake/kilnOpen.h.in "$runtime/kiln/lib/cmake/kiln/"
cp -L "$core" "$build"/lib/libkiln{,-more,-observe}.so.0 "$build/wheel/libkiln-verify.so.0" "$runtime/kiln/"
programs=()
if [ -z "$other$python" ]; then
  cp "$build/bin/kiln" "$build/bin/kiln-codegen" "$build/bin/kiln-tool" "$build/bin/kiln-ptx-driver.so" "$compiler/kiln_compiler/bin/"
  printf '"""The programs of Kiln; `python -m kiln` runs them."""\n' >"$compiler/kiln_compiler/__init__.py"
  programs=("$compiler"/kiln_compiler/bin/*)
fi
${prefix}strip --strip-unneeded "$runtime"/kiln/*.so* "${programs[@]}"

licences() { # FOLDER PACKAGE...
  local to=$1 package; shift
  cp LICENSE NOTICE "$to/"
  for package; do cp "/usr/share/doc/$package/copyright" "$to/$package.txt"; done
}
licences "$work/licenses-runtime" libzstd-dev libsodium-dev
licences "$work/licenses-compiler" "llvm-$llvm-dev" "libstdc++-$(g++ -dumpversion | cut -d. -f1)-dev" libzstd-dev libsodium-dev libarchive-dev libbz2-dev liblzma-dev nettle-dev libxxhash-dev zlib1g-dev \
  libncurses-dev

for file in "$runtime"/kiln/*.so* "${programs[@]}"; do
  needed=$(${prefix}readelf -d "$file" 2>/dev/null | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | grep -vE '^(libc|libm|libdl|libpthread|ld-linux.*)\.so' || true)
  [ -z "$needed" ] || { echo "tools/wheel.sh: $(basename "$file") needs" $needed >&2; exit 1; }
done
tag() { # FILE...: manylinux_2_N_MACHINE by the newest symbol of glibc
  local newest
  newest=$(for f; do ${prefix}objdump -T "$f" 2>/dev/null | grep -o 'GLIBC_2\.[0-9]*' || true; done | sed 's/.*\.//' | sort -n | tail -n 1)
  [ "${newest:-17}" -ge 17 ] || newest=17
  [ "${newest:-17}" -le 34 ] || { echo "tools/wheel.sh: glibc 2.$newest is wanted, 2.34 at most is allowed" >&2; exit 1; }
  echo "manylinux_2_${newest:-17}_$machine"
}
mkdir -p "$folder"
runtime_tag=$abi-$(tag "$runtime"/kiln/*.so*)
tools/wheel-pack.py "$folder" kiln_runtime "$version" "$runtime_tag" "$runtime" "$work/licenses-runtime" \
  "Opens bundles of compiled GPU kernels and launches them" script=kiln-config=kiln._config:main
[ -z "$other$python" ] || exit 0
compiler_tag=py3-none-$(tag "${programs[@]}")
tools/wheel-pack.py "$folder" kiln_compiler "$version" "$compiler_tag" "$compiler" "$work/licenses-compiler" \
  "Compiles tile-level GPU kernels ahead of time" requires=kiln-runtime script=kiln=kiln.__main__:main
