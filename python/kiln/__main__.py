# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`python -m kiln` is the program kiln of this installation: of the package kiln-compiler, in the prefix, or in PATH."""
import importlib.util
import os
import shutil
import sys

from ._loading import HERE


def places():
    compiler = importlib.util.find_spec("kiln_compiler")
    for folder in compiler.submodule_search_locations if compiler else ():
        yield os.path.join(folder, "bin", "kiln")
    yield os.path.normpath(os.path.join(HERE, "..", "..", "..", "..", "bin", "kiln"))
    found = shutil.which("kiln")
    if found:
        yield found


def main():
    for path in places():
        if os.access(path, os.X_OK):
            os.execv(path, [path] + sys.argv[1:])
    print("kiln: the compiler is not installed (the package kiln-compiler has it)", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
