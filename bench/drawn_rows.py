#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Row kernels of a bundle on an NVIDIA GPU with drawn kernels, types, rows and columns, compared with PyTorch, torch.compile and Triton.

    kiln build -t sm_90a kernels/{norms,softmax,tokens,elementwise,quantise,search}.kiln -o rows.kbundle
    bench/drawn_rows.py rows.kbundle --seed $(git rev-parse HEAD) [--old before.kbundle] [--libkiln FILE]
        [--cases 120] [--only KERNEL,...] [--compile N] [--triton] [--reps N] [--most BYTES]

The seed is the name of the measured commit: its first eight hex digits. Columns are drawn on a logarithmic scale from 1 to 262,144, at times rounded to a
multiple of 2, 4, 8, 16 or 64, rows so that the row operand has a drawn number of bytes up to --most. Each result is checked against f64 with canaries around all outputs
and NaNs around all inputs, then timed in turn with its peers after a flush of L2; medians. A case that no config allows, or whose result is wrong, is listed as failed,
and the exit code is 1. --old times the same kernels of a second bundle. --compile N: every N-th case has torch.compile as a peer too (some seconds each);
--triton: simple Triton kernels of one block per row for the norms and softmax up to 32,768 columns.
"""
import argparse
import sys

import torch
import torch.nn.functional as F

import drawn
from drawn import Case, given, log_uniform, output
from gpu_common import F32, I32, Kiln

NAMES = {torch.bfloat16: "bf16", torch.float32: "f32"}
EPS = 1e-5
LARGEST_COLUMN = 262144


def bound_of(dtype):
    return 2e-5 if dtype is torch.float32 else 8e-3


def short_room(cols):
    """Room for a mean that is rounded: rows of few columns may lie close together, and 1 / sqrt(variance) is then as large as 316."""
    return 300 if cols < 32 else 1


def normal(*shape, dtype=torch.float32):
    return given(torch.randn(*shape, device="cuda", dtype=dtype))


def xhat_of(x, eps=EPS):
    x = x.double()
    return (x - x.mean(1, keepdim=True)) * torch.rsqrt(x.var(1, correction=0, keepdim=True) + eps)


def rstd_of(x, eps=EPS):
    return torch.rsqrt((x.double() ** 2).mean(1, keepdim=True) + eps)


def gradient_room(dy, w, rstd):
    """The size of what is subtracted from each other in a row's dx, of which little is left where there are few columns."""
    return (dy.double() * w.double()).abs().amax(1, keepdim=True) * rstd.double()[:, None]


# Each kernel: of (dtype, rows, cols, draw) a dict with `arguments` (of kiln_launch), `outputs`, `checks`, `peers`, `bytes` and what else a Case has.

def softmax(dtype, rows, cols, draw):
    x, y = normal(rows, cols, dtype=dtype), output((rows, cols), dtype)
    return dict(arguments=(x, y, I32(rows), I32(cols), I32(cols), I32(cols)), outputs=[y], checks=[(y, lambda: torch.softmax(x.double(), 1), bound_of(dtype))],
                peers={"torch": lambda: torch.softmax(x, 1)}, bytes=2 * x.nbytes, triton=("softmax_rows", (x, y, cols, cols, cols)))


def softmax_looped(dtype, rows, cols, draw):
    found = softmax(dtype, rows, cols, draw)
    return dict(found, arguments=found["arguments"][:4])


def log_softmax(dtype, rows, cols, draw):
    x, y = normal(rows, cols, dtype=dtype), output((rows, cols), dtype)
    return dict(arguments=(x, y, I32(rows), I32(cols)), outputs=[y], checks=[(y, lambda: torch.log_softmax(x.double(), 1), bound_of(dtype), 1)],
                peers={"torch": lambda: torch.log_softmax(x, 1)}, bytes=2 * x.nbytes)


def cross_entropy(dtype, rows, cols, draw):
    x, loss = normal(rows, cols, dtype=dtype), output((rows,), torch.float32)
    labels = given(torch.randint(0, cols, (rows,), device="cuda", dtype=torch.int32))
    long = labels.long()
    return dict(arguments=(x, labels, loss, I32(rows), I32(cols)), outputs=[loss], checks=[(loss, lambda: F.cross_entropy(x.double(), long, reduction="none"), 2e-5, 1)],
                peers={"torch": lambda: F.cross_entropy(x, long, reduction="none")}, bytes=x.nbytes)


def layer_norm(dtype, rows, cols, draw):
    x, w, b = normal(rows, cols, dtype=dtype), normal(cols, dtype=dtype), normal(cols, dtype=dtype)
    y, mean, rstd = output((rows, cols), dtype), output((rows,), torch.float32), output((rows,), torch.float32)
    return dict(arguments=(x, w, b, y, mean, rstd, I32(rows), I32(cols), F32(EPS)), outputs=[y, mean, rstd],
                checks=[(y, lambda: xhat_of(x) * w.double() + b.double(), bound_of(dtype), short_room(cols)), (mean, lambda: x.double().mean(1), 2e-5, 1),
                        (rstd, lambda: torch.rsqrt(x.double().var(1, correction=0) + EPS), 2e-5, short_room(cols))],
                peers={"torch": lambda: torch.native_layer_norm(x, (cols,), w, b, EPS)}, bytes=2 * x.nbytes, triton=("layer_norm_rows", (x, w, b, y, mean, rstd, cols, EPS)))


def layer_norm_backward(dtype, rows, cols, draw):
    x, dy, w, b = normal(rows, cols, dtype=dtype), normal(rows, cols, dtype=dtype), normal(cols, dtype=dtype), normal(cols, dtype=dtype)
    mean, rstd = given(x.double().mean(1).float()), given(torch.rsqrt(x.double().var(1, correction=0) + EPS).float())
    dx, dw, db = output((rows, cols), dtype), output((cols,), torch.float32, 0), output((cols,), torch.float32, 0)

    def hat_of():
        return (x.double() - mean.double()[:, None]) * rstd.double()[:, None]

    def wanted():
        hat, g = hat_of(), dy.double() * w.double()
        return (g - hat * (g * hat).mean(1, keepdim=True) - g.mean(1, keepdim=True)) * rstd.double()[:, None]

    return dict(arguments=(dy, x, w, mean, rstd, dx, dw, db, I32(rows), I32(cols)), outputs=[dx, dw, db], sums=[dw, db], backward=True, bytes=3 * x.nbytes,
                checks=[(dx, wanted, 2 * bound_of(dtype), gradient_room(dy, w, rstd)), (dw, lambda: (dy.double() * hat_of()).sum(0), 1e-4, rows**0.5),
                        (db, lambda: dy.double().sum(0), 1e-4, rows**0.5)],
                peers={"torch": lambda: torch.ops.aten.native_layer_norm_backward(dy, x, [cols], mean[:, None], rstd[:, None], w, b, [True] * 3)})


def rms_norm(dtype, rows, cols, draw):
    x, w = normal(rows, cols, dtype=dtype), normal(cols, dtype=dtype)
    y, rstd = output((rows, cols), dtype), output((rows,), torch.float32)
    return dict(arguments=(x, w, y, rstd, I32(rows), I32(cols), F32(EPS)), outputs=[y, rstd],
                checks=[(y, lambda: x.double() * rstd_of(x) * w.double(), bound_of(dtype)), (rstd, lambda: rstd_of(x)[:, 0], 2e-5)],
                peers={"torch": lambda: F.rms_norm(x, (cols,), w, EPS)}, bytes=2 * x.nbytes, triton=("rms_norm_rows", (x, w, y, rstd, cols, EPS)))


def rms_norm_backward(dtype, rows, cols, draw):
    x, dy, w = normal(rows, cols, dtype=dtype), normal(rows, cols, dtype=dtype), normal(cols, dtype=dtype)
    rstd = given(rstd_of(x)[:, 0].float())
    dx, dw = output((rows, cols), dtype), output((cols,), torch.float32, 0)

    def wanted():
        r, g, v = rstd.double()[:, None], dy.double() * w.double(), x.double()
        return (g - v * (g * v).mean(1, keepdim=True) * r * r) * r

    return dict(arguments=(dy, x, w, rstd, dx, dw, I32(rows), I32(cols)), outputs=[dx, dw], sums=[dw], backward=True, bytes=3 * x.nbytes,
                checks=[(dx, wanted, 2 * bound_of(dtype), gradient_room(dy, w, rstd)), (dw, lambda: (dy.double() * x.double() * rstd.double()[:, None]).sum(0), 1e-4, rows**0.5)],
                peers={"torch": lambda: torch.ops.aten._fused_rms_norm_backward(dy, x, [cols], rstd[:, None], w, [True, True])})


def add_rmsnorm(dtype, rows, cols, draw):
    x, w, start = normal(rows, cols, dtype=dtype), normal(cols, dtype=dtype), normal(rows, cols, dtype=dtype)
    res, y = output((rows, cols), dtype), output((rows, cols), dtype)
    total = lambda: x.double() + start.double()

    def torch_peer():
        h = x + start
        return h, F.rms_norm(h, (cols,), w, EPS)

    return dict(arguments=(x, res, w, y, I32(rows), I32(cols), F32(EPS)), outputs=[res, y], reset=lambda: res.copy_(start),
                checks=[(res, total, bound_of(dtype)), (y, lambda: total() * rstd_of(total()) * w.double(), 2 * bound_of(dtype))], peers={"torch": torch_peer}, bytes=4 * x.nbytes)


def mean_var(dtype, rows, cols, draw):
    x, mean, var = normal(rows, cols, dtype=dtype), output((rows,), torch.float32), output((rows,), torch.float32)
    return dict(arguments=(x, mean, var, I32(rows), I32(cols)), outputs=[mean, var], bytes=x.nbytes, peers={"torch": lambda: torch.var_mean(x, 1, correction=0)},
                checks=[(mean, lambda: x.double().mean(1), 2e-5, 1), (var, lambda: x.double().var(1, correction=0), 2e-5)])


def argmax(dtype, rows, cols, draw):
    x, value, index = normal(rows, cols, dtype=dtype), output((rows,), dtype), output((rows,), torch.int32)
    return dict(arguments=(x, value, index, I32(rows), I32(cols)), outputs=[value, index], bytes=x.nbytes, peers={"torch": lambda: torch.max(x, 1)},
                checks=[(value, lambda: x.double().amax(1), 0), (index, lambda: (x == x.amax(1, keepdim=True)).float().argmax(1), 0)])


def cumsum(dtype, rows, cols, draw):
    x, y = normal(rows, cols), output((rows, cols), torch.float32)
    return dict(arguments=(x, y, I32(rows), I32(cols)), outputs=[y], bytes=2 * x.nbytes, peers={"torch": lambda: torch.cumsum(x, 1)}, checks=[(y, lambda: x.double().cumsum(1), 2e-4)])


def quantise(most, code):
    def make(dtype, rows, cols, draw):
        x, q, scale = normal(rows, cols, dtype=dtype), output((rows, cols), torch.int8), output((rows,), torch.float32)
        back = q.view(code)

        def torch_peer():
            s = x.abs().amax(1, keepdim=True).float().clamp_min(1e-12) / most
            v = x / s
            return (torch.round(v) if code is torch.int8 else v).to(code), s

        step = 0.51 / 127 if code is torch.int8 else 1 / 15.9
        return dict(arguments=(x, q, scale, I32(rows), I32(cols)), outputs=[q, scale], bytes=x.nbytes + q.nbytes, peers={"torch": torch_peer},
                    checks=[(scale, lambda: x.double().abs().amax(1).clamp_min(1e-12) / most, 1e-6), (lambda: back.double() * scale.double()[:, None], lambda: x.double(), step)])
    return make


def dequantise(code):
    def make(dtype, rows, cols, draw):
        q = given(torch.randint(-100, 101, (rows, cols), device="cuda", dtype=torch.int32).float().to(code))
        scale, y = normal(rows), output((rows, cols), dtype)
        return dict(arguments=(q, scale, y, I32(rows), I32(cols)), outputs=[y], bytes=q.nbytes + y.nbytes, peers={"torch": lambda: (q.float() * scale[:, None]).to(dtype)},
                    checks=[(y, lambda: q.double() * scale.double()[:, None], bound_of(dtype))])
    return make


def unary(function, reference):
    def make(dtype, rows, cols, draw):
        x, y = normal(rows, cols, dtype=dtype), output((rows, cols), dtype)
        return dict(arguments=(x, y, I32(x.numel())), outputs=[y], bytes=2 * x.nbytes, peers={"torch": lambda: function(x)}, checks=[(y, lambda: reference(x.double()), bound_of(dtype), 1)])
    return make


def silu_mul(dtype, rows, cols, draw):
    g, u, y = normal(rows, cols, dtype=dtype), normal(rows, cols, dtype=dtype), output((rows, cols), dtype)
    return dict(arguments=(g, u, y, I32(g.numel())), outputs=[y], bytes=3 * g.nbytes, peers={"torch": lambda: F.silu(g) * u},
                checks=[(y, lambda: F.silu(g.double()) * u.double(), bound_of(dtype))])


def geglu(dtype, rows, cols, draw):
    x, y = normal(rows, 2 * cols, dtype=dtype), output((rows, cols), dtype)
    return dict(arguments=(x, y, I32(rows), I32(cols)), outputs=[y], bytes=x.nbytes + y.nbytes, peers={"torch": lambda: F.gelu(x[:, :cols]) * x[:, cols:]},
                checks=[(y, lambda: F.gelu(x.double()[:, :cols]) * x.double()[:, cols:], bound_of(dtype), 1)])


def dropout(dtype, rows, cols, draw):
    x, y = given(torch.ones(rows, cols, device="cuda", dtype=dtype)), output((rows, cols), dtype)
    # which elements are kept is tested elsewhere (tests/kernels); here: that each is kept and scaled, or 0, and how many are
    return dict(arguments=(x, y, I32(x.numel()), F32(0.25), I32(draw.randrange(1 << 30))), outputs=[y], bytes=2 * x.nbytes, peers={"torch": lambda: F.dropout(x, 0.25)},
                checks=[(y, lambda: (y != 0).double() / 0.75, bound_of(dtype)),
                        (lambda: (y != 0).double().mean()[None], lambda: torch.full((1,), 0.75, device="cuda"), 2 / x.numel()**0.5)])


def embedding(dtype, rows, cols, draw):
    size = max(1, min(50000, (1 << 28) // (cols * 4)))
    table, ids = normal(size, cols, dtype=dtype), given(torch.randint(0, size, (rows,), device="cuda", dtype=torch.int32))
    y = output((rows, cols), dtype)
    return dict(arguments=(ids, table, y, I32(rows), I32(size), I32(cols)), outputs=[y], bytes=2 * y.nbytes, peers={"torch": lambda: F.embedding(ids, table)},
                checks=[(y, lambda: table[ids.long()].double(), 0)])


def rotary(dtype, rows, cols, draw):
    """cols elements per token: heads of an even number of them."""
    half = min(log_uniform(draw, 8, 256), max(1, cols // 2))
    heads = max(1, cols // (2 * half))
    start, positions = normal(rows, heads, 2 * half, dtype=dtype), given(torch.randint(0, 2048, (rows,), device="cuda", dtype=torch.int32))
    angles = torch.rand(2048, half, device="cuda") * 6
    cosines, sines, x = given(angles.cos()), given(angles.sin()), output((rows, heads, 2 * half), dtype)

    def turn(v, c, s):
        a, b = v[..., :half], v[..., half:]
        return torch.cat([a * c - b * s, b * c + a * s], -1)

    places = positions.long()
    return dict(arguments=(x, cosines, sines, positions, I32(rows), I32(heads), I32(half)), outputs=[x], bytes=2 * x.nbytes, reset=lambda: x.copy_(start),
                checks=[(x, lambda: turn(start.double(), cosines.double()[places][:, None], sines.double()[places][:, None]), bound_of(dtype), 1)],
                peers={"torch": lambda: turn(start, cosines[places][:, None], sines[places][:, None]).to(dtype)}, extra=", %d heads of %d" % (heads, 2 * half))


def bincount(dtype, rows, cols, draw):
    n = rows * cols
    x, bins = given(torch.randint(0, cols, (n,), device="cuda", dtype=torch.int32)), output((cols,), torch.int32)
    return dict(arguments=(x, bins, I32(n), I32(cols)), outputs=[bins], bytes=x.nbytes, checks=[(bins, lambda: torch.bincount(x.long(), minlength=cols), 0)],
                before=("histogram", [bins]), peers={"torch": lambda: torch.histc(x, cols, 0, cols - 1) if cols > 1 else torch.bincount(x, minlength=cols)})


KERNELS = {
    "softmax": softmax, "softmax_looped": softmax_looped, "log_softmax": log_softmax, "cross_entropy": cross_entropy, "layer_norm": layer_norm, "rms_norm": rms_norm,
    "layer_norm_backward": layer_norm_backward, "rms_norm_backward": rms_norm_backward, "add_rmsnorm": add_rmsnorm, "mean_var": mean_var, "argmax": argmax, "cumsum": cumsum,
    "quantise_i8": quantise(127, torch.int8), "quantise_fp8": quantise(448, torch.float8_e4m3fn), "dequantise_i8": dequantise(torch.int8),
    "dequantise_fp8": dequantise(torch.float8_e4m3fn), "gelu": unary(F.gelu, F.gelu),
    "gelu_tanh": unary(lambda x: F.gelu(x, approximate="tanh"), lambda x: F.gelu(x, approximate="tanh")), "silu_mul": silu_mul, "geglu": geglu, "dropout": dropout,
    "embedding": embedding, "rotary": rotary, "bincount": bincount,
}
OWN_TYPE = {"cumsum": "cumsum[T=f32]", "bincount": "bincount"}  # drawn in one type only


def draw_sizes(draw, element, most):
    cols = log_uniform(draw, 1, LARGEST_COLUMN)
    step = draw.choice((1, 1, 2, 4, 8, 16, 64))
    cols = max(1, cols // step * step)
    rows = max(1, log_uniform(draw, 1 << 12, most) // (element * cols))
    return rows, cols


def triton_peer(found, rows, cols):
    """A job that runs gpu_memory.py's kernel of the row, one block per row."""
    import gpu_memory
    name, arguments = found["triton"]
    block = max(16, 1 << (cols - 1).bit_length())
    return lambda: getattr(gpu_memory, name)[(rows,)](*arguments, BLOCK=block, num_warps=max(1, min(16, block // 512)))


def make_case(kiln, old, number, options, draw):
    kernel = draw.choice([k for k in KERNELS if not options.only or k in options.only.split(",")])
    dtype = draw.choice((torch.bfloat16, torch.float32))
    if kernel in OWN_TYPE:
        dtype = torch.float32
    rows, cols = draw_sizes(draw, dtype.itemsize, options.most)
    found = KERNELS[kernel](dtype, rows, cols, draw)
    selection = OWN_TYPE.get(kernel, "%s[T=%s]" % (kernel, NAMES[dtype]))
    peers = dict(found["peers"])

    def launcher(library):
        calls = []
        name, sums = selection, found.get("sums", [])
        if "before" in found and name not in library.names():
            name, sums = found["before"]

        def job():
            if not calls:  # a bundle that lacks the kernel is a case that fails
                calls.append(library.bind(name, *found["arguments"]))
            if sums:
                torch._foreach_zero_(sums)
            calls[0]()
        return job

    if options.compile and number % options.compile == 0 and kernel != "bincount":
        peers["compile"] = torch.compile(found["peers"]["torch"], dynamic=False)
    if options.triton and "triton" in found and cols <= 32768:
        peers["triton"] = triton_peer(found, rows, cols)
    title = "%3d %-20s %-4s %9d x %-6d%s" % (number, kernel, NAMES[dtype], rows, cols, found.get("extra", ""))
    # the case owns what `found` holds, so that all of it is freed with the case
    return Case(title, kernel, launcher(kiln), old and launcher(old), peers, found["bytes"], found["outputs"], found["checks"], found.get("reset", lambda: None),
                ["backward" if found.get("backward") else "forward"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bundle")
    parser.add_argument("--seed", required=True, help="the measured commit")
    parser.add_argument("--old", help="a bundle to time beside it")
    parser.add_argument("--libkiln", default="libkiln.so.0")
    parser.add_argument("--cases", type=int, default=120)
    parser.add_argument("--only", default="", help="kernels, with commas")
    parser.add_argument("--compile", type=int, default=0, metavar="N")
    parser.add_argument("--triton", action="store_true")
    parser.add_argument("--reps", type=int, default=15)
    parser.add_argument("--most", type=int, default=1 << 28, help="bytes of the row operand")
    options = parser.parse_args()
    draw = drawn.generator(options.seed)
    kiln, old = Kiln(options.libkiln, options.bundle), options.old and Kiln(options.libkiln, options.old)
    table = drawn.Table(options.reps)
    for number in range(options.cases):
        if options.compile:
            torch._dynamo.reset()
        if number % 8 == 0:
            torch.cuda.empty_cache()
        table.judge(make_case(kiln, old, number, options, draw))
    return 1 if table.end() else 0


if __name__ == "__main__":
    sys.exit(main())
