# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`import kiln.triton.auto` puts Kiln behind every @triton.jit function of a program; kiln.triton.launches() counts. What KILN_TRITON_BUNDLE, KILN_TRITON_SAVE and the
others ask for is done where kiln-triton.pth is not installed too."""
import sys

from . import enable

_is_started = "kiln._triton_startup" in sys.modules
from .. import _triton_startup  # noqa: E402

if not _is_started:
    _triton_startup.attach(sys.modules[__package__])
enable()
