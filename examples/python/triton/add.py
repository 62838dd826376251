#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A kernel of Triton that Kiln compiles, launched on the CPU or a GPU, and written out as a bundle: add.py add.kbundle [DEVICE]"""
import sys

import torch
import triton
import triton.language as tl

import kiln.triton


@triton.jit
def add(x, y, z, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(z + i, tl.load(x + i, mask=i < n) + tl.load(y + i, mask=i < n), mask=i < n)


def main():
    device = sys.argv[2] if len(sys.argv) > 2 else "cpu"
    x, y, z = torch.randn(3000, device=device), torch.randn(3000, device=device), torch.empty(3000, device=device)
    kiln.triton.jit(add)[lambda meta: (triton.cdiv(3000, meta["BLOCK"]),)](x, y, z, 3000, BLOCK=256)
    wrong = int((z != x + y).sum())
    # Ahead of time: the bundle needs neither Triton nor Python.
    library = kiln.triton.export(add, {"x": "*fp32", "y": "*fp32", "z": "*fp32", "n": "i32"}, {"BLOCK": 256}, output=sys.argv[1])
    x, y, z = x.cpu(), y.cpu(), torch.empty(3000)
    library.device("host").kernel("add")[triton.cdiv(3000, 256)](x, y, z, 3000)
    wrong += int((z != x + y).sum())
    print("3000 sums on %s, 3000 from %s, %d wrong" % (device, sys.argv[1], wrong))
    return wrong != 0


if __name__ == "__main__":
    sys.exit(main() if len(sys.argv) > 1 else __doc__)
