#!/usr/bin/env bash
# clang-tidy, cppcheck and gcc -fanalyzer over the sources of programs and libraries: tools/lint-analysers.sh BUILD LLVM-INCLUDES [file...]
# Fails where one of them reports something; minutes on two cores. What is known to be wrong in a report is said beside the line, or in
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
  case $1 in base/status.c | runtime/bundle_reader.c) ;; runtime/*) echo "-DKILN_LINT_RUNTIME -include tools/lint.h" ;; *) echo "-include tools/lint.h" ;; esac
}
export -f with

# One file a process: clang-tidy 14 mixes up variable arguments of several.
printf '%s\n' "${files[@]}" | xargs -P "$(nproc)" -I{} bash -c \
  '"$0" --quiet "$1" -- $(with "$1") "${@:2}" >"$log/tidy.${1//\//_}" 2>/dev/null' "${CLANG_TIDY:-clang-tidy-14}" {} "${flags[@]}"
mkdir -p "$build/lint"
cppcheck --quiet --inline-suppr --enable=warning,performance,portability --suppressions-list=tools/lint-cppcheck.txt \
  --cppcheck-build-dir="$build/lint" -j "$(nproc)" --template='{file}:{line}: warning: {message} [{id}]' \
  --std=c11 "${flags[@]:1:4}" "${files[@]}" >"$log/cppcheck" 2>&1
printf '%s\n' "${files[@]}" | xargs -P "$(nproc)" -I{} bash -c \
  'gcc -fanalyzer -w -O1 "${@:2}" $(with "$1") -c "$1" -o /dev/null 2>"$log/gcc.${1//\//_}"; grep -q . "$log/gcc.${1//\//_}" && true' \
  gcc {} "${flags[@]}"

reports=$(cat "$log"/* | grep -E '(warning|error): ' | sed "s|^$PWD/||" | sort -u)
if [ -n "$reports" ]; then
  printf '%s\n' "$reports"
  echo "reports of analysers: $(printf '%s\n' "$reports" | wc -l)"
  exit 1
fi
echo "analysers: nothing to report in ${#files[@]} files"
