#!/usr/bin/env bash
# Tunes the kernels of bench/tune.shapes. Building needs the compiler, measuring does not: the two halves may run on two machines.
#   bench/tune.sh build BUILD [TARGET]            BUILD/tune/all.kbundle: every config, for TARGET (sm_90a)
#   bench/tune.sh measure BUILD DEVICE TABLE      measures DEVICE (cuda:0, cuda:0,cuda:1) twice: TABLE and TABLE.second; then says how often they agree
set -eu
half=$1 build=$2
case $half in
build)
  mkdir -p "$build/tune"
  "$build/bin/kiln" build --tuning --keep-going -t "${3:-sm_90a}" -o "$build/tune/all.kbundle" -k 'softmax[T=bf16]' -k 'layer_norm[T=bf16]' \
    -k 'rms_norm[T=bf16]' -k 'gemm[T=bf16,ACT=0,BIAS=false]' -k 'attention[T=bf16,D=128,CAUSAL=true]' -k 'gemv[T=bf16]' \
    kernels/softmax.kiln kernels/norms.kiln kernels/gemm.kiln kernels/attention.kiln
  ;;
measure)
  device=$3 table=$4
  for t in "$table" "$table.second"; do
    begin=$SECONDS
    "$build/bin/kiln-tool" tune -v -d "$device" -s bench/tune.shapes -o "$t" --judge-limit 2 --budget "${BUDGET:-2}" "$build/tune/all.kbundle" | tee "$t.log"
    echo "$t: $((SECONDS - begin)) s"
  done
  # tuned over default: geomean over what was measured
  awk '{ n = d = 0; for (i = 1; i <= NF; i++) { if ($i ~ /^ns=/) n = substr($i, 4); if ($i ~ /^default_ns=/) d = substr($i, 12) }
         if (n && d) { sum += log(d / n); count++ } }
       END { if (count) printf "%d shapes, tuned over default: geomean %.3f\n", count, exp(sum / count) }' "$table"
  # shapes for which two runs chose the same
  pick='s/ id=.*//; s/.*kernel=//'
  echo "the two runs agree on $(comm -12 <(sed "$pick" "$table" | sort) <(sed "$pick" "$table.second" | sort) | grep -c config=) of $(grep -c config= "$table")"
  ;;
*) sed -n 's/^# \{0,1\}//p' "$0" | head -4 >&2; exit 2 ;;
esac
