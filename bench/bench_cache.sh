#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# The cache's figures, all from this run on this machine: bench/bench_cache.sh [BUILD] [hit|kernels|ninja|rebuild|nochange|commands|memory|scale...]
#   hit      whole-process time of a hit, of ccache on a trivial C file, of an empty static program; system calls of a hit
#   kernels  a hit of kiln compile for a kernel of each name in kernels/, as a ratio to an empty static program: at most 1.5
#   ninja    500 hits under ninja -j2, against ccache in the same form
#   rebuild  a no-change rebuild of 1,000 kernels
#   nochange a no-change build of kernels/ for four targets
#   commands kiln cache stats, ls, gc and doctor with 200,000 entries
#   memory   ns a look-up in memory at 1, 8 and 64 threads
#   scale    1,000 to 1,000,000 entries: opening, hit, miss, insertion, one eviction step
set -eu
cd "$(dirname "$0")/.."
build=${1:-build/release}; shift || true
parts=${*:-hit kernels ninja rebuild nochange commands memory scale}
work=$(mktemp -d "${TMPDIR:-/tmp}/kiln-bench-XXXXXX")
trap 'rm -rf "$work"' EXIT
mkdir "$work/bin" # copies, as `make install` makes them: a program that the linker has just written starts up to 8 % later
cp "$build"/bin/kiln* "$work/bin/"
kiln=$work/bin/kiln
export KILN_CACHE_DIR=$work/cache CCACHE_DIR=$work/ccache CCACHE_NOHASHDIR=1
unset KILN_TRUST KILN_SIGN_KEY KILN_CACHE_REMOTE

gcc -O2 -D_GNU_SOURCE -I. -o "$work/spawn" bench/bench_cache_spawn.c
gcc -O2 -D_GNU_SOURCE -std=c11 -I. -o "$work/level" bench/bench_cache_level.c "$build/lib/libcache.a" "$build/lib/libbase.a" -l:libsodium.a -l:libzstd.a -lpthread

kernel() { # NAME
  printf 'kernel %s(x: in *f32 @align(16), y: out *f32 @align(16), n: i32) @grid(cdiv(n, 1024)) @config(warps = 4)\n{\n' "$1"
  printf '  let i = pid(0) * 1024 + iota(1024)\n  let live = i < n\n  store(y + i, load(x + i, live, 0.0) + %s.0, live)\n}\n' "${1##*_}"
}
one() { # NUMBER: a source with one kernel, and a trivial C file
  { echo "kiln 1"; kernel "k_$1"; } >"$work/k$1.kiln"
  echo "int f$1(void) { return $1; }" >"$work/c$1.c"
}

bench_hit() {
  one 0
  echo 'int main(void) { return 0; }' | gcc -O2 -static-pie -x c - -o "$work/empty"
  "$kiln" compile -q -t sm_90 -o "$work/k0.o" "$work/k0.kiln"
  ccache gcc -c "$work/c0.c" -o "$work/c0.o"
  "$work/spawn" "${ROUNDS:-400}" "empty static program" "$work/empty" -- "kiln, hit" "$kiln" compile -q -t sm_90 -o "$work/k0.o" "$work/k0.kiln" \
    -- "ccache, hit" ccache gcc -c "$work/c0.c" -o "$work/c0.o"
  echo "system calls of a hit: $(strace -f -o "$work/trace" "$kiln" compile -q -t sm_90 -o "$work/k0.o" "$work/k0.kiln"; grep -vc -e '+++' "$work/trace")"
  echo "processes started by a hit: $(grep -c 'execve(' "$work/trace"); LLVM opened: $(grep -c 'libLLVM' "$work/trace" || true)"
}

bench_kernels() { # each beside the empty program, in turns; medians
  local target=${TARGET:-sm_90} file name round
  echo 'int main(void) { return 0; }' | gcc -O2 -static-pie -x c - -o "$work/empty"
  for file in kernels/*.kiln; do
    "$kiln" key -t "$target" "$file" | cut -c67- | sed 's/ .*//' | awk -F'[' -v f="$file" '!seen[$1]++ {print f, $0}'
  done >"$work/list"
  for round in 1 2; do # the second one keeps what came of each source
    while read -r file name; do "$kiln" compile -q -t "$target" -k "$name" -o "$work/$name.o" "$file"; done <"$work/list"
    sleep 3 # programs that are new are not remembered
  done
  while read -r file name; do
    "$work/spawn" "${ROUNDS:-300}" empty "$work/empty" -- kiln "$kiln" compile -q -t "$target" -k "$name" -o "$work/$name.o" "$file" |
      awk -v name="$name" '{for (i = 1; i < NF; i++) if ($i == "median" && !(NR in m)) m[NR] = $(i + 1)}
        END {printf "%-44s empty %.3f ms, hit %.3f ms, ratio %.2f\n", name, m[1], m[2], m[2] / m[1]}'
  done <"$work/list" | tee "$work/ratios"
  awk '{print $NF}' "$work/ratios" | sort -n |
    awk '{r[NR] = $1} END {printf "%d kernels for '"$target"': ratio %.2f to %.2f, median %.2f\n", NR, r[1], r[NR], r[int((NR + 1) / 2)]}'
}

bench_ninja() {
  {
    printf 'rule k\n command = %s compile -q -t sm_90 -o $out $in\nrule c\n command = ccache gcc -c $in -o $out\n' "$kiln"
    for n in $(seq 500); do
      one "$n"
      printf 'build k%s.o: k k%s.kiln\nbuild c%s.o: c c%s.c\n' "$n" "$n" "$n" "$n"
    done
    printf 'build kiln: phony'; printf ' k%s.o' $(seq 500); printf '\nbuild cc: phony'; printf ' c%s.o' $(seq 500); echo
  } >"$work/build.ninja"
  local round what
  ninja -C "$work" -j"$(nproc)" kiln cc >/dev/null
  for round in 1 2 3 4 5; do # one beside the other, so that what else runs meets both
    for what in kiln cc; do
      rm -f "$work"/k*.o "$work"/c*.o "$work/.ninja_log" "$work/.ninja_deps"
      local start=$(date +%s%N)
      ninja -C "$work" -j2 "$what" >/dev/null
      echo "500 hits, ninja -j2, $what, round $round: $((($(date +%s%N) - start) / 1000000)) ms"
    done
  done
}

bench_rebuild() {
  { echo "kiln 1"; for n in $(seq 1000); do kernel "k_$n"; done; } >"$work/many.kiln"
  local round
  for round in cold warm warm warm; do
    local start=$(date +%s%N)
    "$kiln" build -q -t sm_90 --ptx-assembler=none -o "$work/many.kbn" "$work/many.kiln" >/dev/null 2>&1
    echo "1,000 kernels x 1 target, $round: $((($(date +%s%N) - start) / 1000000)) ms"
    [ "$round" != cold ] || "$kiln" cache stats --zero
  done
  "$kiln" cache stats | grep -E 'HIT|COMPILED' || true
}

bench_nochange() {
  local all=("$kiln" build -q --configs-all -t "${TARGETS:-sm_90a,gfx942,gfx1100,host}" -o "$work/all.kbundle" kernels/*.kiln)
  "${all[@]}"
  "$kiln" cache stats | head -1
  "$work/spawn" "${ROUNDS:-40}" "kernels/, no change" "${all[@]}"
  "$work/spawn" "${ROUNDS:-40}" "the same, level 19" "${all[@]}" --level 19
}

bench_commands() {
  local folder=$work/many
  "$work/level" fill "$folder" "${ENTRIES:-200000}"
  export KILN_CACHE_DIR=$folder
  "$kiln" cache gc
  "$work/spawn" "${ROUNDS:-10}" stats "$kiln" cache stats -- "ls --limit=20" "$kiln" cache ls --limit=20 -- gc "$kiln" cache gc \
    -- "gc --dry-run --max-files=100000" "$kiln" cache gc --dry-run --max-files=100000 -- doctor "$kiln" cache doctor
  export KILN_CACHE_DIR=$work/cache
}

bench_memory() { "$work/level" memory; }

bench_scale() {
  local folder=/dev/shm/kiln-bench-$$
  mkdir -p "$folder"
  "$work/level" scale "$folder" 1000 10000 100000 "${MOST:-1000000}"
  rm -rf "$folder"
}

echo "$(uname -srm), $(nproc) processors, $(date -u +%F)"
for part in $parts; do "bench_$part"; done
