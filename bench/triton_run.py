#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Run time of recorded Triton kernels on a GPU: Kiln's code beside Triton's own cubin, same grid, same buffers, same process.

bench/triton_run.py CASES [--build DIR] [--count 30] [--all]

Both are captured in a CUDA graph of many launches and replayed, so launch cost does not hide the kernels. Every case with data is timed with Triton
first; the heaviest are then timed with both, in turn, and printed worst first. Needs PyTorch and Triton.
"""
import argparse
import ctypes
import json
import os
import statistics
import struct
import subprocess
import sys
import tempfile

SCALARS = {"i1": "<B", "u1": "<B", "i8": "<b", "u8": "<B", "i16": "<h", "u16": "<H", "i32": "<i", "u32": "<I", "i64": "<q", "u64": "<Q", "fp32": "<f",
           "f32": "<f", "fp64": "<d", "f64": "<d"}


class KilnError(ctypes.Structure):
    _fields_ = [("status", ctypes.c_int), ("text", ctypes.c_char * 1000)]


class Kiln:
    def __init__(self, path):
        self.lib = ctypes.CDLL(path)
        self.lib.kiln_kernel_name.restype = ctypes.c_char_p
        self.lib.kiln_block_size.restype = ctypes.c_size_t

    def must(self, status, err):
        if status:
            raise RuntimeError(err.text.decode())

    def open(self, bundle):
        err, library, device, kernel = KilnError(), ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
        self.must(self.lib.kiln_open_file(bundle.encode(), ctypes.byref(library), ctypes.byref(err)), err)
        self.must(self.lib.kiln_device_open(library, b"cuda:0", ctypes.byref(device), ctypes.byref(err)), err)
        name = self.lib.kiln_kernel_name(library, ctypes.c_size_t(0))
        if name is None:
            raise RuntimeError("the bundle has no kernel, or is damaged")
        self.must(self.lib.kiln_kernel_get(device, name, None, ctypes.byref(kernel), ctypes.byref(err)), err)
        self.must(self.lib.kiln_preload(kernel, ctypes.byref(err)), err)
        return kernel

    def launch(self, kernel, stream, grid, block):
        err = KilnError()
        self.must(self.lib.kiln_launch_grid(kernel, ctypes.c_void_p(stream), (ctypes.c_uint32 * 3)(*grid), block, ctypes.c_size_t(len(block)),
                                            ctypes.byref(err)), err)


def load(torch, folder, facts):
    buffers = []
    for i, _ in enumerate(facts["buffers"]):
        with open(f"{folder}/in{i}.bin", "rb") as f:
            buffers.append(torch.frombuffer(bytearray(f.read() or b"\0"), dtype=torch.uint8).cuda())
    return buffers


def arguments(facts, buffers):
    """(packed block for Kiln, list of values for Triton's launcher)"""
    block, values = bytearray(), []
    for a in facts["args"]:
        sig = a["sig"]
        if sig == "constexpr":
            continue
        if "buffer" in a:
            value = buffers[a["buffer"]].data_ptr() + a["offset_bytes"]
            raw, align = struct.pack("<Q", value), 8
        elif sig in SCALARS:
            text = a["value"]
            value = float(text) if sig[0] == "f" else int(text) if text not in ("True", "False") else int(text == "True")
            raw = struct.pack(SCALARS[sig], value)
            align = len(raw)
        else:
            raise RuntimeError(f"argument {a['name']} has kind {a['kind']} and type {sig}")
        block += b"\0" * (-len(block) % align) + raw
        values.append(value)
    return bytes(block + b"\0" * (-len(block) % 8)), values


def timed(torch, launch, count=20, rounds=7):
    """Median microseconds of one launch: graphs of `count` launches, replayed."""
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        launch(side.cuda_stream)
    side.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=side):
        for _ in range(count):
            launch(side.cuda_stream)
    graph.replay()
    torch.cuda.synchronize()
    times = []
    for _ in range(rounds):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end) * 1e3 / count)
    return statistics.median(times)


def triton_launcher(triton, folder, facts, values):
    compiled = triton.compile(folder + "/kernel.ttir", options={"num_warps": facts["num_warps"], "num_stages": facts["num_stages"]})
    compiled._init_handles()
    grid = (list(facts["grid"]) + [1, 1])[:3]

    def launch(stream):
        compiled.run(grid[0], grid[1], grid[2], stream, compiled.function, compiled.packed_metadata, None, None, None, *values)

    return launch


def kiln_launcher(kiln, options, folder, facts, block):
    bundle = tempfile.mktemp(suffix=".kbundle")
    subprocess.run([options.build + "/bin/kiln", "build", folder + "/kernel.ttir", "--target", "sm_90a", f"--warps={facts['num_warps']}",
                    f"--stages={facts['num_stages']}", "--no-cache", "-q", "-o", bundle], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    kernel = kiln.open(bundle)
    os.unlink(bundle)
    grid = (list(facts["grid"]) + [1, 1])[:3]
    return lambda stream: kiln.launch(kernel, stream, grid, block)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("cases")
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--count", type=int, default=30)
    options = parser.parse_args()
    try:
        import torch
        import triton
    except ImportError:
        sys.exit("PyTorch and Triton are needed")
    os.environ["TRITON_CACHE_DIR"] = tempfile.mkdtemp()
    kiln = Kiln(options.build + "/lib/libkiln.so.0")
    rows, skipped = [], []
    for entry in sorted(os.scandir(options.cases), key=lambda e: e.name):
        if not os.path.exists(entry.path + "/case.json"):
            continue
        with open(entry.path + "/case.json") as f:
            facts = json.load(f)
        if not facts.get("golden"):
            continue
        try:
            buffers = load(torch, entry.path, facts)
            block, values = arguments(facts, buffers)
            rows.append((timed(torch, triton_launcher(triton, entry.path, facts, values), rounds=3), entry.name, facts))
        except Exception as error:  # noqa: BLE001 - listed below
            skipped.append((entry.name, str(error)[:100]))
    rows.sort(key=lambda r: -r[0])
    results = []
    for _, name, facts in rows[: options.count]:
        folder = options.cases + "/" + name
        try:
            buffers = load(torch, folder, facts)
            block, values = arguments(facts, buffers)
            ours, theirs = kiln_launcher(kiln, options, folder, facts, block), triton_launcher(triton, folder, facts, values)
            pairs = [(timed(torch, ours), timed(torch, theirs)) for _ in range(3)]
            results.append((statistics.median(t / k for k, t in pairs), statistics.median(k for k, _ in pairs), statistics.median(t for _, t in pairs), name))
        except Exception as error:  # noqa: BLE001
            skipped.append((name, str(error)[:100]))
    print(f"{torch.cuda.get_device_name()}, Triton {triton.__version__}; {len(rows)} cases timed, {len(results)} heaviest compared")
    print(f"{'Triton/Kiln':>11} {'Kiln us':>9} {'Triton us':>9}  case")
    for ratio, k, t, name in sorted(results):
        print(f"{ratio:11.3f} {k:9.2f} {t:9.2f}  {name}")
    for name, why in skipped:
        print(f"left out: {name}: {why}")


if __name__ == "__main__":
    main()
