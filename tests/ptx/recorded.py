#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""PTX of recorded cases in the interpreter: Triton's, which is the interpreter's oracle, and ours.

    tests/ptx/recorded.py [--ptx DIR | --triton | --kiln] [--target sm_80] [--schedules N] [--seed N] CASES...

CASES are folders of recorded cases, or such cases. --ptx takes DIR/NAME.ptx as it is; --triton compiles with the Triton of this Python (no
GPU is needed: `python3 -m venv`, `pip install triton numpy`), --kiln with build/release/bin/kiln. Each case that has its memory runs with
what was recorded, under N schedules; anything the interpreter finds and any element that differs is a failure. Needs NumPy."""
import argparse
import json
import os
import subprocess
import sys
import tempfile

import numpy as np

BUILD = os.environ.get("KILN_BUILD", "build/release")
FLOATS = {"torch.float64": 1e-9, "torch.float32": 1e-3, "torch.float16": 5e-3, "torch.bfloat16": 3e-2}
KINDS = {"i1": "i8", "i8": "i8", "i16": "i16", "i32": "i32", "i64": "i64", "u32": "i32", "u64": "i64", "fp32": "f32", "fp64": "f64"}

# What is found in these is so (docs/ptx.md): part of the name, part of the finding, why.
KNOWN = [("flaggems__nll_loss_forward_kernel", "race: ", "the program's own race: an atomic add, then a plain load of the same location"),
         ("flaggems__var_mean_welford_kernel", "race: st.shared", "Triton's: lanes store results that differ in the last bit to one place"),
         ("tut08__grouped_matmul_tma_kernel", "access outside of memory", "follows addresses whose memory was not recorded"),
         ("helion___helion_two_rdim_rms_norm", "barriers of a block", "more barriers than the interpreter counts")]


def values(data, dtype):
    if dtype == "torch.bfloat16":
        return (np.frombuffer(data, np.uint16).astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    return np.frombuffer(data, {"torch.float64": np.float64, "torch.float32": np.float32, "torch.float16": np.float16}[dtype]).astype(np.float64)


def differs(got, want, dtype, is_coarse):
    """None, or what differs first. As `kiln check-case`: a share of the value, and near zero of the mean size."""
    if dtype not in FLOATS:
        return None if got == want else "bytes differ from %d on" % next(i for i in range(len(want)) if got[i] != want[i])
    size = {"torch.float64": 8, "torch.float32": 4}.get(dtype, 2)
    usable = len(want) // size * size
    a, b = values(got[:usable], dtype), values(want[:usable], dtype)
    share = 1e-2 if is_coarse and dtype == "torch.float32" else 1e-5 if dtype == "torch.float64" else FLOATS[dtype]
    with np.errstate(all="ignore"):
        finite = np.abs(b[np.isfinite(b)])
        mean = finite.mean() if finite.size else 0
        bad = ~((a == b) | (np.isnan(a) & np.isnan(b)) | (np.abs(a - b) <= share * np.maximum(np.abs(b), mean)))
    return "element %d: expected %r, found %r; %d differ" % (bad.argmax(), b[bad.argmax()], a[bad.argmax()], bad.sum()) if bad.any() else None


def compile_triton(case, facts, target, folder):
    import triton
    from triton.backends.compiler import GPUTarget
    kernel = triton.compile(case + "/kernel.ttir", target=GPUTarget("cuda", int(target[3:5]), 32),
                            options={"num_warps": facts["num_warps"], "num_stages": facts["num_stages"], "enable_fp_fusion": False})
    path = folder + "/case.ptx"
    open(path, "w").write(kernel.asm["ptx"])
    return path, kernel.metadata.shared


def compile_kiln(case, facts, target, folder):
    path = folder + "/case.ptx"
    done = subprocess.run([BUILD + "/bin/kiln", "compile", case + "/kernel.ttir", "--no-cache", "-q", "--debug", "--target=" + target, "--emit=ptx", "-o", path],
                          capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr.strip())
    return path, 200 << 10


def run_case(case, facts, path, shared, options, folder):
    command = [BUILD + "/bin/kiln-ptx", path, "--grid=%d,%d,%d" % tuple((facts["grid"] + [1, 1])[:3]), "--shared=%d" % shared,
               "--seed=%d" % options.seed, "--schedules=%d" % options.schedules]
    if options.steps:
        command.append("--max-steps=%d" % options.steps)
    for i, b in enumerate(facts["buffers"]):
        command.append("--buffer=%s/in%d.bin:%s/out%d.bin" % (case, i, folder, i))
    is_buffer, names = {}, 0
    for a in facts["args"]:
        if a["sig"] == "constexpr":
            continue
        names += 1
        if a["kind"] == "tensor":
            is_buffer.setdefault(a["buffer"], a["dtype"])
            command.append("buffer:%d+%d" % (a["buffer"], a["offset_bytes"]))
        else:
            value = {"True": "1", "False": "0"}.get(a["value"], a["value"])
            command.append("%s:%s" % (KINDS[a["sig"]], value))
    parameters = open(path).read().split(".entry", 1)[1].split("{", 1)[0].count(".param")
    command += ["i64:0"] * (parameters - names)  # Triton's scratch memory, of which these kernels have none
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        return (done.stdout.strip() or done.stderr.strip()).split("\n")[0]
    is_coarse = "tt.dot" in open(case + "/kernel.ttir").read()
    for i, b in enumerate(facts["buffers"]):
        want = open("%s/%s%d.bin" % (case, "out" if b["changed"] else "in", i), "rb").read()
        got = open("%s/out%d.bin" % (folder, i), "rb").read()
        bad = differs(got, want, is_buffer.get(i, "bytes"), is_coarse)
        if bad:
            return "buffer %d: %s" % (i, bad)
    return None


def judge(case, options):
    facts = json.load(open(case + "/case.json"))
    if not facts["golden"]:
        return "skip", "no memory was recorded"
    if 0 in facts["grid"]:
        return "skip", "no blocks"
    with tempfile.TemporaryDirectory() as folder:
        try:
            if options.ptx:
                path, shared = "%s/%s.ptx" % (options.ptx, os.path.basename(case)), 200 << 10
                if not os.path.exists(path):
                    return "skip", "no PTX"
            else:
                path, shared = (compile_triton if options.triton else compile_kiln)(case, facts, options.target, folder)
        except Exception as e:
            return "skip", "does not compile: " + str(e).split("\n")[0]
        bad = run_case(case, facts, path, shared, options, folder)
    why = [why for name, part, why in KNOWN if bad and name in case and part in bad]
    return ("known", why[0]) if why else ("fail", bad) if bad else ("pass", "")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="+")
    parser.add_argument("--ptx")
    parser.add_argument("--triton", action="store_true")
    parser.add_argument("--kiln", action="store_true")
    parser.add_argument("--target", default="sm_80")
    parser.add_argument("--schedules", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--steps", type=int, default=0, help="instructions of warps before a case has failed")
    options = parser.parse_args()
    cases = []
    for c in options.cases:
        cases += [c] if os.path.exists(c + "/case.json") else sorted(os.path.join(c, n) for n in os.listdir(c) if os.path.exists("%s/%s/case.json" % (c, n)))
    sums = {"pass": 0, "fail": 0, "known": 0, "skip": 0}
    for case in cases:
        verdict, text = judge(case, options)
        sums[verdict] += 1
        if verdict != "skip" or "compile" in text:
            print("%s %s%s" % (verdict, os.path.basename(case), ": " + text if text else ""), flush=True)
    print("%(pass)d passed, %(known)d as known, %(fail)d failed, %(skip)d skipped" % sums)
    return 1 if sums["fail"] else 0


if __name__ == "__main__":
    sys.exit(main())
