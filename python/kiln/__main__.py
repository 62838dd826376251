# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`python -m kiln` is the program kiln of this installation."""
import os
import sys

from ._compiler import program


def main():
    path = program()
    if path is None:
        print("kiln: the compiler is not installed (the package kiln-compiler has it)", file=sys.stderr)
        return 1
    os.execv(path, [path] + sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
