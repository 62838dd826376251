#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Runs a program whose cuda:0 is the interpreter of PTX: tests/emulation/interpreted.sh 80 COMMAND...
# KILN_BUILD names the build folder; cuda_interpreted.c says what else may be set. Code has to be PTX (--emit=ptx where an assembler is there).
set -eu
build=$(cd "${KILN_BUILD:-build/release}" && pwd)
export KILN_PTX_TARGET=$1; shift
export LD_LIBRARY_PATH=$build/interpreted${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
exec "$@"
