#!/usr/bin/env bash
# lint-older-llvm.sh BUILD: code generation, read with the headers of the oldest LLVM that it builds with (docs/versions.md), where these
# are installed. BUILD has the generated headers.
set -eu
version=19
headers=$("llvm-config-$version" --includedir 2>/dev/null) || headers=""
if [ ! -e "$headers/lld/Common/Driver.h" ]; then
  echo "LLVM $version and its lld are not installed: code generation was not read with their headers"
  exit 0
fi
flags=(-fsyntax-only -w -D_GNU_SOURCE '-DKILN_VERSION="0"' -I. "-I$1/gen" "-I$headers")
status=0 count=0
for file in $(git ls-files 'compiler/codegen/*.c' 'compiler/codegen/*.cpp'); do
  case $file in
    *.c) "${CC:-gcc}" -std=c11 "${flags[@]}" "$file" || status=1 ;;
    *) "${CXX:-g++}" -std=c++17 "${flags[@]}" "$file" || status=1 ;;
  esac
  count=$((count + 1))
done
[ "$status" = 0 ] && echo "LLVM $version: $count files of code generation read"
exit $status
