#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# What kernels write and read outside of their arrays, on a machine with a GPU: tests/kernels/gpu.sh BUILD FOLDER [DEVICE [SEEDS]]
#
# BUILD is a build's folder, of which bin/kernel-check, bin/generated-check and bin/kiln-codegen are used. FOLDER has partial.kbundle and kernels.kbundle:
#
#   BUILD/bin/kiln build tests/kernels/partial_rows.kiln -t sm_90a -o FOLDER/partial.kbundle
#   BUILD/bin/kiln build kernels/*.kiln -t sm_90a -o FOLDER/kernels.kbundle
#
# With each of SEEDS (20) seeds: results that are parts of longer rows, by drawn sizes and distances of rows; with every fourth: the whole library at
# drawn places; then 20 generated kernels a seed. Prints what failed, with the seed that repeats it, and the sums.
set -u
build=${1:?usage: tests/kernels/gpu.sh BUILD FOLDER [DEVICE [SEEDS]]}
folder=${2:?usage: tests/kernels/gpu.sh BUILD FOLDER [DEVICE [SEEDS]]}
device=${3:-cuda:0} seeds=${4:-20}
passed=0 failed=0 skipped=0

run() { # TITLE COMMAND...
  local title=$1 log line p f s; shift
  log=$("$@" 2>&1)
  line=$(grep -E '^[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped$' <<<"$log" | tail -n 1)
  [ -n "$line" ] || line="0 passed, 1 failed, 0 skipped"
  read -r p _ f _ s _ <<<"${line//,/}"
  passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
  echo "$title: $line"
  if [ "$f" != 0 ]; then grep -v ' pass ' <<<"$log" | tail -n 20; fi
}

for seed in $(seq "$seeds"); do
  run "partial rows, seed $seed" "$build/bin/kernel-check" "$folder/partial.kbundle" "$device" partial "$seed"
  if [ $((seed % 4)) = 1 ]; then run "library, seed $seed" "$build/bin/kernel-check" "$folder/kernels.kbundle" "$device" "" "$seed"; fi
done
run "generated kernels, 1 to $((20 * seeds))" "$build/bin/generated-check" "$device" 1 $((20 * seeds))
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed = 0 ]
