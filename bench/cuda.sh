#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Launches and first results on an NVIDIA device, beside the driver, Triton and Helion: bench/cuda.sh FOLDER
#
# FOLDER has cuda_launch, launch_outside, libkiln, empty.kbundle, kernels.kbundle and add.cubin, as `make bench-cuda` leaves them in build/<config>/bench; only it, bench/ and
# a driver are needed, so it can be carried to another machine. PYTHON names the interpreter with PyTorch and Triton; HELION a folder to import Helion
# from, where it is not installed. A peer that is absent is named and left out.
set -u
folder=${1:?usage: bench/cuda.sh FOLDER}
here=$(dirname "$0")
python=${PYTHON:-python3}
status=0

section() { printf '\n== %s\n' "$1"; }

section "launches: the driver and libkiln"
"$folder/cuda_launch" launch "$folder/empty.kbundle" || status=1
section "launches as an application sees them"
"$folder/launch_outside" "$folder/empty.kbundle" "$folder/libkiln.so.0" || status=1
section "from exec to the first result: a bundle, a loose file"
"$folder/cuda_launch" first "$folder/kernels.kbundle" "$folder/add.cubin" || status=1
section "Triton"
if "$python" -c 'import torch, triton' 2>/dev/null; then "$python" "$here/cuda_peers.py" || status=1
else echo "PyTorch with Triton is absent"; fi
section "Helion"
if "$python" -c 'import torch, triton' 2>/dev/null; then PYTHONPATH=${HELION:-}${HELION:+:}${PYTHONPATH:-} "$python" "$here/cuda_helion.py" || status=1
else echo "PyTorch with Triton is absent"; fi
exit $status
