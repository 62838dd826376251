# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""torch.compile in a program that `capture` runs on fake tensors. TorchInductor lowers each graph as it does for tensors with memory and asks for its kernels, all
configs of each; here they are recorded and compiled, and never loaded. In place of Inductor's code the graph itself runs, whose operations know fake tensors, and
its outputs get the strides that Inductor chose: what follows is specialized to them."""
import contextlib
import copy
import os
import tempfile
from unittest import mock

import torch
import torch._dynamo
import torch._inductor.compile_fx as compile_fx
import torch._inductor.config as config
import triton
from torch._inductor.utils import clear_caches
from torch.compiler._cache import CacheArtifactManager
from torch.fx.experimental.symbolic_shapes import SYMPY_INTERP
from triton.compiler import ASTSource

from . import _absent_gpu, _bundles, _compilation, _index, _inductor
from .._errors import Error

MEASURED = ("max_autotune", "max_autotune_gemm", "coordinate_descent_tuning")  # with these, which kernels there are depends on times of a device


class Kernel(_inductor.Kernel):
    """A kernel that is never launched. What Inductor asks of it, such as its registers, the bundle says."""

    def _device(self):
        return self.kiln_target if self.kiln_target == "host" else "null:" + self.kiln_target

    def _launcher(self, kernel):
        def run(*_):
            raise RuntimeError("kernel '%s' was launched while its program is captured" % self.name)
        return run


class _Graph:
    """A graph in place of the code that Inductor wrote for it."""

    def __init__(self, graph, compiled):
        self.interpreter, self.strides = torch.fx.Interpreter(graph), compiled.output_strides
        self.sizes = [node.meta.get("val") for node in graph.graph.nodes if node.op == "placeholder"]

    def _laid_out(self, tensor, strides, known):
        if strides is None or not isinstance(tensor, torch.Tensor):
            return tensor
        wanted = tuple(int(eval(one, SYMPY_INTERP, known)) for one in strides)  # expressions of PyTorch's, as it reads them itself
        return tensor if wanted == tensor.stride() else torch.empty_strided(tensor.shape, wanted, dtype=tensor.dtype, device=tensor.device)

    def __call__(self, inputs):
        values = list(inputs)
        known = {str(size.node.expr): int(value) for size, value in zip(self.sizes, values) if isinstance(size, torch.SymInt)}
        inputs.clear()
        found = self.interpreter.run(*values)
        return [self._laid_out(one, strides, known) for one, strides in zip(found, self.strides)]


def _lowered(gm, example_inputs, theirs, **named):
    for setting in MEASURED:
        if getattr(config, setting):
            raise Error("torch.compile with %s: what it launches depends on times that it measures on a device, expected a program without it: "
                        "KILN_TRITON_SAVE has what a run on the device launched" % setting)
    graph = torch.fx.GraphModule(gm, copy.deepcopy(gm.graph))  # Inductor changes its own
    compiled = theirs(gm, example_inputs, **named)
    if hasattr(compiled, "current_callable"):
        compiled.current_callable = _Graph(graph, compiled)
    return compiled


def _compiler(record):
    def compile(src, target=None, options=None, _env_vars=None):
        if type(src) is not ASTSource:
            raise Error("expected a kernel of @triton.jit, found %s" % type(src).__name__)
        read_for, ours, parsed = _inductor.asked_for(src, target, options)
        keys = _index.facts_of(src, parsed, read_for)
        try:
            text, launch = _compilation.triton_ir(src, parsed, read_for)
            built = _compilation.compile_ir(text, launch, (ours,))
        except _bundles.REFUSALS as error:
            record(src.fn.__name__, keys, error)
            raise
        record(src.fn.__name__, keys, (text, launch))
        return Kernel(src, parsed, ours, read_for, (_bundles.Code(built.code, src.fn.__name__, built.origin, built.seconds, ""), keys, text, launch))
    return compile


def _forget():
    """What PyTorch has of graphs and kernels in this process: it would not ask for them again."""
    torch._dynamo.reset()
    clear_caches()


@contextlib.contextmanager
def recorded(record, targets, gpu=None):
    """Calls record(name, facts of the key, its IR with the facts of the launch, or the error) for every kernel that torch.compile asks for. Where there is no GPU it
    finds one of these properties, or else of the first target that is known. PyTorch forgets what it compiled before, and these graphs afterwards."""
    gpu = gpu or next(filter(None, map(_absent_gpu.properties_of, targets)), None)
    theirs = compile_fx._compile_fx_inner
    _forget()
    with contextlib.ExitStack() as stack:
        stack.callback(_forget)
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="kiln-"))
        stack.enter_context(mock.patch.dict(os.environ, TORCHINDUCTOR_CACHE_DIR=folder))
        stack.enter_context(config.patch(compile_threads=1, fx_graph_cache=False, fx_graph_remote_cache=False, autotune_remote_cache=False))
        stack.enter_context(CacheArtifactManager.with_fresh_cache())
        stack.enter_context(mock.patch.object(compile_fx, "_compile_fx_inner", lambda gm, inputs, **named: _lowered(gm, inputs, theirs, **named)))
        for owner in (triton, triton.compiler, triton.compiler.compiler):
            stack.enter_context(mock.patch.object(owner, "compile", _compiler(record)))
        if gpu is not None and not torch.cuda.is_available():
            stack.enter_context(_absent_gpu.pretended(gpu))
        yield
