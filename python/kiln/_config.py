# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The program kiln-config: what a compiler and CMake want to know of libkiln where the package was installed as a wheel, which brings the headers."""
import os
import sys

from . import __version__
from ._paths import HERE

USAGE = """usage: kiln-config OPTION...
--version     of the package
--prefix      the folder that has include/ and lib/cmake/
--includedir  the folder of kiln/kiln.h
--cmakedir    the folder of kilnConfig.cmake, for -Dkiln_DIR=
--library     the path of libkiln
--cflags      for a compiler
--libs        for a linker, with the place where a program looks for libkiln when it starts"""


def answers():
    library = os.path.join(HERE, "libkiln.so.0")
    include = os.path.join(HERE, "include")
    if not os.path.exists(os.path.join(include, "kiln", "kiln.h")):
        raise SystemExit("kiln-config: %s has no headers: this installation is none of a wheel, and pkg-config knows of it" % HERE)
    return {"--version": __version__, "--prefix": HERE, "--includedir": include, "--cmakedir": os.path.join(HERE, "lib", "cmake", "kiln"), "--library": library,
            "--cflags": "-I" + include, "--libs": "%s -Wl,-rpath,%s" % (library, HERE)}


def main():
    words = sys.argv[1:]
    if words == ["--help"]:
        print(USAGE)
        return 0
    known = answers()
    unknown = [word for word in words if word not in known]
    if unknown or not words:
        if unknown:
            from ._suggest import did_you_mean
            print("kiln-config: there is no option '%s'%s" % (unknown[0], did_you_mean(unknown[0], known)), file=sys.stderr)
        print(USAGE, file=sys.stderr)
        return 2
    print(" ".join(known[word] for word in words))
    return 0
