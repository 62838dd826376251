#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# What the bundle fuzzer starts from: tests/fuzz/bundle_seeds.sh BUILD FOLDER writes small bundles, as they are (first byte 0) and with checks made
# right after each change (1), and host objects (2), as tests/fuzz/fuzz_bundle.c reads them.
set -eu
build=$1 folder=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat >"$work/one.kiln" <<'KILN'
kiln 1
kernel one[T: type = f32](x: inout *T @align(16), n: i32 @div(4)) @grid(cdiv(n, 64)) @config(warps = 1) @variant(n % 16 == 0)
  @instance(T = f32) @instance(T = i8)
{
  let i = pid(0) * 64 + iota(64)
  store(x + i, load(x + i, i < n) + load(x + i, i < n), i < n)
}
KILN
put() { # KIND FILE NAME
  { printf "\\$1"; cat "$2"; } >"$folder/$3"
}
for target in sm_80 gfx942 host; do
  for how in none small; do
    "$build/bin/kiln" build -q --no-cache --ptx-assembler=none -t "$target" --dictionary="$how" "$work/one.kiln" -o "$work/b"
    put 0 "$work/b" "$target-$how"
    put 1 "$work/b" "$target-$how-sealed"
  done
done
"$build/bin/kiln" compile -q --no-cache -t host -k 'one[T=f32]' "$work/one.kiln" -o "$work/o"
put 2 "$work/o" host-object
