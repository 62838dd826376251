#!/usr/bin/env bash
# Runs every test program of a build folder and ends with the line of sums: tests/run.sh BUILD [name-part...]
# A program's own last line counts its tests; one that dies without that line counts as one failure, and so does one that does not end in
# KILN_TEST_TIMEOUT seconds. What failed is printed where it happens and once more before the sums, so that the end of a log names it.
set -u
build=${1:-build/release}; shift
export KILN_BUILD=$build
export LC_ALL=C
passed=0 failed=0 skipped=0
limit=${KILN_TEST_TIMEOUT:-$([ "${KILN_TEST_FULL:-}" = 1 ] && echo 40000 || echo 3000)}
failures=$(mktemp)
trap 'rm -f "$failures"' EXIT

is_wanted() { # NAME [part...]
  local name=$1 part; shift
  [ $# = 0 ] && return 0
  for part in "$@"; do case "$name" in *"$part"*) return 0;; esac; done
  return 1
}

run_one() { # NAME COMMAND...
  local name=$1 start log status line p f s; shift
  start=$(date +%s.%N)
  log=$(mktemp)
  timeout "$limit" "$@" >"$log" 2>&1
  status=$?
  line=$(grep -aE '^[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped$' "$log" | tail -n 1)
  # The line in the log of a program that was stopped is of one that it ran.
  if [ $status = 124 ]; then line=; printf '\nstopped after %s s\n' "$limit" >>"$log"; fi
  if [ -z "$line" ]; then line="0 passed, 1 failed, 0 skipped"; fi
  read -r p _ f _ s _ <<<"${line//,/}"
  if [ $status -ne 0 ] && [ "$f" = 0 ]; then f=1; fi
  passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
  printf '%-40s %s  (%.1f s)\n' "$name" "$p passed, $f failed, $s skipped" "$(echo "$(date +%s.%N) - $start" | bc 2>/dev/null || echo 0)"
  if [ "$f" != 0 ]; then sed 's/^/    /' "$log" | tail -n 60; { echo "$name"; sed 's/^/    /' "$log" | tail -n 20; } >>"$failures"; elif grep -qaiE 'skipped' "$log"; then grep -aiE '\[SKIP\]|skipped:' "$log" | sed 's/^/    /' | head -n 20; fi
  if [ -n "${KILN_TEST_VERBOSE:-}" ]; then sed 's/^/    /' "$log"; fi
  rm -f "$log"
}

for program in $(find "$build/tests" -type f -executable | sort); do
  name=${program#"$build/tests/"}
  [ -f "tests/$name.c" ] && is_wanted "$name" "$@" && run_one "$name" "$program"
done
# Debian's interpreter has Debian's NumPy; another may be first in the path.
python=${PYTHON:-/usr/bin/python3}
for script in tests/python/test_*.py; do
  name=${script#tests/}
  name=${name%.py}
  is_wanted "$name" "$@" || continue
  if command -v "$python" >/dev/null; then run_one "$name" "$python" "$script"
  else skipped=$((skipped + 1)); printf '%-40s skipped: %s is not installed\n' "$name" "$python"; fi
done
if [ $failed != 0 ]; then echo "== what failed"; cat "$failures"; fi
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed = 0 ]
