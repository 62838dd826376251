#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Processor time of compiles by two builds of Kiln, the same texts, the two in turn: what a change of the compiler costs.

bench/compile_before.py BEFORE NOW [--cases FOLDER] [--kernels FOLDER] [--target sm_90a] [--repeat 3] [--triton]

BEFORE and NOW hold `kiln` and what it starts. CASES has folders with kernel.ttir and case.json, KERNELS files in Kiln's language that both builds
take. Each text is a process of its own; the time of an empty kernel is taken off. The least of the repetitions counts. Sums and medians of ratios,
of texts with a product and without. --triton compiles the texts with a product by Triton too, warm, in this process, without its cache; its time
to machine code leaves out the assembler, which is a process of its own.
"""
import argparse
import glob
import json
import os
import resource
import statistics
import subprocess
import tempfile
import time


def processor_time(command):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return seconds if done.returncode == 0 else None


def least(options, arguments, repeat):
    """By build; None where one of them does not compile."""
    times = {b: [] for b in (options.before, options.now)}
    for i in range(repeat):
        for b in sorted(times, reverse=i % 2):
            times[b].append(processor_time([b + "/kiln", *arguments, "-t", options.target, "--ptx-assembler=none", "--no-cache", "-q"]))
    return None if None in sum(times.values(), []) else [min(times[options.before]), min(times[options.now])]


def compile_arguments(folder):
    with open(folder + "/case.json") as f:
        facts = json.load(f)
    return ["compile", folder + "/kernel.ttir", f"--warps={facts['num_warps']}", f"--stages={max(1, facts['num_stages'])}", "-o", "/dev/null"], facts


def report(name, pairs):
    if pairs:
        ratios = sorted(now / before for before, now in pairs)
        print(f"{name:28} {len(pairs):4}  before {sum(p[0] for p in pairs):8.3f} s  now {sum(p[1] for p in pairs):8.3f} s  ratio of sums "
              f"{sum(p[1] for p in pairs) / sum(p[0] for p in pairs):.2f}  median {statistics.median(ratios):.2f}  largest {ratios[-1]:.2f}", flush=True)


def triton_times(folders):
    import triton
    from triton.backends.compiler import GPUTarget

    for i, (folder, facts) in enumerate(folders[:1] + folders):
        start = time.process_time()
        try:
            triton.compile(folder + "/kernel.ttir", target=GPUTarget("cuda", 90, 32), options={"num_warps": facts["num_warps"], "num_stages": facts["num_stages"]})
        except Exception:  # noqa: BLE001 - what the peer cannot compile is left out
            continue
        if i:
            yield folder, time.process_time() - start


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("before")
    parser.add_argument("now")
    parser.add_argument("--cases", default="")
    parser.add_argument("--kernels", default="")
    parser.add_argument("--target", default="sm_90a")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--triton", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        os.environ.update(KILN_CACHE_DIR=work + "/cache", TRITON_CACHE_DIR=work + "/triton", TRITON_ALWAYS_COMPILE="1")
        with open(work + "/empty.kiln", "w") as f:
            f.write("kiln 1\nkernel k(x: out *f32) @grid(1) @config(warps = 1) { store(x, 1.0) }\n")
        for b in (options.before, options.now):  # the worker's content is read once and remembered in the cache
            processor_time([b + "/kiln", "compile", work + "/empty.kiln", "-t", options.target, "--ptx-assembler=none", "-q", "-o", "/dev/null"])
        empty = least(options, ["compile", work + "/empty.kiln", "-o", "/dev/null"], 9)
        kinds, products, ours = {False: [], True: []}, [], {}
        for folder in sorted(glob.glob(options.cases + "/*/")) if options.cases else ():
            arguments, facts = compile_arguments(folder.rstrip("/"))
            with open(folder + "kernel.ttir") as f:
                has_product = "tt.dot" in f.read()
            pair = least(options, arguments, options.repeat)
            if pair:
                pair = [max(p - e, 1e-4) for p, e in zip(pair, empty)]
                kinds[has_product].append(pair)
                if has_product:
                    products.append((folder.rstrip("/"), facts))
                    ours[folder.rstrip("/")] = pair[1]
        report("texts without a product", kinds[False])
        report("texts with a product", kinds[True])
        for path in sorted(glob.glob(options.kernels + "/*.kiln")) if options.kernels else ():
            pair = least(options, ["build", path, "-j1", "-o", work + "/k.kbundle"], options.repeat)
            report(os.path.basename(path), [pair] if pair else [])
        if options.triton:
            pairs = [(seconds, ours[folder], folder) for folder, seconds in triton_times(products)]
            for seconds, mine, folder in sorted(pairs, key=lambda p: p[0] / p[1])[:5]:
                print(f"  {os.path.basename(folder):60} Triton {1e3 * seconds:8.1f} ms  Kiln {1e3 * mine:8.1f} ms  {seconds / mine:.1f}")
            print(f"{len(pairs)} texts: Triton / Kiln by sums {sum(p[0] for p in pairs) / sum(p[1] for p in pairs):.1f}, "
                  f"median {statistics.median(p[0] / p[1] for p in pairs):.1f}")


if __name__ == "__main__":
    main()
