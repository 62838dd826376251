# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Where the package looks for the libraries and programs that it was installed with."""
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


def candidates(soname, explicit=None):
    """Paths of a library to try: the given one; otherwise next to this file (a wheel), in the prefix (PREFIX/lib/python3/dist-packages/kiln; in
    PREFIX/lib or another LIBDIR of the Makefile), then where the loader looks."""
    if explicit is not None:
        return [os.fspath(explicit)]
    prefix_lib = os.path.normpath(os.path.join(HERE, "..", "..", ".."))
    multiarch = getattr(sys.implementation, "_multiarch", "")
    folders = (HERE, prefix_lib, os.path.join(prefix_lib, multiarch), prefix_lib + "64")
    return [path for path in (os.path.join(folder, soname) for folder in dict.fromkeys(folders)) if os.path.exists(path)] + [soname]
