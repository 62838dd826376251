#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Products on the processor beside its libraries, in one table: host_dot.py FOLDER [--rounds N] [--threads N,..] [--sizes N,..] [--bundle FILE]

FOLDER is what `make bench-host` leaves in build/<config>/bench/host: the package and a bundle of kernels/ for `native`. Kiln runs what its bundle takes
when nobody chooses; the peers are NumPy's BLAS in f32 (OpenBLAS, if NumPy is of PyPI or Debian's libopenblas0 is there) and, where PyTorch is, its
products by oneDNN and its attention. All run in one process, one after another in each round. Figures are medians of GFLOP a second of processor time
(all threads together), which work beside us on the machine disturbs least, and in brackets the best by the clock.
"""
import argparse
import os
import statistics
import subprocess
import sys
import time


def options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--sizes", default="256,512,1024,2048")
    parser.add_argument("--bundle", help="instead of FOLDER/kernels.kbundle")
    parser.add_argument("--only", default="", help="rows whose name has this")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


def measure(work, rounds):
    """[(processor seconds, seconds)] of each of `work`, which take turns."""
    found = [[] for _ in work]
    repeats = []
    for run in work:
        run()
        start = time.perf_counter()
        run()
        repeats.append(max(1, int(0.02 / max(time.perf_counter() - start, 1e-6))))
    for _ in range(rounds):
        for i, run in enumerate(work):
            clock, processor = time.perf_counter(), time.process_time()
            for _ in range(repeats[i]):
                run()
            found[i].append(((time.process_time() - processor) / repeats[i], (time.perf_counter() - clock) / repeats[i]))
    return found


def row(what, flops, named, rounds):
    found = measure([run for _, run in named], rounds)
    rates = [flops / statistics.median(p for p, _ in f) * 1e-9 for f in found]
    best = [flops / min(c for _, c in f) * 1e-9 for f in found]
    columns = ["%s %6.1f (%6.1f)" % (name, r, b) for (name, _), r, b in zip(named, rates, best)]
    ratio = "   ours / first peer %.2f" % (rates[0] / rates[1]) if len(named) > 1 else ""
    print("  %-22s %s%s" % (what, "   ".join(columns), ratio), flush=True)


class Bench:
    def __init__(self, o, threads):
        import kiln
        import numpy
        self.o, self.np, self.torch = o, numpy, None
        try:
            import torch
            torch.set_num_threads(threads)
            self.torch = torch
        except ImportError:
            pass
        library = kiln.Library(o.bundle or os.path.join(o.folder, "kernels.kbundle"))
        self.device = library.device("host:%d" % threads)
        self.random = numpy.random.default_rng(7)

    def wanted(self, what):
        return self.o.only in what

    def normal(self, *shape):
        return self.random.standard_normal(shape, dtype="f4")

    def check(self, what, ours, peer, most):
        error = float(self.np.abs(ours - peer).max() / self.np.abs(peer).max())
        if not error <= most:
            sys.exit("%s: largest difference %g of the largest element, at most %g expected" % (what, error, most))

    def gemm(self, name, n):
        """C = A B^T of `name`; the first peer is BLAS in f32 on the same numbers."""
        what = "gemm %s %d" % (name, n)
        if not self.wanted(what):
            return
        np, torch = self.np, self.torch
        a, b, c, peer = self.normal(n, n), self.normal(n, n), None, np.empty((n, n), "f4")
        named = [("OpenBLAS f32", lambda: np.matmul(a, b.T, out=peer))]
        if name == "i8":
            x, y = ((m * 30).clip(-127, 127).astype("i1") for m in (a, b))
            a, b, c, one = x.astype("f4"), y.astype("f4"), np.zeros((n, n), "f4"), np.ones(n, "f4")
            kernel = self.device.kernel("gemm_i8")
            ours = kernel.prepare(x, y, one, one, c, n, n, n)
            if torch:
                tx, ty = torch.from_numpy(x), torch.from_numpy(y)
                named.append(("oneDNN i8", lambda: torch._int_mm(tx, ty.T)))
        else:
            kernel = self.device.kernel("gemm[T=%s,ACT=0,BIAS=false]" % name)
            if name == "f32":
                x, y, c = a, b, np.empty((n, n), "f4")
            elif name == "f16":
                x, y, c = a.astype("f2"), b.astype("f2"), np.empty((n, n), "f2")
                a, b = x.astype("f4"), y.astype("f4")
            else:
                x, y = ((m.view("u4") >> 16).astype("u2") for m in (a, b))
                c = np.empty((n, n), "u2")
                a, b = ((m.astype("u4") << 16).view("f4") for m in (x, y))
            ours = kernel.prepare(x, y, x, c, n, n, n, n, n, n)
            if torch:
                kind = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}[name]
                tx, ty = torch.from_numpy(a).to(kind), torch.from_numpy(b).to(kind)
                named.append(("oneDNN " + name, lambda: torch.mm(tx, ty.T)))
        ours()
        named[0][1]()
        result = (c.astype("u4") << 16).view("f4") if name == "bf16" else c.astype("f4")
        self.check(what, result, peer, {"f32": 1e-5, "i8": 1e-5, "f16": 2e-3, "bf16": 8e-3}[name])
        row(what, 2 * n**3, [("Kiln", ours)] + named, self.o.rounds)

    def attention(self, name, s, d, heads=4):
        what = "attention %s %dx%dx%d" % (name, heads, s, d)
        if not self.wanted(what) or not self.torch:
            return
        torch, np = self.torch, self.np
        kind = {"f32": torch.float32, "bf16": torch.bfloat16}[name]
        q, k, v = (torch.from_numpy(self.normal(heads, s, d)).to(kind) for _ in range(3))
        o, lse = torch.empty_like(q), torch.empty(heads, s)
        kernel = self.device.kernel("attention[T=%s,D=%d,CAUSAL=true]" % (name, d))
        ours = kernel.prepare(q, k, v, o, lse, heads, s, d**-0.5)
        peer = lambda: torch.nn.functional.scaled_dot_product_attention(q[None], k[None], v[None], is_causal=True)[0]  # noqa: E731
        ours()
        self.check(what, o.float().numpy(), peer().float().numpy(), 1e-4 if name == "f32" else 2e-2)
        row(what, 2 * heads * s * s * d, [("Kiln", ours), ("PyTorch", peer)], self.o.rounds)


def blas():
    """What NumPy multiplies with, as it says."""
    for line in open("/proc/self/maps"):
        path = line.split()[-1]
        if "openblas" in path or "libblas" in path:
            return os.path.basename(path)
    return "no BLAS"


def child(o):
    threads = int(o.threads)
    bench = Bench(o, threads)
    bench.np.matmul(bench.normal(64, 64), bench.normal(64, 64))
    print("%d thread%s, NumPy %s with %s, PyTorch %s" % (threads, "s"[: threads > 1], bench.np.__version__, blas(),
                                                         bench.torch.__version__ if bench.torch else "absent"), flush=True)
    for name in ("f32", "bf16", "f16", "i8"):
        for n in map(int, o.sizes.split(",")):
            bench.gemm(name, n)
    for name, d in (("f32", 64), ("bf16", 128)):
        bench.attention(name, 1024, d)


def main():
    o = options()
    sys.path.insert(0, os.path.abspath(o.folder))
    if o.child:
        child(o)
        return
    for threads in o.threads.split(","):
        settings = dict(os.environ, OPENBLAS_NUM_THREADS=threads, OMP_NUM_THREADS=threads)
        command = [sys.executable, os.path.abspath(__file__)] + sys.argv[1:] + ["--threads", threads, "--child"]
        if subprocess.run(command, env=settings).returncode:
            sys.exit(1)


if __name__ == "__main__":
    main()
