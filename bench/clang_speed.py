#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compile time of five kernels beside clang-22 compiling the same kernels written in OpenCL C.

bench/clang_speed.py [BUILD] [--repeat 15]

Whole processes on both sides, in turn: `kiln compile` without a cache (it starts its code generator) and `clang-22 -O2 -c`; to a linked code
object for gfx942 (clang links with lld) and to PTX for sm_90.
"""
import argparse
import statistics
import subprocess
import tempfile
import time

KERNELS = {"add": ("elementwise", "add[T=f32]"), "gelu": ("elementwise", "gelu[T=f32]"), "softmax": ("softmax", "softmax[T=f32]"),
           "rms_norm": ("norms", "rms_norm[T=f32]"), "transpose": ("transpose", "transpose[T=f32]")}


def clang(name, target, out):
    machine = ["-target", "amdgcn-amd-amdhsa", "-mcpu=gfx942", "-nogpulib"] if target == "gfx942" else ["-target", "nvptx64-nvidia-cuda", "-march=sm_90", "-S"]
    return ["clang-22", "-x", "cl", "-cl-std=CL2.0", "-Xclang", "-finclude-default-header", "-O2", *machine, "-Ibench/opencl", f"bench/opencl/{name}.cl", "-o", out]


def kiln(build, name, target, out):
    source, kernel = KERNELS[name]
    return [build + "/bin/kiln", "compile", f"kernels/{source}.kiln", "-k", kernel, "--no-cache", "--ptx-assembler=none", "-t", target, "-o", out]


def milliseconds(command):
    start = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return (time.perf_counter() - start) * 1e3


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build", nargs="?", default="build/release")
    parser.add_argument("--repeat", type=int, default=15)
    options = parser.parse_args()
    print(f"{'target':8} {'kernel':10} {'kiln ms':>8} {'clang ms':>9} {'clang/kiln':>10}")
    with tempfile.TemporaryDirectory() as work:
        for target, ours in (("gfx942", "gfx942"), ("sm_90", "sm_90")):
            for name in KERNELS:
                pairs = [(milliseconds(kiln(options.build, name, ours, work + "/a")), milliseconds(clang(name, target, work + "/b")))
                         for _ in range(options.repeat)]
                print(f"{target:8} {name:10} {statistics.median(k for k, _ in pairs):8.1f} {statistics.median(c for _, c in pairs):9.1f} "
                      f"{statistics.median(c / k for k, c in pairs):10.2f}")


if __name__ == "__main__":
    main()
