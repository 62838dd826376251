#!/usr/bin/env bash
# Checks that the folders of the compiler include only what docs/architecture.md allows: a folder may include itself and those
# before it in this list.
set -eu
cd "$(dirname "$0")/.."
order="ir layout analysis simplify interpreter front ttir middle gpu codegen"
allowed="" bad=0
for folder in $order; do
  allowed="$allowed $folder"
  for include in $(grep -rhoE '#include "compiler/[a-z]+/' "compiler/$folder" 2>/dev/null | sed 's|.*compiler/||; s|/||' | sort -u); do
    case " $allowed " in
    *" $include "*) ;;
    *) echo "compiler/$folder includes compiler/$include/, which comes after it:"; grep -rn "#include \"compiler/$include/" "compiler/$folder"; bad=1 ;;
    esac
  done
done
[ $bad = 0 ] && echo "folders of the compiler: no cycle"
exit $bad
