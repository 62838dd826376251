#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# A suite of others in shards, under Triton and with Kiln, over as many leases of a machine as it takes:
#   shards.sh SUITE CHECKOUT SHARDS FOLDER SECONDS
# FOLDER keeps SUITE.MODE.SHARD.jsonl of every shard that ended or took its 200 seconds; those are not run again, so the same command
# goes on where the last lease ended. Stops after SECONDS at most, and sums up what there is of both.
set -u
suite=$1 checkout=$2 shards=$3 folder=$4 end=$((SECONDS + $5))
here=$(cd "$(dirname "$0")" && pwd)
longest=200 least=30
mkdir -p "$folder"
for ((shard = 0; shard < shards; shard++)); do
  for mode in triton run; do
    file=$folder/$suite.$mode.$shard
    [ ! -e "$file.jsonl" ] || continue
    left=$((end - SECONDS))
    [ $left -ge $least ] || break 2
    limit=$((left < longest ? left : longest))
    echo "== $suite, shard $shard of $shards, $mode"
    "${PYTHON:-python3}" "$here/run.py" "$suite" "$checkout" "$mode" --shard "$shard/$shards" --out "$file.part" --seconds "$limit" >"$file.log" 2>&1
    status=$?
    tail -n 1 "$file.log"
    # Stopped by the lease's end and not by its own limit: that one is for the next lease.
    [ $status -ne 124 ] || [ $limit -eq $longest ] || break 2
    [ ! -e "$file.part" ] || mv "$file.part" "$file.jsonl"
  done
done
files=()
for file in "$folder/$suite".run.*.jsonl; do [ ! -e "$file" ] || files+=("$file"); done
[ ${#files[@]} -eq 0 ] || "${PYTHON:-python3}" "$here/run.py" --sum "${files[@]//.run./.triton.}" -- "${files[@]}" | tee "$folder/$suite.sum"
