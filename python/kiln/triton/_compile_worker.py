# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The process that PyTorch forks its compile workers from imports the module of its pickler. Here it finds what each worker would import by itself: Kiln, and what
Triton imports at the first compile."""
import triton.compiler.code_generator  # noqa: F401
from torch._inductor.compile_worker.subproc_pool import SubprocPickler as Pickler  # noqa: F401

from . import _inductor  # noqa: F401
