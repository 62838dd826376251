# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The compiler of this installation, for programs: of the package kiln-compiler, in the prefix, or in PATH. What only its use wants is imported there: it
takes a process that launches kernels more time than all else of the package."""
import os
import sys

from ._core import Library
from ._paths import HERE
from ._errors import Error


def _program_paths():
    import importlib.util
    import shutil
    compiler = importlib.util.find_spec("kiln_compiler")
    for folder in compiler.submodule_search_locations if compiler else ():
        yield os.path.join(folder, "bin", "kiln")
    yield os.path.normpath(os.path.join(HERE, "..", "..", "..", "..", "bin", "kiln"))  # of PREFIX/lib/python3/dist-packages/kiln
    yield os.path.normpath(os.path.join(HERE, "..", "..", "bin", "kiln"))  # of a build's folder
    found = shutil.which("kiln")
    if found:
        yield found


def program():
    """The path of the program kiln; None where the compiler is not installed."""
    return next((path for path in _program_paths() if os.access(path, os.X_OK)), None)


_said = set()


def warn(text):
    """Says something on standard error, once a process. It is what a program loses without it, so no filter of Python's `warnings` keeps it back."""
    if text not in _said and sys.stderr is not None:
        _said.add(text)
        print("kiln: warning: " + text, file=sys.stderr, flush=True)


def run(command, *arguments):
    """Runs a command of kiln, says what it warns of, and returns what it prints; Error with its messages where that fails. What the compiler was given in a
    folder of ours (tempfile.gettempdir()/kiln-...) has no place that means anything."""
    import subprocess
    import tempfile
    path = program()
    if path is None:
        raise Error("the compiler is not installed (the package kiln-compiler has it)")
    if command == "build":
        from . import _build_server
        status, printed, said = _build_server.run(path, command, *arguments)
    else:
        done = subprocess.run([path, command, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        status, printed, said = done.returncode, done.stdout, done.stderr
    printed, said = printed.decode(errors="replace"), said.decode(errors="replace")
    if status:
        text = said.strip() or printed.strip() or "kiln %s: exit %d" % (command, status)
        raise Error(text, int(text.partition("[KILN-E")[2][:4] or 0))
    for line in said.splitlines():
        place, mark, text = line.partition(": warning: ")
        if mark:
            warn(text if place.startswith(os.path.join(tempfile.gettempdir(), "kiln-")) else "%s: %s" % (place, text))
    return printed


def build(sources, targets, output, arguments=(), command="build"):
    """Runs `kiln build`, or a command that takes the same, and returns what it prints."""
    return run(command, "-q", "-t", ",".join(targets), "-o", output, *arguments, *sources)


def compile(*sources, targets=("host",), output=None, arguments=()):
    """Compiles sources (paths of the kernel language or Triton IR) for targets, through the cache, and opens the bundle; `output` keeps it there.
    `arguments` are further ones of `kiln build`."""
    targets = (targets,) if isinstance(targets, str) else tuple(targets)
    sources = [os.fspath(source) for source in sources]
    if output is not None:
        build(sources, targets, os.fspath(output), arguments)
        return Library(output)
    import tempfile
    with tempfile.TemporaryDirectory(prefix="kiln-") as folder:
        path = os.path.join(folder, "compiled.kbundle")
        build(sources, targets, path, arguments)
        with open(path, "rb") as file:
            return Library(file.read())
