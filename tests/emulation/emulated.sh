#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Runs a program whose hip:0 is an emulator: tests/emulation/emulated.sh gfx1100 COMMAND...
# KILN_BUILD names the build folder; KILN_AMD_EMULATOR and KILN_AMDRUN the emulator and its driver; hip_device.py says what else may be set.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
build=$(cd "${KILN_BUILD:-build/release}" && pwd)
target=$1; shift
: "${KILN_AMD_EMULATOR:?names the work tree of an emulator}" "${KILN_AMDRUN:?names the program that runs code objects there}"
export KILN_EMULATED_DEVICE=$here/hip_device.py KILN_EMULATED_TARGET=$target
export LD_LIBRARY_PATH=$build/emulation${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
exec "$@"
