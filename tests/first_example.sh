#!/usr/bin/env bash
# Does what README.md tells a new user to do after installing, in an empty folder: writes its kernel, its application and its script, types the commands after
# `$ ` from top to bottom, and compares what they print with what the page shows, numbers apart: times and sizes are of a machine and a version. What
# depends on NVIDIA's assembler being there is left out. Ends with the line of sums.
set -u
readme=$(realpath "$(dirname "$0")/../README.md")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1
export KILN_CACHE_DIR=$folder/.cache # what was built before is not told again
passed=0 failed=0 skipped=0

block() { awk -v open="\`\`\`$1" '$0 == "```" {on = 0} on; $0 == open {on = 1}' "$readme"; } # LANGUAGE
numberless() { grep -v '^kiln: note: .*no assembler (' | sed -E 's/[0-9]+(\.[0-9]+)?/N/g'; }

step() { # COMMAND EXPECTED
  local out status
  out=$(bash -c "$1" 2>&1)
  status=$?
  if [ $status = 0 ] && [ "$(numberless <<<"$out")" = "$(numberless <<<"$2")" ]; then passed=$((passed + 1)) && return; fi
  failed=$((failed + 1))
  printf "README's command: %s\nexit code %d, expected\n%s\nfound\n%s\n" "$1" "$status" "$2" "$out"
}

follow() { # what a command prints follows it
  local command="" expected="" line
  while IFS= read -r line || [ -n "$command" ]; do
    if [[ $line != '$ '* && -n $line ]]; then expected+=${expected:+$'\n'}$line && continue; fi
    case "$command" in
    "") ;;
    python3*)
      if /usr/bin/python3 -c 'import numpy' 2>/dev/null; then step "/usr/bin/$command" "$expected"
      else echo "skipped: NumPy is not installed" && skipped=$((skipped + 1)); fi ;;
    *) step "$command" "$expected" ;;
    esac
    command=${line#'$ '} expected=""
  done
}

block kiln >add.kiln
block c >app.c
block python >app.py
block console >.console
follow <.console
if ! tail -n 2 .console | grep -qx '2999 + 0.5 = 2999.5'; then failed=$((failed + 1)) && echo "README.md does not end with the numbers of its programs"; fi
[ $((passed + failed + skipped)) -ge 5 ] || { failed=$((failed + 1)) && echo "README.md shows fewer commands than it did"; }
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed = 0 ]
