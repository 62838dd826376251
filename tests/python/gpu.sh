#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# The tests of the Python package, its examples and what a launch and a cold process cost on a machine with an NVIDIA GPU, Python 3.11 or newer, PyTorch
# and Triton, and no compiler of C: tests/python/gpu.sh WHEELS [COMMAND...]
#
# WHEELS has the two wheels of tools/wheel.sh. What has to be there besides: tests/python, bench, examples/python, kernels/norms.kiln,
# tests/ttir of the same tree, and build/release/bench/python for the last part. With COMMAND that is run instead, with the package in
# its path and the build that tests know in KILN_BUILD. PYTHON names the interpreter.
set -u
wheels=$(cd "${1:?usage: tests/python/gpu.sh WHEELS [COMMAND...]}" && pwd); shift
cd "$(dirname "$0")/../.."
python=${PYTHON:-python3}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

"$python" - "$wheels" "$folder/python" <<'END' || exit 1
import glob, os, sys, zipfile
for wheel in glob.glob(os.path.join(sys.argv[1], "*.whl")):
    with zipfile.ZipFile(wheel) as file:
        for entry in file.infolist():
            os.chmod(file.extract(entry, sys.argv[2]), entry.external_attr >> 16)
END
mkdir "$folder/lib"
ln -s "$folder/python/kiln_compiler/bin" "$folder/bin"
ln -s "$folder/python/kiln/libkiln.so.0" "$folder/lib/libkiln.so.0"
export KILN_BUILD=$folder PYTHONPATH=$folder/python KILN_PYTHON=$folder/python KILN_CACHE_DIR=$folder/cache PYTHONDONTWRITEBYTECODE=1
if [ $# -gt 0 ]; then "$@"; exit; fi

status=0
for test in kiln devices compiling torch lifetime; do echo "== test_$test"; "$python" tests/python/test_$test.py || status=1; done
echo "== test_triton on cuda"
KILN_TEST_DEVICE=cuda "$python" tests/python/test_triton.py || status=1
echo "== examples on cuda"
"$folder/bin/kiln" build -q -t host,sm_90a kernels/norms.kiln -o "$folder/norms.kbundle" &&
  "$python" examples/python/pytorch/train.py "$folder/norms.kbundle" cuda || status=1
"$python" examples/python/triton/add.py "$folder/add.kbundle" cuda || status=1
echo "== what a launch costs"
"$python" bench/python_launch.py build/release/bench/python || status=1
"$python" bench/python_cold.py build/release/bench/python || status=1
exit $status
