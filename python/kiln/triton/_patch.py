# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Replaces the launches of all @triton.jit functions of a process by Kiln's, and reports whether they are replaced."""
import contextlib
import sys

import triton
import triton.compiler.compiler
from triton.compiler import CompiledKernel
from triton.runtime import Autotuner, JITFunction

from . import _autotune, _host_driver, _inductor, _launcher
from .. import _import_hook

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


def _take_ninetoothed(part):
    """Of NineToothed, which may not be there, so what knows it is imported when a module of it was."""
    def take(module, replace):
        from . import _ninetoothed
        getattr(_ninetoothed, "take_" + part)(module, replace)
    return take


def _take_helion(module, replace):
    from . import _helion
    _helion.take(module, replace)


MODULES = {**_inductor.MODULES, "helion.runtime.kernel": _take_helion, "ninetoothed.aot": _take_ninetoothed("aot"), "ninetoothed.build": _take_ninetoothed("build")}


class _Later:
    """An object that is made when something is asked of it."""

    def __init__(self, make):
        self._make = make

    def __getattr__(self, name):
        made = self.__dict__.get("_made")
        if made is None:
            made = self.__dict__["_made"] = self._make()
        return getattr(made, name)


def _make_utils_later():
    """Triton's drivers compile a module in C as soon as they are made. Kiln wants none, and what starts from a bundle may have no compiler."""
    for name, utils in (("nvidia", "CudaUtils"), ("amd", "HIPUtils")):
        module = sys.modules.get("triton.backends.%s.driver" % name)
        theirs = getattr(module, utils, None)
        if theirs is not None:
            def make(module=module, utils=utils, theirs=theirs):
                setattr(module, utils, theirs)  # their __new__ looks its own class up by name
                return theirs()
            _replace(module, utils, lambda make=make: _Later(make))


def enable():
    """Puts Kiln behind every @triton.jit function of the process. Without a GPU they run on the CPU."""
    global _was_enabled
    if _replaced:
        return
    _was_enabled = True
    theirs = CompiledKernel.run
    _replace(JITFunction, "run", _run)
    _replace(Autotuner, "run", _autotune.run)
    _replace(CompiledKernel, "run", property(lambda self: _inductor.launcher_of(theirs.fget(self), self)))
    for owner in (triton, triton.compiler, triton.compiler.compiler):
        _replace(owner, "compile", _inductor.compile)
    for name, take in MODULES.items():
        _import_hook.when_executed(name, lambda module, take=take: take(module, _replace))
    _make_utils_later()
    _host_driver.activate()


def disable():
    """Puts Triton back."""
    for name in MODULES:
        _import_hook.forget(name)
    while _replaced:
        owner, name, value = _replaced.pop()
        setattr(owner, name, value)
    _host_driver.deactivate()


@contextlib.contextmanager
def enabled():
    """Inside it is enabled; afterwards it is as before."""
    was_enabled, is_new = _was_enabled, not _replaced
    enable()
    try:
        yield
    finally:
        if is_new:
            disable()
            globals().update(_was_enabled=was_enabled)


def why_detached():
    """Why the @triton.jit functions of the process do not run Kiln's code, as a sentence; None: they do."""
    if not _replaced:
        return "kiln.triton.disable() was called" if _was_enabled else "kiln.triton.enable() was not called"
    if getattr(sys.modules.get("triton.runtime.jit"), "JITFunction", None) is not JITFunction:
        return "Triton was imported a second time"
    if JITFunction.run is not _run:
        return "JITFunction.run was replaced by %s.%s" % (JITFunction.run.__module__, JITFunction.run.__qualname__)
    return None
