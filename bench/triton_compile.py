#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compile time of Triton IR files: Kiln beside Triton, same files, same machine, one process each, caches off.

bench/triton_compile.py CASES [--build DIR] [--targets cuda:90,hip:gfx942,hip:gfx1100] [--limit N]

CASES holds folders with kernel.ttir and case.json. Both compile in one warm process: Triton's figures come from its own compilation listener
(stages in ms; process start, import and cache writes left out), Kiln's from `kiln build --json -j1` (stages of the worker, and the front end's
mean). Prints per target medians, totals and ratios, with and without the vendor's assembler.
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
STAGES = ("middle", "lower", "optimise", "emit", "assemble", "link")


def kiln_target(target):
    return NAMES.get(target, target.split(":")[1])


def kiln_all(options, folders, target):
    """Stage times in ms by folder; folders that do not compile are absent. Kernels of one name are told apart by a number."""
    with tempfile.TemporaryDirectory() as work:
        for i, folder in enumerate(folders):
            with open(folder + "/kernel.ttir") as f:
                text = f.read()
            name = re.search(r"tt\.func public @([\w$.]+)", text)[1]
            with open(f"{work}/k{i}.ttir", "w") as f:
                f.write(text.replace("@" + name + "(", f"@{name}_k{i}(", 1))
            with open(folder + "/case.json") as f:
                facts = json.load(f)
            with open(f"{work}/k{i}.json", "w") as f:
                json.dump({"num_warps": facts["num_warps"], "num_stages": facts["num_stages"]}, f)
        sources = [f"{work}/k{i}.ttir" for i in range(len(folders))]
        command = [options.build + "/bin/kiln", "build", *sources, "--target", kiln_target(target), "--no-cache", "--json", "--keep-going", "-j1", "-o",
                   work + "/all.kbundle"]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        report = json.loads(done.stdout[: done.stdout.rindex("]}") + 2])
        front = report["front_ns"] / 1e6 / max(1, len(report["jobs"]))
        found = {}
        for job in report["jobs"]:
            if job["state"] == "compiled":
                stages = {s: job[s + "_ns"] / 1e6 for s in STAGES}
                stages["front"] = front
                stages["pipe"] = job["ns"] / 1e6 - sum(job[s + "_ns"] / 1e6 for s in STAGES)
                found[folders[int(re.search(r"_k(\d+)$", job["kernel"])[1])]] = stages
        return found


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
    rows, ours = [], kiln_all(options, folders, target)
    for i, folder in enumerate(folders):
        with open(folder + "/case.json") as f:
            facts = json.load(f)
        peer = triton_once(triton, folder, facts, target)
        if i == 0:
            peer = triton_once(triton, folder, facts, target)  # the first compile of a process pays for loading
        rows.append((folder, ours.get(folder), peer))
    return rows


def report(target, rows):
    both = [(k, t) for _, k, t in rows if k and t]
    print(f"{target}: {len(rows)} files; kiln fails {sum(1 for r in rows if not r[1])}, Triton fails {sum(1 for r in rows if not r[2])}")
    if not both:
        return
    last = "cubin" if target.startswith("cuda") else None
    kiln_whole = [sum(k.values()) for k, _ in both]
    kiln_own = [a - k.get("assemble", 0) for a, (k, _) in zip(kiln_whole, both)]
    peer_all = [sum(t.values()) for _, t in both]
    peer_own = [a - t.get(last, 0) for a, (_, t) in zip(peer_all, both)]
    for name, ours, theirs in (("without assembler", kiln_own, peer_own), ("whole", kiln_whole, peer_all)):
        ratio = [t / k for k, t in zip(ours, theirs)]
        print(f"  {name:18} kiln median {statistics.median(ours):8.2f} ms total {sum(ours) / 1e3:7.2f} s | Triton median "
              f"{statistics.median(theirs):8.2f} ms total {sum(theirs) / 1e3:7.2f} s | ratio by total {sum(theirs) / sum(ours):5.2f}, "
              f"median of ratios {statistics.median(ratio):5.2f}")
    for stage in ("front", *STAGES, "pipe"):
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
