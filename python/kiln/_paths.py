# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Where the package looks for the libraries and programs that it was installed with."""
import os

HERE = os.path.dirname(os.path.abspath(__file__))


def candidates(soname, explicit=None):
    """Paths of a library to try: the given one; otherwise next to this file (a wheel), in the prefix (PREFIX/lib/python3/dist-packages/kiln), then
    where the loader looks."""
    if explicit is not None:
        return [os.fspath(explicit)]
    prefix_lib = os.path.normpath(os.path.join(HERE, "..", "..", ".."))
    return [path for path in (os.path.join(folder, soname) for folder in (HERE, prefix_lib)) if os.path.exists(path)] + [soname]
