#!/bin/sh
# An application of `kiln export-c` on a device (default cuda:0): size, result, launch cost beside libkiln. bench/export_c.sh ROOT FOLDER [DEVICE]
# ROOT is a build folder: bin/kiln, lib/libkiln.a, lib/libkiln.so.0.
set -eu
root=$(cd "$1" && pwd) here=$(cd "$(dirname "$0")" && pwd) device=${3:-cuda:0}
mkdir -p "$2" && cd "$2"
cat > app.kiln <<'.'
kiln 1
kernel saxpy(x: in *f32 @align(16), y: in *f32 @align(16), z: out *f32 @align(16), a: f32, n: i32) @grid(cdiv(n, 256)) @config(warps = 4) {
  let i = pid(0) * 256 + iota(256)
  let live = i < n
  store(z + i, load(x + i, live) * a + load(y + i, live), live)
}
.
export KILN_CACHE_DIR="$PWD/cache"
"$root/bin/kiln" build -q -t sm_80,sm_90a,host -o app.kbundle app.kiln
"$root/bin/kiln" export-c --library "$root/lib/libkiln.a" app.kbundle
${CC:-cc} -std=gnu11 -O2 -I"$here/.." -I. -o app "$here/export_c.c" app.o "$root/lib/libkiln.so.0" -Wl,-rpath,"$root/lib" -ldl -lpthread
wc -c app.o app.kbundle app
./app "$device" app.kbundle
