#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Nanoseconds a launch through Helion, for kernels of 2, 8 and 16 arguments (tensors and integers in turn) that write one block; medians.

bench/cuda_helion.py     needs PyTorch, Triton and Helion; says so and ends well where Helion is absent.
The configuration is given, so nothing is tuned. Helion drops arguments that a kernel does not use before it launches; its own checks see all.
"""
import statistics
import sys
import threading
import time

import torch

try:
    import helion
    import helion.language as hl
except ImportError as why:
    print(f"Helion is absent: {why}")
    sys.exit(0)

CONFIG = helion.Config(block_sizes=[128], num_warps=4)


@helion.kernel(config=CONFIG, static_shapes=False)
def empty2(p0: torch.Tensor, n1: int):
    for tile in hl.tile(p0.size(0)):
        p0[tile] = 0.0


@helion.kernel(config=CONFIG, static_shapes=False)
def empty8(p0: torch.Tensor, n1: int, p2: torch.Tensor, n3: int, p4: torch.Tensor, n5: int, p6: torch.Tensor, n7: int):
    for tile in hl.tile(p0.size(0)):
        p0[tile] = 0.0


@helion.kernel(config=CONFIG, static_shapes=False)
def empty16(p0: torch.Tensor, n1: int, p2: torch.Tensor, n3: int, p4: torch.Tensor, n5: int, p6: torch.Tensor, n7: int,
            p8: torch.Tensor, n9: int, p10: torch.Tensor, n11: int, p12: torch.Tensor, n13: int, p14: torch.Tensor, n15: int):
    for tile in hl.tile(p0.size(0)):
        p0[tile] = 0.0


def launches(kernel, count, out, barrier, rounds, each=200):
    stream, x = torch.cuda.Stream(), torch.zeros(128, device="cuda")
    values = [112 if i & 1 else x for i in range(count)]
    times = []
    with torch.cuda.stream(stream):
        for _ in range(rounds + 3):
            barrier.wait()
            begin = time.perf_counter_ns()
            for _ in range(each):
                kernel(*values)
            times.append((time.perf_counter_ns() - begin) / each)
            stream.synchronize()
    out.append(statistics.median(times[3:]))


def main():
    print(f"Helion {getattr(helion, '__version__', '?')}, PyTorch {torch.__version__}")
    for kernel, count in ((empty2, 2), (empty8, 8), (empty16, 16)):
        x = torch.zeros(128, device="cuda")
        kernel(*[112 if i & 1 else x for i in range(count)])  # compiles
        for threads in (1, 16):
            barrier, out = threading.Barrier(threads), []
            workers = [threading.Thread(target=launches, args=(kernel, count, out, barrier, 31 if threads == 1 else 7)) for _ in range(threads)]
            for w in workers:
                w.start()
            for w in workers:
                w.join()
            print(f"{count:2} arguments, {threads:2} threads: Helion {statistics.median(out):8.0f} ns", flush=True)


if __name__ == "__main__":
    main()
