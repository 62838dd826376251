#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A model with an operation of kernels/norms.kiln in PyTorch's graphs on a device: graphs.py DEVICE BUNDLE

torch.compile(fullgraph=True) with each backend, forward and backward, beside eager; torch.export, saved and loaded; a CUDA graph, captured and replayed. A
backend that the machine lacks something for is named. Prints a line for each and ends with 1 where one disagrees.
"""
import os
import sys
import tempfile

sys.path.insert(0, os.environ.get("KILN_PYTHON", os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "build", "release", "python")))

import torch  # noqa: E402

import kiln.torch  # noqa: E402

DEVICE, ROWS, COLUMNS = sys.argv[1], 64, 128
wrong = 0


def tell(what, found, expected):
    global wrong
    try:
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
        print("%-60s agrees" % what, flush=True)
    except AssertionError as error:
        wrong += 1
        print("%-60s %s" % (what, " ".join(str(error).split())), flush=True)


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.w = torch.nn.Parameter(torch.rand(COLUMNS) + 0.5)

    def forward(self, x):
        y, _ = torch.ops.kiln_graphs.rms_norm(x.sin(), self.w, x.shape[0], x.shape[1], 1e-5)
        return (y * 2).cos()

    def plain(self, x):
        return (torch.nn.functional.rms_norm(x.sin(), (COLUMNS,), self.w, 1e-5) * 2).cos()


def gradients(call, model, x):
    x = x.detach().requires_grad_()
    return torch.autograd.grad(call(x).square().sum(), (x, model.w))


def main():
    kiln.torch.register(sys.argv[2], namespace="kiln_graphs")
    model, x = Model().to(DEVICE), torch.randn(ROWS, COLUMNS, device=DEVICE)
    for backend in ("eager", "aot_eager", "inductor"):
        torch._dynamo.reset()
        compiled = torch.compile(model, fullgraph=True, backend=backend)
        try:
            tell("torch.compile(fullgraph=True, backend=%r)" % backend, compiled(x), model.plain(x))
        except Exception as error:  # a backend may want a compiler
            if backend != "inductor":
                raise
            print("%-60s not run: %s" % (backend, " ".join(str(error).split())[:150]), flush=True)
            continue
        tell("  its derivatives", gradients(compiled, model, x), gradients(model.plain, model, x))
        tell("  other sizes", compiled(x[:9].clone()), model.plain(x[:9]))
    program = torch.export.export(model, (x,), dynamic_shapes={"x": {0: torch.export.Dim("rows", min=2, max=1024)}})
    with tempfile.TemporaryDirectory() as folder:
        torch.export.save(program, os.path.join(folder, "program.pt2"))
        loaded = torch.export.load(os.path.join(folder, "program.pt2")).module()
    tell("torch.export, saved and loaded", loaded(x[:17]), model.plain(x[:17]))
    if DEVICE == "cuda":
        held = x.clone()
        model(held)
        graph = torch.cuda.CUDAGraph()
        with torch.no_grad(), torch.cuda.graph(graph):
            captured = model(held)
        for _ in range(3):
            held.normal_()
            graph.replay()
            tell("a CUDA graph, replayed", captured, model.plain(held))
    return wrong != 0


if __name__ == "__main__":
    sys.exit(main())
