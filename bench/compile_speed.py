#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compile speed of kernels/: kernels per second and core, split by stage.

bench/compile_speed.py [BUILD] [--targets a,b] [--jobs 1,2] [--assembler none|nvjitlink|ptxas] [--repeat 3]

Compiles every kernel of kernels/ with the cache off and prints, for each target and number of workers, objects, wall time, objects per second
and worker, and the share of each stage. The front end's share is wall time that is not in the workers' stages (one worker only).
"""
import argparse
import glob
import json
import statistics
import subprocess
import tempfile
import time

STAGES = ["middle", "lower", "optimise", "emit", "assemble", "link"]


def build(options, target, jobs):
    with tempfile.TemporaryDirectory() as folder:
        command = [options.build + "/bin/kiln", "build", *sorted(glob.glob("kernels/*.kiln")), "--target", target, "--no-cache", "--json",
                   "-j", str(jobs), "-o", folder + "/k.kbundle"]
        if options.assembler:
            command.append("--ptx-assembler=" + options.assembler)
        start = time.perf_counter()
        done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
        return time.perf_counter() - start, json.loads(done.stdout)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build", nargs="?", default="build/release")
    parser.add_argument("--targets", default="sm_90a,gfx942")
    parser.add_argument("--jobs", default="1,2")
    parser.add_argument("--assembler", default="")
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    print(f"{'target':10} {'workers':>7} {'objects':>7} {'wall s':>7} {'per s':>7} {'ms median':>9}  stages in % of the workers' time")
    for target in options.targets.split(","):
        for jobs in map(int, options.jobs.split(",")):
            runs = sorted((build(options, target, jobs) for _ in range(options.repeat)), key=lambda r: r[0])
            wall, report = runs[len(runs) // 2]
            work = [j for j in report["jobs"] if j["state"] == "compiled"]
            total = sum(j["ns"] for j in work)
            shares = " ".join(f"{s} {100 * sum(j[s + '_ns'] for j in work) / total:.0f}" for s in STAGES)
            median = statistics.median(j["ns"] for j in work) / 1e6
            print(f"{target:10} {jobs:7} {len(work):7} {wall:7.2f} {len(work) / wall:7.1f} {median:9.2f}  {shares}")


if __name__ == "__main__":
    main()
