# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`import kiln.triton.auto` puts Kiln behind every @triton.jit function of a program; kiln.triton.launches() counts."""
from . import enable

enable()
