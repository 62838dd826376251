# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Kiln's runtime library for Python: opens bundles of compiled kernels and launches them.

    library = kiln.Library("app.kbundle")
    device = library.device("host")
    saxpy = device.kernel("saxpy")
    saxpy(0.5, x, y, len(x))

Its native part calls libkiln; it needs no other package. docs/python.md tells what may be an argument.
"""
from ._compiler import compile
from ._core import __version__, Device, Kernel, Library, Memory, Prepared, Stream, version
from ._arrays import Strided
from ._errors import Error, LaunchRefused, NoDevice, NotFound, NoVariant, Untrusted

__all__ = ["CHECK_ALL", "EXACT_ONLY", "NO_JIT", "Candidate", "Choice", "Device", "Error", "Kernel", "Launch", "LaunchRefused", "Library", "Memory", "NoDevice",
           "NotFound", "NoVariant", "Param", "Preflight", "Prepared", "Stream", "Untrusted", "compile", "on_launch", "strided", "version"]

EXACT_ONLY, NO_JIT, CHECK_ALL = 1, 2, 4


def strided(array):
    """An array of any strides for a pointer parameter of a kernel that is told the strides by other arguments; without this only contiguous arrays are
    taken, since the pointer itself says nothing of strides. The pointer is that of the first element."""
    return Strided(array)


def on_launch(function):
    """From now on `function(launch)` is called after each launch of the process, whatever made it: kernels of this package, prepared launches, torch.ops,
    jitted functions of JAX. `launch` is a Launch: names of kernel and device, the Choice, the stream's number, the status (0: the driver has it; on the host the
    kernel has ended), seconds of the call. Returns a function that ends this. What `function` raises is shown, and the launch goes on; what it launches itself
    is told to nobody."""
    import atexit
    from . import _core
    if not callable(function):
        raise TypeError("on_launch: expected a function, found %r" % (function,))
    hook = _core._hook_launches(function)

    def remove():
        atexit.unregister(remove)
        _core._unhook_launches(hook)

    atexit.register(remove)
    return remove


def __getattr__(name):
    """Candidate, Choice, Launch, Param and Preflight, which no launch wants, from the module that has them."""
    if name not in __all__:
        if name.startswith("__"):  # what the interpreter asks for
            raise AttributeError("module %r has no attribute %r" % (__name__, name))
        from ._suggest import did_you_mean
        raise AttributeError("module %r has no attribute %r%s" % (__name__, name, did_you_mean(name, __all__)))
    from . import _results
    return getattr(_results, name)


def __dir__():
    return sorted({*globals(), *__all__})
