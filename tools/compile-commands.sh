#!/usr/bin/env bash
# Writes compile_commands.json, for editors and analysers, to standard output: what make would run, read from `make -n` on standard input.
set -eu
awk -v folder="$PWD" '
  function quoted(s) { gsub(/\\/, "\\\\", s); gsub(/"/, "\\\"", s); return "\"" s "\"" }
  BEGIN { printf "[" }
  / -c [^ ]+ -o [^ ]+$/ {
    printf "%s\n{\"directory\": %s, \"file\": %s, \"command\": %s}", (n++ ? "," : ""), quoted(folder), quoted($(NF - 2)), quoted($0)
  }
  END { print "\n]" }'
