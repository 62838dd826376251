#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# The runtime's wheel for aarch64, run by an emulator: tests/python/aarch64.sh WHEEL ROOT [QEMU]. WHEEL is what tools/wheel.sh -a ROOT made,
# ROOT the same unpacked Debian with python3.11 besides, QEMU a static qemu-aarch64. The README's kernel is compiled for aarch64 here and
# launched there. Ends with the line `N passed, N failed, N skipped`.
set -eu
wheel=$(realpath "${1:?usage: tests/python/aarch64.sh WHEEL ROOT [QEMU]}") root=$(realpath "${2:?}") qemu=${3:-qemu-aarch64-static}
cd "$(dirname "$0")/../.."
kiln=${KILN_BUILD:-build/release}/bin/kiln
command -v "$qemu" >/dev/null || { echo "[SKIP] $qemu is not installed"; echo "0 passed, 0 failed, 1 skipped"; exit 0; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

awk '/^```/ {inside = !done && $0 == "```kiln"; if (!inside && seen) done = 1; next} inside {print; seen = 1}' README.md >"$work/add.kiln"
"$kiln" build -q --no-cache -t aarch64 "$work/add.kiln" -o "$work/app.kbundle"
python3 -m zipfile -e "$wheel" "$work/site"
cat >"$work/app.py" <<'END'
import array, platform, sys
sys.path.insert(0, sys.argv[1] + "/site")
import kiln
assert platform.machine() == "aarch64", platform.machine()
library = kiln.Library(sys.argv[1] + "/app.kbundle")
device = library.device("host")
x, y, z = (device.memory(3000, "f32") for _ in range(3))
x.copy_in(array.array("f", range(3000)))
y.copy_in(array.array("f", [0.5] * 3000))
add = device.kernel("add")
for _ in range(1000):
    add(x, y, z, 3000)
prepared = add.prepare(x, z, y, 3000)
prepared()
assert array.array("f", bytes(z)).tolist() == [i + 0.5 for i in range(3000)]
assert array.array("f", bytes(y)).tolist() == [2 * i + 0.5 for i in range(3000)]
for arguments, text in (((b"abcd", y, z, 1), "expected elements of type f32, found u8"), ((x, y, 1.5, 1), "expected an array"), ((x, y, z, 1 << 40), "is not a value of type i32")):
    try:
        add(*arguments)
    except (TypeError, OverflowError) as error:
        assert text in str(error), error
    else:
        raise AssertionError(arguments)
print("%s on %s, kiln %s" % (add, device.target, kiln.version()))
END
if PYTHONHOME=$root/usr PYTHONDONTWRITEBYTECODE=1 "$qemu" -L "$root" "$root/usr/bin/python3.11" -S "$work/app.py" "$work"; then echo "1 passed, 0 failed, 0 skipped"
else echo "0 passed, 1 failed, 0 skipped"; exit 1; fi
