# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Replaces the launches of all @triton.jit functions of a process by Kiln's, and reports whether they are replaced."""
import sys

from triton.compiler import CompiledKernel
from triton.runtime import Autotuner, JITFunction

from . import _autotune, _host_driver, _launcher
from .. import _import_hook

_INDUCTOR = ("torch._inductor.runtime.static_triton_launcher", "torch._inductor.runtime.static_cuda_launcher")
_replaced = []
_was_enabled = False


def _replace(owner, name, value):
    _replaced.append((owner, name, owner.__dict__[name]))
    setattr(owner, name, value)


def _run(self, *arguments, grid, warmup=False, **named):
    """In place of JITFunction.run."""
    engine = self.__dict__.get("_kiln_engine")
    if engine is None:
        engine = self.__dict__["_kiln_engine"] = _launcher.Engine(self)
    return engine.call(*arguments, grid=grid, warmup=warmup, **named)


def _count_inductor(module):
    """Kernels that torch.compile has Triton compile are launched by PyTorch itself."""
    for owner in list(vars(module).values()):
        if isinstance(owner, type) and owner.__module__ == module.__name__ and "run" in vars(owner):
            _replace(owner, "run", _launcher.counted(owner.run))


def enable():
    """Puts Kiln behind every @triton.jit function of the process. Without a GPU they run on the CPU."""
    global _was_enabled
    if _replaced:
        return
    _was_enabled = True
    theirs = CompiledKernel.run
    _replace(JITFunction, "run", _run)
    _replace(Autotuner, "run", _autotune.run)
    _replace(CompiledKernel, "run", property(lambda self: _launcher.TritonLauncher(theirs.fget(self))))
    for name in _INDUCTOR:
        _import_hook.when_executed(name, _count_inductor)
    _host_driver.activate()


def disable():
    """Puts Triton back."""
    for name in _INDUCTOR:
        _import_hook.forget(name)
    while _replaced:
        owner, name, value = _replaced.pop()
        setattr(owner, name, value)
    _host_driver.deactivate()


def why_detached():
    """Why the @triton.jit functions of the process do not run Kiln's code, as a sentence; None: they do."""
    if not _replaced:
        return "kiln.triton.disable() was called" if _was_enabled else "kiln.triton.enable() was not called"
    if getattr(sys.modules.get("triton.runtime.jit"), "JITFunction", None) is not JITFunction:
        return "Triton was imported a second time"
    if JITFunction.run is not _run:
        return "JITFunction.run was replaced by %s.%s" % (JITFunction.run.__module__, JITFunction.run.__qualname__)
    return None
