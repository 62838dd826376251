#!/usr/bin/env bash
# The main job, end to end: examples/demo.sh BUILD. Compiles kernels/ into a bundle, again to show the cache, then runs the application on it.
set -eu
build=${1:-build/release}
demo=$build/demo
mkdir -p "$demo"
export KILN_CACHE_DIR="$PWD/$demo/cache"
targets=host,sm_90a,gfx942,gfx1100

echo "== compile kernels/ for $targets"
"$build/bin/kiln" build kernels/*.kiln --target "$targets" -o "$demo/kernels.kbundle"

echo "== the same again: every artifact comes from the cache"
"$build/bin/kiln" build kernels/*.kiln --target "$targets" -o "$demo/kernels.kbundle" --must-hit

echo "== the application: a small transformer that links libkiln only"
gcc -std=c11 -D_GNU_SOURCE -O2 -Wall -Wextra -I"$build/include" -I. examples/transformer/*.c -o "$demo/transformer" "$build/lib/libkiln.so" -Wl,-rpath,"$PWD/$build/lib" -lm
"$demo/transformer" "$demo/kernels.kbundle" --weights "$demo/transformer.weights"
