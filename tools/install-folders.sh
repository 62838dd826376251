#!/usr/bin/env bash
# What `make install` and `make uninstall` do with folders and with the loader. Paths are relative to PREFIX.
#   install-folders.sh make DESTDIR PREFIX LIST FOLDER...     makes the folders; LIST gets a line for each that was not there
#   install-folders.sh remove DESTDIR PREFIX LIST PATTERN...  removes files and folders, then those in LIST that are empty
#   install-folders.sh loader FOLDER [quiet]                  tells the loader of the libraries there; says so where it will not look
set -eu
umask 022 # what is installed is for everybody, whoever installs it

make_folder() { # /PATH: with its parents, each noted that was not there
  [ ! -d "$destdir$1" ] || return 0
  case "$1" in ?*/*) make_folder "${1%/*}" ;; esac
  install -d "$destdir$1"
  made="$1"$'\n'"$made"
}

case "$1" in
make)
  destdir=$2 prefix=$3 list=$4 made=""
  shift 4
  for folder; do make_folder "$prefix/$folder"; done
  make_folder "$prefix/${list%/*}"
  printf '%s' "$made" | cat - "$destdir$prefix/$list" 2>/dev/null >"$destdir$prefix/$list.new" || true
  mv "$destdir$prefix/$list.new" "$destdir$prefix/$list"
  ;;
remove)
  destdir=$2 prefix=$3 made=$(cat "$2$3/$4" 2>/dev/null || true)
  shift 4
  for pattern; do
    for path in "$destdir$prefix"/$pattern; do rm -rf -- "$path"; done # a pattern is not quoted: it is one
  done
  # Deepest first: a folder comes before its parents.
  while read -r folder; do
    if [ -n "$folder" ] && [ -d "$destdir$folder" ]; then rmdir --ignore-fail-on-non-empty -- "$destdir$folder"; fi
  done < <(printf '%s\n' "$made" | sort -ru)
  ;;
loader)
  PATH=$PATH:/usr/sbin:/sbin
  if ldconfig -v -N -X 2>/dev/null | grep -q "^$2:"; then
    if [ "$(id -u)" = 0 ]; then ldconfig; else echo "note: 'ldconfig' as root tells the loader of $2"; fi
  elif [ "${3:-}" != quiet ]; then
    echo "note: the loader does not look into $2: link with -Wl,-rpath,$2, or set LD_LIBRARY_PATH"
  fi
  ;;
esac
