# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A GPU for PyTorch where there is none, as far as AOTInductor asks for one: tensors are fake ones, and kernels are compiled and loaded, but not tuned. The driver
that libkiln opens is the interpreter of PTX (tests/emulation/cuda_interpreted.c), so code is PTX."""
import contextlib
import os
import types
from unittest import mock

import torch._inductor.config as inductor
from torch._inductor.codegen.wrapper import PythonWrapperCodegen
from torch._inductor.runtime.triton_heuristics import CachingAutotuner
from torch._subclasses.fake_tensor import FakeTensorMode

from kiln import _compiler
from kiln.triton import _absent_gpu

_MAJOR, _MINOR = divmod(int(os.environ.get("KILN_PTX_TARGET", "80")), 10)
_PROPERTIES = types.SimpleNamespace(
    name="interpreted PTX", major=_MAJOR, minor=_MINOR, multi_processor_count=4, warp_size=32, max_threads_per_multi_processor=2048, regs_per_multiprocessor=65536,
    total_memory=1 << 30, shared_memory_per_block=49152, shared_memory_per_block_optin=166912, L2_cache_size=1 << 20, gcnArchName="", max_threads_per_block=1024)


def _store_kernels(wrapper):
    """In place of the block that tunes each kernel: the first config of each is the one."""
    wrapper.kernel_autotune_defs.splice("async_compile.wait(globals())")
    scope = {}
    exec(wrapper.kernel_autotune_defs.getvalue(), scope)
    for kernel in scope.values():
        if isinstance(kernel, CachingAutotuner):
            kernel.precompile()
            kernel.save_gpu_kernel(0, kernel.launchers[0])


@contextlib.contextmanager
def gpu():
    """The mode of fake tensors, which may be made on "cuda"."""
    theirs = _compiler.run
    with contextlib.ExitStack() as stack:
        stack.enter_context(_absent_gpu.pretended(_PROPERTIES))
        stack.enter_context(mock.patch.object(PythonWrapperCodegen, "generate_and_run_autotune_block", _store_kernels))
        stack.enter_context(mock.patch.object(_compiler, "run", lambda command, *words: theirs(command, *["--emit=ptx"] * (command == "build"), *words)))
        stack.enter_context(inductor.patch({"compile_threads": 1, "fx_graph_cache": False, "aot_inductor.precompile_headers": False,
                                           "aot_inductor.compile_wrapper_opt_level": "O0"}))
        yield FakeTensorMode(allow_non_fake_inputs=True)
