#!/usr/bin/env bash
# The main job, end to end: examples/demo.sh BUILD. Compiles what the application launches into a bundle, for the CPU and a GPU of each
# vendor, again to show the cache, then runs the application on the CPU. `make kernels` compiles the whole library.
set -eu
build=${1:-build/release}
demo=$build/demo
mkdir -p "$demo"
export KILN_CACHE_DIR="$(realpath "$demo")/cache"
targets=host,sm_90a,gfx942
# The instances that examples/transformer/main.c asks for, and their sources.
instances=("embedding[T=f32]" "add_rmsnorm[T=f32]" "gemm[T=f32,ACT=0,BIAS=false]" "rotary[T=f32]" "copy[T=f32]"
  "paged_attention[T=f32,D=64,PAGE=16]" "silu_mul[T=f32]" "softmax[T=f32]")
sources=(kernels/{attention,elementwise,gemm,norms,softmax,tokens}.kiln)
build_bundle() {
  "$build/bin/kiln" build "${sources[@]}" "${instances[@]/#/--kernel=}" --target "$targets" -o "$demo/app.kbundle" "$@"
}

echo "== compile ${#instances[@]} kernels of kernels/ for $targets"
build_bundle

echo "== the same again: every artifact comes from the cache"
build_bundle --must-hit

echo "== the application: a small transformer that links libkiln only"
gcc -std=c11 -D_GNU_SOURCE -O2 -Wall -Wextra -I"$build/include" -I. examples/transformer/*.c -o "$demo/transformer" "$build/lib/libkiln.so" -Wl,-rpath,"$(realpath "$build")/lib" -lm
"$demo/transformer" "$demo/app.kbundle" --weights "$demo/transformer.weights"
