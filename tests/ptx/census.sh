#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Counts the instructions, with their modifiers, of PTX: tests/ptx/census.sh [-t TARGET] [CASES | FILE.ptx | BUNDLE]...
# CASES is a folder of recorded cases, which are compiled; without arguments the kernel library is built and counted. What the interpreter does
# not know is named at the end, and makes the exit code 1.
set -u
build=${KILN_BUILD:-build/release}
target=sm_80
[ "${1:-}" = -t ] && { target=$2; shift 2; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
number=0

of_bundle() { # every kernel that the bundle lists
  "$build/bin/kiln-tool" inspect --json "$1" | grep -o '"name": *"[^"]*"' | sed 's/.*: *"//; s/"$//' | sort -u | while read -r kernel; do
    "$build/bin/kiln-tool" disasm -t "$target" "$1" "$kernel" 2>/dev/null
  done | awk -v to="$work/bundle$number" '/^\.version/ { n++ } n { print > (to "_" n ".ptx") }'
}

if [ $# = 0 ]; then
  "$build/bin/kiln" build kernels/*.kiln -q -t "$target" --emit=ptx -o "$work/kernels.kbundle" || exit 1
  set -- "$work/kernels.kbundle"
fi
for what; do
  number=$((number + 1))
  if [ -d "$what" ]; then
    for case in "$what"/*/kernel.ttir; do
      number=$((number + 1))
      "$build/bin/kiln" compile -q --no-cache -t "$target" --emit=ptx -o "$work/case$number.ptx" "$case" 2>/dev/null
    done
  elif [ "${what%.ptx}" != "$what" ]; then cp "$what" "$work/file$number.ptx"
  else of_bundle "$what"; fi
done
for text in "$work"/*.ptx; do "$build/bin/kiln-ptx" --census "$text" 2>>"$work/unknown"; done |
  awk '{ sum[$2] += $1 } END { for (name in sum) printf "%9d %s\n", sum[name], name }' | sort -k2
sed 's/.*ptx:[0-9]*:[0-9]*: //' "$work/unknown" | sort | uniq -c | sort -rn
[ ! -s "$work/unknown" ]
