#!/usr/bin/env bash
# Checks that the folders of the compiler include only what docs/architecture.md allows: a folder may include itself and those
# above it in this list, except that the two front ends do not know each other.
set -eu
cd "$(dirname "$0")/.."
order="ir layout analysis passes/canonical interpreter unit front ttir passes/lower passes/gpu codegen"
apart="front/ttir ttir/front"
allowed="passes" bad=0 # compiler/passes/pass.h is the interface of passes
for folder in $order; do
  allowed="$allowed $folder"
  for include in $(grep -rhoE '#include "compiler/(passes/)?[a-z]+/' "compiler/$folder" | sed -E 's|.*"compiler/||; s|/$||' | sort -u); do
    case " $allowed " in
    *" $include "*) case " $apart " in *" $folder/$include "*) ;; *) continue ;; esac ;;
    esac
    echo "compiler/$folder includes compiler/$include/, which it must not know:"
    grep -rn "#include \"compiler/$include/" "compiler/$folder"
    bad=1
  done
done
[ $bad = 0 ] && echo "folders of the compiler: no cycle"
exit $bad
