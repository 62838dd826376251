#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The measures of bench/cuda_launch.c for Triton: nanoseconds a launch of empty kernels, and the time from exec to the first result of a cached kernel.

bench/cuda_peers.py      needs PyTorch and Triton; medians.
"""
import os
import statistics
import subprocess
import sys
import threading
import time

BEGIN = time.monotonic_ns()
import torch
import triton
import triton.language as tl
IMPORTED = time.monotonic_ns()


@triton.jit
def add(x, y, z, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    live = i < n
    tl.store(z + i, tl.load(x + i, live) + tl.load(y + i, live), live)


@triton.jit
def empty2(p0, n1):
    pass


@triton.jit
def empty8(p0, n1, p2, n3, p4, n5, p6, n7):
    pass


@triton.jit
def empty16(p0, n1, p2, n3, p4, n5, p6, n7, p8, n9, p10, n11, p12, n13, p14, n15):
    pass


def launches(kernel, count, out, barrier, rounds=31, each=200):
    stream, x = torch.cuda.Stream(), torch.zeros(128, device="cuda")
    values = [112 if i & 1 else x for i in range(count)]
    times = []
    with torch.cuda.stream(stream):
        for _ in range(rounds + 3):
            barrier.wait()
            begin = time.perf_counter_ns()
            for _ in range(each):
                kernel[(1,)](*values)
            times.append((time.perf_counter_ns() - begin) / each)
            stream.synchronize()
    out.append(statistics.median(times[3:]))


def bench_launch():
    for kernel, count in ((empty2, 2), (empty8, 8), (empty16, 16)):
        for threads in (1, 16):
            barrier, out = threading.Barrier(threads), []
            rounds = 31 if threads == 1 else 7
            workers = [threading.Thread(target=launches, args=(kernel, count, out, barrier, rounds)) for _ in range(threads)]
            for w in workers:
                w.start()
            for w in workers:
                w.join()
            print(f"{count:2} arguments, {threads:2} threads: Triton {statistics.median(out):8.0f} ns", flush=True)


def child(start):
    marks = [("exec to the script", start, BEGIN), ("import torch and triton", BEGIN, IMPORTED)]
    now = time.monotonic_ns()
    x = torch.full((1024,), 1.5, device="cuda")
    y, z = x.clone(), torch.empty_like(x)
    torch.cuda.synchronize()
    then, now = now, time.monotonic_ns()
    marks.append(("device and memory", then, now))
    add[(1,)](x, y, z, 1024, BLOCK=1024)
    then, now = now, time.monotonic_ns()
    marks.append(("first launch of the cached kernel", then, now))
    host = z.cpu()
    marks.append(("wait and copy out", now, time.monotonic_ns()))
    assert bool((host == 3).all())
    for name, begin, end in marks:
        print((end - begin) / 1e3, name)


def drop_pages():
    """The next process reads Triton's cached files from the disk."""
    folder = os.environ.get("TRITON_CACHE_DIR") or os.path.expanduser("~/.triton/cache")
    for path, _, names in os.walk(folder):
        for name in names:
            fd = os.open(os.path.join(path, name), os.O_RDONLY)
            os.fdatasync(fd)
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(fd)


def bench_first(is_cold, processes=5):
    rows = {}
    for i in range(processes + 1):
        if is_cold:
            drop_pages()
        text = subprocess.run([sys.executable, __file__, "child", str(time.monotonic_ns())], check=True, capture_output=True, text=True).stdout
        for line in text.splitlines() if i else ():  # the first fills Triton's cache
            us, name = line.split(" ", 1)
            rows.setdefault(name, []).append(float(us))
    print("Triton, cached, its pages", "dropped" if is_cold else "in the cache")
    for name, values in rows.items():
        print(f"  {statistics.median(values):10.1f} us  {name}")
    print(f"  {statistics.median(map(sum, zip(*rows.values()))):10.1f} us  all")


if __name__ == "__main__":
    if len(sys.argv) == 3 and sys.argv[1] == "child":
        child(int(sys.argv[2]))
    else:
        bench_launch()
        bench_first(False)
        bench_first(True)
