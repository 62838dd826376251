#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# The cache on NFS where this machine's kernel has none: tests/cache/nfs.sh BUILD [FOLDER]. Starts Debian's kernel in qemu, with a server (knfsd) and two
# clients, each in a network namespace of its own, so that nothing of one's caches serves the other. Runs the tests `mounts::nfs*` and `nfs::*` of BUILD there on NFS 4.2 and 4.0,
# on NFS 3 with locks by lockd, and on NFS 3 whose clients lock for themselves alone (nolock). FOLDER keeps that machine for the next time. Wants root, mmdebstrap,
# a mirror, cpio and qemu-system-x86; where one of them is missing it says so. qemu interprets each instruction: KILN_TEST_UML names a root that has Debian's user-mode-linux
# (mmdebstrap --include=user-mode-linux forky ROOT; 6.1 of Debian 12 stops on processors with AMX), which is many times as fast. Ends with the line `N passed, N failed, N skipped`.
set -eu
build=$(cd "${1:?usage: tests/cache/nfs.sh BUILD [FOLDER]}" && pwd)
cd "$(dirname "$0")/../.."
skip() { echo "[SKIP] $1"; echo "0 passed, 0 failed, 1 skipped"; exit 0; }

[ "$(id -u)" = 0 ] || skip "this is not root"
for tool in mmdebstrap cpio ${KILN_TEST_UML:-qemu-system-x86_64}; do [ -d "$tool" ] || command -v $tool >/dev/null || skip "$tool is not installed"; done
for test in mounts nfs; do
  [ -x "$build/tests/cache/test_$test" ] || { echo "[FAIL] $build/tests/cache/test_$test is not built"; echo "0 passed, 1 failed, 0 skipped"; exit 1; }
done
work=$(mktemp -d /var/tmp/kiln-nfs.XXXXXX)
trap 'rm -rf --one-file-system "$work"' EXIT
kept=${2:-$work/machine}

make_machine() { # this machine's own Debian, whose libraries the test was linked with; all of it is in memory
  local sources own part
  own=$(. /etc/os-release && echo "$VERSION_CODENAME")
  mapfile -t sources < <(.ci/apt-sources "$own" "$work")
  mmdebstrap --quiet --mode=root --variant=minbase --include=linux-image-amd64,nfs-kernel-server,nfs-common,kmod,iproute2 \
    --setup-hook='.ci/apt-configuration "$1"' "$own" "$work/machine" "${sources[@]}" || skip "mmdebstrap failed"
  cp "$work/machine"/boot/vmlinuz-* "$kept/kernel"
  (
    cd "$work/machine"
    rm -rf boot dev var/cache var/lib/apt var/lib/dpkg usr/share usr/lib/x86_64-linux-gnu/{perl*,gconv} usr/lib/udev
    mkdir -p dev test usr/share/empty
    mknod dev/console c 5 1
    mknod dev/null c 1 3
    mkdir "$work/modules"
    for part in fs/nfs fs/nfsd fs/nfs_common fs/lockd fs/fscache fs/netfs net/sunrpc net/dns_resolver drivers/net/veth.ko; do
      for module in usr/lib/modules/*/kernel/$part; do
        [ ! -e "$module" ] || { mkdir -p "$work/modules/$(dirname "$module")" && mv "$module" "$work/modules/$module"; }
      done
    done
    for module in usr/lib/modules/*; do
      mv "$module"/modules.{order,builtin,builtin.modinfo} "$work/modules/$module/"
      rm -rf "$module"
      mv "$work/modules/$module" "$module"
      chroot . depmod "${module##*/}"
    done
    find . | cpio --quiet -o -H newc >"$kept/root.cpio"
  )
  rm -rf --one-file-system "$work/machine" "$work/modules"
}

mkdir -p "$kept"
[ -e "$kept/root.cpio" ] || make_machine

mkdir -p "$work/test/libraries"
cp "$build/tests/cache/"test_{mounts,nfs} "$work/test/"
ldd "$build/tests/cache/"test_{mounts,nfs} | sed -n 's/.*=> \(\/[^ ]*\) .*/\1/p' | grep -vE '/(libc|ld-linux[^/]*)\.so' | sort -u | xargs -I{} cp -L {} "$work/test/libraries/"
cat >"$work/test/start" <<'END'
#!/bin/bash
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C LD_LIBRARY_PATH=/test/libraries
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t tmpfs tmpfs /run
mount -t tmpfs tmpfs /tmp
mount -t devtmpfs devtmpfs /dev
mkdir /dev/shm
mount -t tmpfs tmpfs /dev/shm
mount -t tmpfs tmpfs /srv
exec >/dev/console 2>&1
ip link set lo up
mkdir -p /run/netns /srv/store /clients/a /clients/b
number=0
for client in a b; do # each with a network, and therefore with caches, of its own
  number=$((number + 1))
  ip netns add $client
  ip link add to-$client type veth peer name wire netns $client
  ip address add 10.9.$number.1/24 dev to-$client
  ip link set to-$client up
  ip -n $client link set lo up
  ip -n $client address add 10.9.$number.2/24 dev wire
  ip -n $client link set wire up
done
mount -t nfsd nfsd /proc/fs/nfsd
echo '/srv *(rw,sync,no_root_squash,no_subtree_check,insecure,fsid=0)' >/etc/exports
# The kernel registers lockd of any network at /run/rpcbind.sock, where there is one, else at that network's own port 111.
in_folder() { mkdir -p /run/$1 && unshare --mount sh -c "mount --bind /run/$1 /run && mkdir -p /run/rpcbind && rpcbind && rpc.statd"; }
export -f in_folder
in_folder server
mkdir -p /run/rpc_pipefs /var/lib/nfs/nfsdcld /var/lib/nfs/v4recovery
mount -t rpc_pipefs rpc_pipefs /run/rpc_pipefs
nfsdcld # remembers whose locks a server that starts again has to wait for
exportfs -ra
echo 10 >/proc/fs/nfsd/nfsv4leasetime
echo 10 >/proc/fs/nfsd/nfsv4gracetime
rpc.nfsd 8
rpc.mountd
for client in a b; do
  nsenter --net=/run/netns/$client bash -c "in_folder $client" # lockd asks statd in the client's network
done
# NFS 4 tells clients apart by the name of their machine: the state of two with one name, locks too, is that of the last.
mount_at() { nsenter --net=/run/netns/$1 unshare --uts sh -c 'hostname client-$1 && mount -t nfs -o "$2" $3 /clients/$1' sh "$@"; }
export KILN_TEST_NFS=/clients/a KILN_TEST_NFS_OTHER=/clients/b
for kind in 4 40 3 own; do # locks of NFS 4.2, of 4.0, of NFS 3, of each client for itself
  rm -rf /srv/store
  mkdir -m 755 /srv/store
  options=vers=3 at=/srv/store KILN_TEST_NFS_LOCKS=$kind
  case $kind in
    4) options=vers=4.2 at=/store KILN_TEST_NFS_LOCKS=shared ;;
    # A client of 4.0 asks a restarted server again after up to 15 s, when its 10 s are over: it loses its locks, so that is not tried here.
    40) options=vers=4.0 at=/store KILN_TEST_NFS_LOCKS=shared ;;
    3) KILN_TEST_NFS_LOCKS=shared ;;
    own) options=vers=3,nolock ;;
  esac
  export KILN_TEST_NFS_LOCKS
  mount_at a "$options" 10.9.1.1:$at && mount_at b "$options" 10.9.2.1:$at || { echo "[FAIL] $options cannot be mounted"; continue; }
  # A server that has just started gives no locks until those who had some could claim them again.
  touch /clients/a/wait
  flock /clients/a/wait true
  rm /clients/a/wait
  unset KILN_TEST_NFS_RESTART KILN_TEST_NFS_CUT KILN_TEST_NFS_MEND
  if [ $kind = 4 ]; then
    export KILN_TEST_NFS_RESTART='rpc.nfsd 0 && sleep 1 && rpc.nfsd 8'
    export KILN_TEST_NFS_CUT='ip link set to-b down' KILN_TEST_NFS_MEND='ip link set to-b up'
  fi
  echo "== $options, locks: $KILN_TEST_NFS_LOCKS"
  timeout 600 /test/test_mounts --filter='mounts/nfs*' -j1 --verbose
  timeout 900 /test/test_nfs -j1 --verbose
  echo "exit $?"
  umount /clients/a /clients/b
done
echo "== end"
sync
echo o >/proc/sysrq-trigger
sleep 30
END
chmod +x "$work/test/start"
(cd "$work" && find test | cpio --quiet -o -H newc) >"$work/test.cpio"
if [ -n "${KILN_TEST_UML:-}" ]; then
  mkdir -p "$work/usr/lib"
  cp -a "$KILN_TEST_UML/usr/lib/uml/modules" "$work/usr/lib/"
  (cd "$work" && find usr | cpio --quiet -o -H newc) >"$work/modules.cpio"
  cat "$kept/root.cpio" "$work/modules.cpio" "$work/test.cpio" >"$KILN_TEST_UML/tmp/initrd"
  timeout 3000 unshare --mount --pid --fork --kill-child bash -euc 'mount -t proc proc "$1/proc"; mount --bind /dev "$1/dev"
    exec chroot "$1" linux.uml initrd=/tmp/initrd mem=1500M rdinit=/test/start con=null con0=null,fd:1 quiet' bash "$KILN_TEST_UML" </dev/null >"$work/told" 2>&1 || true
else
  cat "$kept/root.cpio" "$work/test.cpio" >"$work/initrd"
  timeout 3000 qemu-system-x86_64 -accel tcg -machine q35 -cpu max -smp 1 -m 1500 -nographic -nodefaults -serial stdio -no-reboot -net none -kernel "$kept/kernel" -initrd "$work/initrd" \
    -append "console=ttyS0 quiet panic=-1 no_timer_check rcupdate.rcu_cpu_stall_suppress=1 rdinit=/test/start" </dev/null >"$work/told" 2>&1 || true
fi
tr -d '\r' <"$work/told" | sed -n '/^== /,$p' >"$work/results"
cat "$work/results"
grep -q '^== end' "$work/results" || { tail -n 20 "$work/told"; echo "the machine stopped before its end"; }
awk -v ended="$(grep -c '^== end' "$work/results")" '/^[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped$/ {p += $1; f += $3; s += $5} /^\[FAIL\] vers/ {f++} END {
  f += !ended; printf "%d passed, %d failed, %d skipped\n", p, f, s; exit f != 0}' "$work/results"
