#!/usr/bin/env bash
# clang-tidy, cppcheck and gcc -fanalyzer over the sources of programs and libraries: tools/lint-analysers.sh BUILD LLVM-INCLUDES [file...]
# Fails where one of them reports something; minutes on two cores. What is known to be wrong in a report is said next to the line, or in
# tools/lint-cppcheck.txt.
set -u
build=$1 llvm=$2; shift 2
[ $# -gt 0 ] || mapfile -t files < <(git ls-files 'base/*.c' 'targets/*.c' 'compiler/*.c' 'cache/*.c' 'runtime/*.c' 'tools/*.c')
[ $# -eq 0 ] || files=("$@")
flags=(-std=c11 -D_GNU_SOURCE '-DKILN_VERSION="0"' -I. -I"$build/gen" -isystem "$llvm")
log=$(mktemp -d)
trap 'rm -rf "$log"' EXIT
export log

with() { # two files define what the header replaces
  case $1 in base/status.c | runtime/bundle/bytes.c) ;; runtime/*) echo "-DKILN_LINT_RUNTIME -include tools/lint.h" ;; *) echo "-include tools/lint.h" ;; esac
}
export -f with

# A file that nothing was reported of is not looked at again while what the compiler sees of it, the analysers and their settings stay.
# One file a process: clang-tidy 14 mixes up variable arguments of several.
look() { # FILE FLAG...
  local file=$1 name=${1//\//_} key; shift
  key=$({ printf '%s\n' "$settings"; gcc "$@" $(with "$file") -E -C "$file"; } | sha256sum | cut -c1-40)
  [ ! -e "$clean/$key" ] || return 0
  "$tidy" --quiet "$file" -- $(with "$file") "$@" >"$log/tidy.$name" 2>/dev/null
  gcc -fanalyzer -w -O1 "$@" $(with "$file") -c "$file" -o /dev/null 2>"$log/gcc.$name"
  grep -qE '(warning|error): ' "$log/tidy.$name" "$log/gcc.$name" || : >"$clean/$key"
}
export -f look
export clean=$build/lint/clean tidy=${CLANG_TIDY:-clang-tidy-14}
settings=$("$tidy" --version; gcc --version; cat .clang-tidy tools/lint-analysers.sh)
export settings
mkdir -p "$clean"
printf '%s\n' "${files[@]}" | xargs -P "$(nproc)" -I{} bash -c 'look "$@"' look {} "${flags[@]}"
cppcheck --quiet --inline-suppr --enable=warning,performance,portability --suppressions-list=tools/lint-cppcheck.txt \
  --cppcheck-build-dir="$build/lint" -j "$(nproc)" --template='{file}:{line}: warning: {message} [{id}]' \
  --std=c11 "${flags[@]:1:4}" "${files[@]}" >"$log/cppcheck" 2>&1
reports=$(cat "$log"/* | grep -E '(warning|error): ' | sed "s|^$PWD/||" | sort -u)
if [ -n "$reports" ]; then
  printf '%s\n' "$reports"
  echo "reports of analysers: $(printf '%s\n' "$reports" | wc -l)"
  exit 1
fi
echo "analysers: nothing to report in ${#files[@]} files"
