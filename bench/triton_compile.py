#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compile time of Triton IR files: Kiln beside Triton, same files, same machine, one process each, caches off.

bench/triton_compile.py CASES [--build DIR] [--targets cuda:90,hip:gfx942,hip:gfx1100] [--limit N]

CASES holds folders with kernel.ttir and case.json. Triton's figures come from its own compilation listener (stages in ms, process start, import
and cache writes left out); Kiln's are the worker's stage times plus its front end, as `kiln compile --time` prints them. Prints per target
the medians, the totals, and the ratios, with and without the vendor's assembler.
"""
import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

NAMES = {"cuda:90": "sm_90a"}


def kiln_target(target):
    return NAMES.get(target, target.split(":")[1])


def kiln_once(options, folder, facts, target):
    command = [options.build + "/bin/kiln", "compile", folder + "/kernel.ttir", "--target", kiln_target(target), "--no-cache", "--time",
               f"--warps={facts['num_warps']}", f"--stages={facts['num_stages']}"]
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    stages = {m[1]: float(m[2]) for m in re.finditer(r"^(\w+)\s+([\d.]+) ms$", done.stderr, re.M)}
    return stages if done.returncode == 0 and "front" in stages else None


def triton_once(triton, folder, facts, target):
    from triton.backends.compiler import GPUTarget

    kind, arch = target.split(":")
    gpu = GPUTarget("cuda", int(arch), 32) if kind == "cuda" else GPUTarget("hip", arch, 64 if arch.startswith("gfx9") else 32)
    seen = {}

    def listener(**kw):
        times = kw["times"]
        seen["init"] = times.ir_initialization / 1e3
        for name, us in times.lowering_stages:
            seen[name] = us / 1e3

    triton.knobs.compilation.listener = listener
    try:
        triton.compile(folder + "/kernel.ttir", target=gpu, options={"num_warps": facts["num_warps"], "num_stages": facts["num_stages"]})
    except Exception as error:  # noqa: BLE001 - a case that the peer cannot compile is counted, not hidden
        return None
    return seen


def measure(options, triton, target, folders):
    rows = []
    for i, folder in enumerate(folders):
        with open(folder + "/case.json") as f:
            facts = json.load(f)
        peer = triton_once(triton, folder, facts, target)
        if i == 0:
            peer = triton_once(triton, folder, facts, target)  # the first compile of a process pays for loading
        rows.append((folder, kiln_once(options, folder, facts, target), peer))
    return rows


def report(target, rows):
    both = [(k, t) for _, k, t in rows if k and t]
    print(f"{target}: {len(rows)} files; kiln fails {sum(1 for r in rows if not r[1])}, Triton fails {sum(1 for r in rows if not r[2])}")
    if not both:
        return
    last = "cubin" if target.startswith("cuda") else None
    kiln_all = [sum(v for n, v in k.items() if n != "whole") for k, _ in both]
    kiln_own = [a - k.get("assemble", 0) for a, (k, _) in zip(kiln_all, both)]
    peer_all = [sum(t.values()) for _, t in both]
    peer_own = [a - t.get(last, 0) for a, (_, t) in zip(peer_all, both)]
    for name, ours, theirs in (("without assembler", kiln_own, peer_own), ("whole", kiln_all, peer_all)):
        ratio = [t / k for k, t in zip(ours, theirs)]
        print(f"  {name:18} kiln median {statistics.median(ours):8.2f} ms total {sum(ours) / 1e3:7.2f} s | Triton median "
              f"{statistics.median(theirs):8.2f} ms total {sum(theirs) / 1e3:7.2f} s | ratio by total {sum(theirs) / sum(ours):5.2f}, "
              f"median of ratios {statistics.median(ratio):5.2f}")
    for stage in ("front", "middle", "lower", "optimise", "emit", "assemble", "link"):
        values = [k.get(stage, 0) for k, _ in both]
        print(f"    kiln {stage:9} median {statistics.median(values):8.2f} ms total {sum(values) / 1e3:7.2f} s")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("cases")
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--targets", default="cuda:90,hip:gfx942,hip:gfx1100")
    parser.add_argument("--limit", type=int, default=0)
    options = parser.parse_args()
    os.environ["TRITON_ALWAYS_COMPILE"] = "1"
    os.environ["TRITON_CACHE_DIR"] = tempfile.mkdtemp()
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    try:
        import triton
    except ImportError:
        sys.exit("Triton is not installed: nothing to compare with")
    print(f"Triton {triton.__version__}; one core; {time.strftime('%Y-%m-%d')}")
    folders = sorted(e.path for e in os.scandir(options.cases) if os.path.exists(e.path + "/kernel.ttir"))
    if options.limit:
        folders = folders[:: max(1, len(folders) // options.limit)]
    for target in options.targets.split(","):
        report(target, measure(options, triton, target, folders))


if __name__ == "__main__":
    main()
