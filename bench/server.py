#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A server in the small on a GPU: the start of an application with 40 kernels of Triton, a compiled model and, where Helion is, a kernel of Helion's.

bench/server.py PACKAGE FOLDER [--runs N] [--device cpu]

PACKAGE is the folder that has Kiln's Python package `kiln`, with the program kiln in ../bin of it or in PATH. KILN_BENCH_SITE may name a folder with Helion. The same
application starts four ways, each in processes of its own:

    triton cold      empty caches
    triton shipped   the caches of such a run, copied to other folders
    kiln built       Kiln compiles, with empty caches; writes the bundle, which is signed
    kiln bundle      from the signed bundle with miss="error": empty caches of PyTorch's, no cache of Kiln's, a home that is not there, nothing in PATH

Printed are medians of --runs processes (the first and the third way run once): seconds from the end of the imports to the first results of all, and for Kiln's who
launched. At last the bundle without one kernel: the error has to name it. With --device cpu only Kiln's ways run.
"""
import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys

import bytecode

KERNELS = 40

APP = '''
import json, os, sys, time
begin = time.perf_counter()
programs = []
sys.addaudithook(lambda event, facts: programs.append(str(facts[0])) if event in ("subprocess.Popen", "os.exec", "os.posix_spawn", "os.system") else None)
if "KILN_TRITON" in " ".join(os.environ):
    import kiln._triton_startup  # as kiln-triton.pth of an installed package does
import torch, triton
import kernels
try:
    import helion
    import helions
except ImportError:
    helions = None
device = sys.argv[1]
torch.zeros(1, device=device).add_(1)
if device == "cpu":
    import torch._inductor.config
    torch._inductor.config.cpu_backend, torch._inductor.config.compile_threads = "triton", 1
imported = time.perf_counter()
torch.manual_seed(1)
model = torch.nn.Sequential(torch.nn.Linear(256, 1024), torch.nn.GELU(), torch.nn.LayerNorm(1024), torch.nn.Linear(1024, 64), torch.nn.Softmax(-1)).to(device)
x, total = torch.randn(64, 256, device=device), torch.zeros(3000, device=device)
with torch.no_grad():
    near = torch.allclose(torch.compile(model)(x), model(x), atol=1e-2)
modeled = time.perf_counter()
for kernel in kernels.ALL:
    kernel[(triton.cdiv(3000, 128),)](total, 3000, BLOCK=128)
near = near and total.eq(sum(range(len(kernels.ALL)))).all().item()
launched = time.perf_counter()
if helions is not None:
    near = near and torch.allclose(helions.scaled(total, total), total * 4)
end = time.perf_counter()
print(json.dumps({"near": near, "imports": imported - begin, "first": end - imported, "model": modeled - imported, "kernels": launched - modeled,
                  "helion": None if helions is None else end - launched, "programs": programs}))
'''

KERNEL = '''
@triton.jit
def add_%d(total, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(total + i, tl.load(total + i, mask=i < n) + %d, mask=i < n)
'''

HELION = '''
import torch
import helion
import helion.language as hl


@helion.kernel(config=helion.Config(block_sizes=[128], num_warps=4), static_shapes=False)
def scaled(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    for tile in hl.tile(x.size(0)):
        out[tile] = x[tile] * 3 + y[tile]
    return out
'''


def say(text):
    print(text, flush=True)


class Application:
    def __init__(self, options):
        self.options, self.folder = options, os.path.abspath(options.folder)
        os.makedirs(self.folder, exist_ok=True)
        for name, text in (("app.py", APP), ("helions.py", HELION), ("kernels.py", "import triton\nimport triton.language as tl\n%s\nALL = [%s]\n" % (
                "\n".join(KERNEL % (i, i) for i in range(KERNELS)), ", ".join("add_%d" % i for i in range(KERNELS))))):
            with open(os.path.join(self.folder, name), "w") as file:
                file.write(text)
        self.common = {name: value for name, value in os.environ.items() if not name.startswith(("KILN_", "TRITON_", "TORCHINDUCTOR_", "PYTHONPATH"))}
        self.common = bytecode.found_in(self.common, self.folder)

    def path(self, *parts):
        return os.path.join(self.folder, *parts)

    def start(self, caches, with_kiln=False, may_fail=False, **environment):
        paths = [self.folder, *filter(None, [os.environ.get("KILN_BENCH_SITE")]), *([os.path.abspath(self.options.package)] if with_kiln else [])]
        done = subprocess.run([sys.executable, "-W", "ignore", self.path("app.py"), self.options.device], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={
            **self.common, "PYTHONPATH": os.pathsep.join(paths), "TORCHINDUCTOR_CACHE_DIR": self.path(caches, "inductor"), "TRITON_CACHE_DIR": self.path(caches, "triton"), **environment})
        if done.returncode:
            error = done.stderr.decode(errors="replace")
            return error if may_fail else sys.exit(error[-4000:])
        return json.loads(done.stdout.decode().splitlines()[-1])


def row(name, found):
    median = {key: statistics.median(one[key] for one in found) for key in ("imports", "first", "model", "kernels")}
    helion = [one["helion"] for one in found if one["helion"] is not None]
    say("%-15s %7.2f %12.3f %8.3f %8.3f %8s %6s   %s" % (
        name, median["imports"], median["first"], median["model"], median["kernels"], "%.3f" % statistics.median(helion) if helion else "-", all(one["near"] for one in found),
        " ".join(sorted({os.path.basename(program) for one in found for program in one["programs"]}))))
    return median["first"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("package", metavar="PACKAGE")
    parser.add_argument("folder", metavar="FOLDER")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    options = parser.parse_args()
    if not os.path.exists(os.path.join(options.package, "kiln", "__init__.py")):
        sys.exit("%s: has no package kiln" % options.package)
    app, firsts = Application(options), {}
    bundle, fewer, key = app.path("app.kbundle"), app.path("fewer.kbundle"), app.path("release.key")
    for path in (bundle, key, key + ".pub", app.path("cold"), app.path("built")):
        shutil.rmtree(path) if os.path.isdir(path) else os.path.exists(path) and os.unlink(path)
    say("%-15s %7s %12s %8s %8s %8s %6s   %s" % ("seconds", "imports", "first of all", "model", "kernels", "Helion", "right", "programs that were started"))
    if options.device == "cuda":
        firsts["cold"] = row("triton cold", [app.start("cold")])
        shipped = []
        for number in range(options.runs):
            shutil.copytree(app.path("cold"), app.path("shipped%d" % number), dirs_exist_ok=True)
            shipped.append(app.start("shipped%d" % number))
        firsts["shipped"] = row("triton shipped", shipped)
    firsts["built"] = row("kiln built", [app.start("built", True, KILN_TRITON="1", KILN_TRITON_SAVE=bundle, KILN_CACHE_DIR=app.path("built", "kiln"))])
    subprocess.run(["kiln", "cache", "keygen", "--name=release", key], check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["kiln", "sign", "--key", key, bundle], check=True, stdout=subprocess.DEVNULL)
    closed = {"KILN_TRITON_MISS": "error", "KILN_TRITON_TRUST": key + ".pub", "KILN_CACHE_DIR": "/proc/none", "HOME": "/proc/none", "PATH": "/proc/none"}
    found, launches = [], []
    for number in range(options.runs):
        report, caches = app.path("report%d.json" % number), "closed%d" % number
        for path in (app.path(caches), report):
            shutil.rmtree(path) if os.path.isdir(path) else os.path.exists(path) and os.unlink(path)
        found.append(app.start(caches, True, KILN_TRITON_BUNDLE=bundle, KILN_TRITON_REPORT=report, **closed))
        with open(report) as file:
            launches += [json.loads(line)["launches"] for line in file]
    firsts["bundle"] = row("kiln bundle", found)
    only = all(origin == "bundle" for one in launches for origin, count in one.items() if count)
    say("launches from the bundle: %s; of others: %s; bundle of %d bytes" % (launches[0]["bundle"], "none" if only else launches, os.path.getsize(bundle)))
    for other in ("cold", "shipped"):
        if other in firsts:
            say("first results from the bundle: %.2f of Triton %s" % (firsts["bundle"] / firsts[other], other))
    kernels = subprocess.run(["kiln", "inspect", "--json", bundle], stdout=subprocess.PIPE).stdout.decode()
    name = next(one for one in sorted(set(kernels.split('"'))) if one.startswith("add_17["))
    subprocess.run(["kiln", "prune", "--drop-kernel=" + name, "-o", fewer, bundle], check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["kiln", "sign", "--key", key, fewer], check=True, stdout=subprocess.DEVNULL)
    error = app.start("fewer", True, may_fail=True, KILN_TRITON_BUNDLE=fewer, **closed)
    named = isinstance(error, str) and "kernel 'add_17': its entry in" in error
    say("a bundle without '%s': %s" % (name, error.strip().splitlines()[-1] if named else "NOT named: %s" % str(error)[-500:]))
    return 0 if only and named and all(one["near"] for one in found) else 1


if __name__ == "__main__":
    sys.exit(main())
