#!/usr/bin/env bash
# Does what README.md tells a new user to do after installing: its kernel, its application, its script, by its commands, in an empty
# folder. Ends with the line of sums.
set -u
readme=$(realpath "$(dirname "$0")/../README.md")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1
passed=0 failed=0 skipped=0

block() { awk -v open="\`\`\`$1" '$0 == "```" {on = 0} on; $0 == open {on = 1}' "$readme"; } # LANGUAGE
command_of() { sed -n "s/^    \($1 .*\)/\1/p" "$readme" | head -n 1; }                         # FIRST-WORDS

step() { # NAME EXPECTED COMMAND
  local out
  if out=$(bash -c "$3" 2>&1) && [ "$out" = "$2" ]; then passed=$((passed + 1)) && return; fi
  failed=$((failed + 1))
  printf "README's %s: %s\nexpected '%s', found\n%s\n" "$1" "$3" "$2" "$out"
}

block kiln >add.kiln
block c >app.c
block python >app.py
step "kernel" "" "test -s add.kiln && $(command_of 'kiln build') -q && test -s app.kbundle"
step "application" "2999 + 0.5 = 2999.5" "$(command_of 'cc app.c')"
if /usr/bin/python3 -c 'import numpy' 2>/dev/null; then
  step "script" "2999 + 0.5 = 2999.5" "$(command_of 'python3' | sed 's|^python3|/usr/bin/python3|')"
else
  echo "skipped: NumPy is not installed"
  skipped=1
fi
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed = 0 ]
