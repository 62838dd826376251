#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What it takes to compile the kernels that torch.compile writes: Kiln beside Triton, from the Python of a kernel to a cubin, without a GPU.

bench/torch_compile_time.py [--target sm_90a] [--rounds N] [--no-server] [--build DIR]

Small models run on fake tensors (kiln.triton.capture); each kernel that TorchInductor asks for is compiled by both, caches off, in turn. Printed are sums over all
kernels, of the round with the least: wall time, and CPU time with that of all processes that were started (machines with other work: look at CPU time). Kiln's
parts: reading is Triton's front end, which both need, and the rest are processes (kiln, its worker, the assembler).
"""
import argparse
import copy
import os
import resource
import subprocess
import sys
import tempfile
import time


def cpu():
    return sum(one.ru_utime + one.ru_stime for one in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)))


def timed(call):
    """(wall time, CPU time) in ms."""
    wall, used = time.perf_counter(), cpu()
    call()
    return (time.perf_counter() - wall) * 1e3, (cpu() - used) * 1e3


def programs(torch):
    functional = torch.nn.functional

    def transformer():
        x, w, weight = torch.randn(4, 128, 512), torch.randn(512, 1536), torch.randn(512)

        def layer(x):
            h = functional.rms_norm(x, (512,), weight)
            q, k, v = (h @ w).view(4, 128, 3, 8, 64).transpose(1, 3).unbind(2)
            angle = torch.arange(128, device=x.device)[:, None] / torch.pow(10000.0, torch.arange(0, 64, 2, device=x.device) / 64)
            turned = [torch.cat((a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()), -1) for a, b in (one.chunk(2, -1) for one in (q, k))]
            scores = (turned[0] @ turned[1].transpose(-1, -2) / 8).softmax(-1)
            up, gate = (functional.layer_norm(x + (scores @ v).transpose(1, 2).reshape(4, 128, 512), (512,)) @ w).chunk(2, -1)
            return functional.silu(gate) * up
        torch.compile(layer)(x)

    def convolutions():
        model = torch.nn.Sequential(torch.nn.Conv2d(3, 32, 3, padding=1), torch.nn.BatchNorm2d(32), torch.nn.ReLU(), torch.nn.MaxPool2d(2), torch.nn.Conv2d(32, 64, 3),
                                    torch.nn.GroupNorm(8, 64), torch.nn.GELU(), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(64, 10))
        torch.compile(model)(torch.randn(8, 3, 64, 64))

    def losses():
        torch.compile(lambda x, y: functional.cross_entropy(x, y) + x.var() + functional.huber_loss(x, x.flip(0)))(torch.randn(512, 32000), torch.zeros(512, dtype=torch.long))

    def rows():
        torch.compile(lambda x: (x.cumsum(-1), x.softmax(0), x.argmax(-1), x.sum(), x.std(1), x.t().contiguous()), dynamic=True)(torch.randn(1000, 3000))
    return transformer, convolutions, losses, rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", default="sm_90a")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--no-server", action="store_true", help="a program and a code generator for each kernel")
    options = parser.parse_args()
    sys.path.insert(0, os.path.join(options.build, "python"))
    scratch = tempfile.TemporaryDirectory(prefix="kiln-bench-")
    os.environ.update(KILN_CACHE_DIR=scratch.name, TRITON_ALWAYS_COMPILE="1", TRITON_CACHE_DIR=scratch.name)
    import torch
    import triton
    from kiln import _build_server
    from kiln.triton import _captured_compile, _compilation, _inductor, _patch
    from torch._subclasses import FakeTensorMode
    if options.no_server:
        def alone(*words):
            done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            return done.returncode, done.stdout, done.stderr
        _build_server.run = alone
    wanted = []
    theirs = _captured_compile._compiler

    def compiler(record):
        compile = theirs(record)

        def noted(src, target=None, options=None, _env_vars=None):
            wanted.append((copy.copy(src), options, *_inductor.asked_for(src, target, options)[::2]))
            return compile(src, target, options)
        return noted
    _captured_compile._compiler = compiler
    with _patch.enabled(), _captured_compile.recorded(lambda *_: None, (options.target,)), FakeTensorMode(allow_non_fake_inputs=True), torch.device("cuda"), torch.no_grad():
        for program in programs(torch):
            program()
    texts = []

    def read():
        texts[:] = [_compilation.triton_ir(src, parsed, read_for) for src, _, read_for, parsed in wanted]

    def compile_ours(turn):
        for number, ((text, facts), (src, *_)) in enumerate(zip(texts, wanted)):
            name = src.fn.__name__
            other = _compilation.renamed(text, name, "%s_%d_%d" % (name, turn, number))  # which the cache does not have
            _compilation.compile_ir(other, facts, (options.target,))
        _build_server._at_end()  # what it used is known when it has ended

    def compile_theirs():
        for src, given, read_for, _ in wanted:
            _inductor.tritons_compile(src, target=read_for, options=given)
    rows = [(timed(read), timed(lambda: compile_ours(turn)), timed(compile_theirs)) for turn in range(options.rounds)]
    print("%d kernels, %s, PyTorch %s, Triton %s" % (len(wanted), options.target, torch.__version__, triton.__version__))
    for kind, name in enumerate(("wall", "CPU")):
        read, compiled, others = (min(row[part][kind] for row in rows) for part in range(3))
        print("%-4s ms: Kiln %.0f (reading %.0f, compiling %.0f), Triton %.0f, Kiln / Triton %.2f" % (name, read + compiled, read, compiled, others, (read + compiled) / others))


if __name__ == "__main__":
    main()
