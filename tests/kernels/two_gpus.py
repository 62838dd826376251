#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Two NVIDIA GPUs in one process: tests/kernels/two_gpus.py BUNDLE [SEED]

BUNDLE has `add[T=f32]` of kernels/elementwise.kiln for the GPUs. The packages kiln and torch are imported. Draws which GPU is current, which one holds the
data, streams and threads; each result, what stands after it and the current GPU afterwards are compared. Prints `N passed, N failed`.
"""
import random
import sys
import threading

import kiln
import torch

library = kiln.Library(sys.argv[1])
seed = int(sys.argv[2]) if len(sys.argv) > 2 else random.randrange(1 << 30)
print("seed", seed)
if torch.cuda.device_count() < 2:
    print("0 passed, 0 failed: there are no two GPUs")
    sys.exit(0)
kernels = [library.device(f"cuda:{index}").kernel("add[T=f32]") for index in range(2)]
counts = {True: 0, False: 0}


def expect(condition, what):
    counts[bool(condition)] += 1
    if not condition:
        print("FAILED", what)


def launch(draw, step):
    """The caller's GPU, the GPU of the data, and half of the time a new stream of it, are drawn."""
    current, of_data = draw.randrange(2), draw.randrange(2)
    torch.cuda.set_device(current)
    stream = torch.cuda.Stream(device=of_data) if draw.randrange(2) else torch.cuda.default_stream(of_data)
    n, device = draw.randrange(1, 1 << draw.randrange(1, 21)), f"cuda:{of_data}"
    with torch.cuda.stream(stream):
        x, y, z = torch.randn(n, device=device), torch.randn(n, device=device), torch.full((n + 8,), 7.0, device=device)
        torch.cuda.set_device(current)
        kernels[of_data](x, y, z[:n], n)
        expect(torch.cuda.current_device() == current, f"step {step}: the current GPU after a launch")
        torch.cuda.set_device(of_data)
        twice = z * 2
    stream.synchronize()
    expect(torch.equal(z[:n], x + y) and torch.equal(twice[:n], (x + y) * 2) and bool((z[n:] == 7).all()), f"step {step}")


def mix(draw, step):
    where = [draw.randrange(2) for _ in range(3)]
    if len(set(where)) == 1:
        return
    tensors = [torch.ones(64, device=f"cuda:{index}") for index in where]
    try:
        kernels[where[0]](*tensors, 64)
        expect(False, f"step {step}: memory of two GPUs was taken")
    except TypeError as error:
        expect("cuda:0" in str(error) and "cuda:1" in str(error), f"step {step}: {error}")


def work(number):
    draw = random.Random(seed * 64 + number)
    for step in range(400):
        (mix if draw.randrange(8) == 0 else launch)(draw, f"{number}.{step}")


threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(f"{counts[True]} passed, {counts[False]} failed")
sys.exit(counts[False] != 0)
