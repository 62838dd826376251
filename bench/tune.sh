#!/usr/bin/env bash
# Tunes the kernels of bench/tune.shapes. Building needs the compiler, measuring does not: the halves may run on different machines.
#   bench/tune.sh build BUILD [TARGET]            BUILD/tune/all.kbundle: every config, for TARGET (sm_90a), with cold caches; says how long
#   bench/tune.sh measure BUILD DEVICE TABLE      measures DEVICE (cuda:0, cuda:0,cuda:1) twice, each on its own: TABLE and TABLE.second, and their logs; what they
#                                                 chose differently a third time, in turn; with PyTorch and Triton there, Triton's autotuner on the same shapes
#                                                 (TABLE.triton.log); then what they say together
#   bench/tune.sh devices BUILD A A,B             shapes a second by one device and by two of one host
# SECOND="--all-below 1000": the second run tries every config, so that what it says beside the first is what searching loses.
# BUDGET: seconds of measuring a shape (1); JUDGE: seconds of the reference interpreter (0: the first config judges); TRITON=0: without Triton.
set -eu
half=${1:-} build=${2:-}
here=$(dirname "$0")
tune() { "$build/bin/kiln-tool" tune -s "$here/tune.shapes" --judge-limit "${JUDGE:-0}" --budget "${BUDGET:-1}" "$@" "$build/tune/all.kbundle"; }
case $half in
build)
  mkdir -p "$build/tune"
  cold=$(mktemp -d)
  begin=$SECONDS
  "$build/bin/kiln" build --tuning --keep-going --cache-dir "$cold" -t "${3:-sm_90a}" -o "$build/tune/all.kbundle" -k 'softmax[T=bf16]' -k 'layer_norm[T=bf16]' \
    -k 'rms_norm[T=bf16]' -k 'gemm[T=bf16,ACT=0,BIAS=false]' -k 'attention[T=bf16,D=128,CAUSAL=true]' -k 'gemv[T=bf16]' \
    "$here"/../kernels/{softmax,norms,gemm,attention}.kiln
  echo "compiles: $((SECONDS - begin)) s on $(nproc) processors"
  rm -rf "$cold"
  ;;
measure)
  device=$3 table=$4 more=
  for t in "$table" "$table.second"; do
    begin=$SECONDS
    # shellcheck disable=SC2086
    tune -v -d "$device" -o "$t" $more >"$t.log"
    more=${SECOND:-}
    echo "$t: $((SECONDS - begin)) s, $(grep -c config= "$t") choices"
  done
  again=
  python3 "$here/tune_differ.py" "$here/tune.shapes" "$table" "$table.second" >"$table.differ"
  if [ -s "$table.differ" ]; then
    again="--again $table.again.log"
    "$build/bin/kiln-tool" tune -v -d "${device%%,*}" -s "$table.differ" --judge-limit 0 --again --among "$table" --among "$table.second" -o "$table.again" "$build/tune/all.kbundle" >"$table.again.log"
  fi
  peer=
  if [ "${TRITON:-1}" = 1 ] && python3 -c 'import torch, triton' 2>/dev/null; then
    cold=$(mktemp -d) peer="--triton $table.triton.log"
    TRITON_CACHE_DIR=$cold python3 "$here/tune_triton.py" "$here/tune.shapes" >"$table.triton.log" || true
    rm -rf "$cold"
    tail -1 "$table.triton.log"
  fi
  # shellcheck disable=SC2086
  python3 "$here/tune_report.py" "$table.log" "$table.second.log" $again $peer
  ;;
devices)
  for d in "$3" "$4"; do
    table=$(mktemp -u)
    begin=$(date +%s%N)
    tune -d "$d" -o "$table" >"$table.log"
    awk -v ns=$(($(date +%s%N) - begin)) -v d="$d" '{ if (match($0, /\([0-9]+ configs/)) n += substr($0, RSTART + 1) } END { printf "%s: %.2f candidates a second\n", d, n / ns * 1e9 }' "$table.log"
    rm -f "$table" "$table.log"
  done
  ;;
*) sed -n '2,9s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac
