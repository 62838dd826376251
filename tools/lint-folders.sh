#!/usr/bin/env bash
# Checks that the folders of the compiler and of the programs include only what docs/architecture.md allows: a folder may include itself
# and those before it in its list. Pairs that do not follow this are named here.
set -eu
cd "$(dirname "$0")/.."
forbidden="front/ttir ttir/front" # the two front ends do not know each other
# `kiln --help` lists the commands of kiln-tool too, from their table; a library that kiln-tool loads has its interface in its own folder.
permitted="kiln/kiln-tool ptx-device/ptx"
bad=0

check() { # TOP SHARED FOLDER...: the folders of TOP, in their order; each may include SHARED
  local top=$1 earlier=$2 folder include
  shift 2
  for folder in "$@"; do
    earlier="$earlier $folder"
    for include in $(grep -rhoE "#include \"$top/(passes/)?[a-z-]+/" "$top/$folder" | sed -E "s|.*\"$top/||; s|/\$||" | sort -u); do
      case " $permitted " in *" $folder/$include "*) continue ;; esac
      case " $forbidden " in *" $folder/$include "*) ;; *) case " $earlier " in *" $include "*) continue ;; esac ;; esac
      echo "$top/$folder includes $top/$include/, which it must not know:"
      grep -rn "#include \"$top/$include/" "$top/$folder"
      bad=1
    done
  done
}

# compiler/passes/pass.h is the interface of passes.
check compiler passes ir layout analysis passes/canonical interpreter unit front ttir passes/lower passes/gpu codegen
# The folders of each program are listed in the Makefile.
for program in OF_KILN OF_TOOL; do
  read -ra folders < <(sed -nE "s/^$program *:= .*addprefix tools\/,([a-z -]+)\).*/\1/p" Makefile) || true
  [ ${#folders[@]} -gt 1 ] || { echo "Makefile: expected a list of folders, $program"; bad=1; continue; }
  check tools "" "${folders[@]}"
done
[ $bad = 0 ] && echo "folders of the compiler and of the programs: no cycle"
exit $bad
