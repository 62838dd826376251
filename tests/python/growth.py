#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a process grows by over many launches: growth.py FOLDER DEVICE [LAUNCHES]; 10,000,000 without the third. FOLDER as for bench/python_launch.py.

Each kind of launch has its share: tensors of PyTorch where DEVICE is cuda:0 (arrays of NumPy otherwise), kernel[grid], prepared, prepared with one argument set
anew. Prints the resident size after a tenth and at the end, and fails where it grew by more than a mebibyte.
"""
import os
import sys
import time

FOLDER, DEVICE = os.path.abspath(sys.argv[1]), sys.argv[2]
LAUNCHES = int(sys.argv[3]) if len(sys.argv) > 3 else 10_000_000
sys.path.insert(0, FOLDER)

import kiln  # noqa: E402

N = 1024


def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024


def arrays():
    if DEVICE.startswith("cuda"):
        import torch
        return [torch.zeros(N, device="cuda") for _ in range(2)], torch.cuda.synchronize
    import numpy
    return [numpy.zeros(N, numpy.float32) for _ in range(2)], lambda: None


def main():
    device = kiln.Library(os.path.join(FOLDER, "python_launch.kbundle")).device(DEVICE)
    kernel = device.kernel("arrays2")
    (x, y), wait = arrays()
    prepared, block = kernel.prepare(x, y, N), 1000

    def some():
        for _ in range(block // 4):
            kernel(x, y, N)
            kernel[8](x, y, N)
            prepared()
            prepared.set(1, x)
            prepared()
        wait()

    start, early = time.monotonic(), None
    for i in range(LAUNCHES // block):
        some()
        if i == LAUNCHES // block // 10:
            early = resident()
    end = resident()
    print("%d launches on %s in %.1f s: %d KiB after a tenth, %d at the end" % (LAUNCHES, DEVICE, time.monotonic() - start, early, end))
    return end - early > 1024


if __name__ == "__main__":
    sys.exit(main())
