#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The kernels of docs/tutorial.md on an NVIDIA GPU, compared with PyTorch and the vendor's libraries.

bench/tutorial.py [--kiln FILE] [--libkiln FILE] [--bundles FOLDER] [--reps N]

Takes the listings from the page, builds them for sm_90a, checks each result and times it in turn with the peer, L2 flushed before each launch. Needs
PyTorch. With --bundles the bundles of that folder are used where they exist (a machine without the compiler), and written to it where they do not.
"""
import argparse
import math
import os
import re
import subprocess
import sys

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
PAGE = os.path.join(ROOT, "docs", "tutorial.md")


def build(kiln, folder):
    """{name of a listing: its bundle}"""
    os.makedirs(folder, exist_ok=True)
    bundles = {}
    for name, text in re.findall(r"^```kiln (\w+)\.kiln\n(.*?)^```$", open(PAGE, encoding="utf-8").read(), re.M | re.S):
        source, bundles[name] = (os.path.join(folder, name + ending) for ending in (".kiln", ".kbundle"))
        if not os.path.exists(bundles[name]):
            with open(source, "w", encoding="utf-8") as file:
                file.write(text)
            subprocess.run([kiln, "build", "-q", source, "-t", "sm_90a", "-o", bundles[name]], check=True)
    return bundles


def elementwise(kernels, reps):
    n = 1 << 26
    x, y = (torch.randn(n, device="cuda") for _ in range(2))
    jobs = {"torch": lambda: torch.add(x, y)}
    for name in "add", "aligned":
        z = result((n,), torch.float32)
        jobs[name] = lambda call=kernels[name].kernel("add"), z=z: call(x, y, z, I32(n))
        jobs[name](), torch.cuda.synchronize()
        check(name, z, x + y, 0)
    show("add, 2^26 elements", 12 * n / 1e9, "GB/s", jobs, reps)


def softmax(kernels, reps):
    rows, cols = 16384, 4096
    x, y = torch.randn(rows, cols, device="cuda", dtype=torch.bfloat16), result((rows, cols), torch.bfloat16)
    call = kernels["softmax"].kernel("softmax[T=bf16]")
    ours = lambda: call(x, y, I32(rows), I32(cols))
    ours(), torch.cuda.synchronize()
    check("softmax", y, torch.softmax(x.float(), 1), 4e-3)
    show("softmax bf16, 16384 x 4096", 4 * rows * cols / 1e9, "GB/s", {"torch": lambda: torch.softmax(x, 1), "softmax": ours}, reps)


def products(kernels, n, reps):
    a, b = (torch.randn(n, n, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    bias, c = torch.randn(n, device="cuda", dtype=torch.bfloat16), result((n, n), torch.bfloat16)
    sizes, wanted = (I32(n),) * 3, torch.matmul(a, b.t())
    plain, with_gelu = {"cublas": lambda: torch.matmul(a, b.t())}, {"cublaslt": lambda: torch._addmm_activation(bias, a, b.t(), use_gelu=True)}
    for name, kernel, operands in (("product", "product[T=bf16]", (a, b, c)), ("views", "product[T=bf16]", (a, b, c)),
                                   ("pipeline", "product[T=bf16,GELU=false]", (a, b, bias, c))):
        plain[name] = lambda call=kernels[name].kernel(kernel), operands=operands: call(*operands, *sizes)
        c.fill_(math.nan), plain[name](), torch.cuda.synchronize()
        check(name, c, wanted, 2e-3)
    call = kernels["pipeline"].kernel("product[T=bf16,GELU=true]")
    with_gelu["pipeline"] = lambda: call(a, b, bias, c, *sizes)
    with_gelu["pipeline"](), torch.cuda.synchronize()
    check("pipeline, GELU", c, F.gelu(wanted.float() + bias.float(), approximate="tanh"), 5e-3)
    show("product bf16, %d cubed" % n, 2 * n**3 / 1e12, "TFLOP/s", plain, reps)
    show("the same with bias and GELU", 2 * n**3 / 1e12, "TFLOP/s", with_gelu, reps)


def attentions(kernels, heads, S, causal, reps):
    D = 128
    q, k, v = (torch.randn(1, heads, S, D, device="cuda", dtype=torch.bfloat16) for _ in range(3))
    o, scale = result(q.shape, q.dtype), 1 / math.sqrt(D)
    scores = q[0, :2].double() @ k[0, :2].double().transpose(1, 2) * scale
    if causal:
        scores = scores.masked_fill(torch.ones(S, S, device="cuda", dtype=torch.bool).triu(1), -math.inf)
    wanted = torch.softmax(scores, -1) @ v[0, :2].double()

    def cudnn():
        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            F.scaled_dot_product_attention(q, k, v, is_causal=causal)

    jobs = {"cudnn": cudnn}
    names = [("fused", "attention[T=bf16,D=128,CAUSAL=%s]" % str(causal).lower())] + ([] if causal else [("attention", "attention[T=bf16,D=128]")])
    for name, kernel in names:
        jobs[name] = lambda call=kernels[name].kernel(kernel): call(q, k, v, o, I32(heads), I32(S), F32(scale))
        o.fill_(math.nan), jobs[name](), torch.cuda.synchronize()
        check(name, o[0, :2], wanted, 6e-3)
    show("attention bf16, %d heads of %d, D 128%s" % (heads, S, ", causal" if causal else ""), 4 * heads * S * S * D * (0.5 if causal else 1) / 1e12,
         "TFLOP/s", jobs, reps)


def show(title, work, unit, jobs, reps):
    print("%s: %s" % (title, ", ".join("%s %.0f %s" % (name, work / t, unit) for name, t in measure(jobs, reps).items())), flush=True)


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--kiln", default=os.path.join(ROOT, "build/release/bin/kiln"))
parser.add_argument("--libkiln", default=os.path.join(ROOT, "build/release/lib/libkiln.so.0"))
parser.add_argument("--bundles", default="build/tutorial")
parser.add_argument("--reps", type=int, default=21)
parser.add_argument("--only-build", action="store_true", help="write the bundles and end; needs neither GPU nor PyTorch")
options = parser.parse_args()
bundles = build(options.kiln, options.bundles)
if options.only_build:
    sys.exit()

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from torch.nn.attention import SDPBackend, sdpa_kernel  # noqa: E402

from gpu_common import F32, I32, Kiln, check, measure, result, wrong  # noqa: E402

torch.manual_seed(0)
print("%s, PyTorch %s" % (torch.cuda.get_device_name(), torch.__version__))
kernels = {name: Kiln(options.libkiln, bundle) for name, bundle in bundles.items()}
elementwise(kernels, options.reps)
softmax(kernels, options.reps)
products(kernels, 4096, options.reps)
attentions(kernels, 128, 4096, False, options.reps)
attentions(kernels, 128, 4096, True, options.reps)
sys.exit(1 if wrong else 0)
