# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Follows the pages for programs of Triton as a reader does, each in a folder of its own: ```python NAME is a file; ```console has commands after `$ `, each
followed by what it prints on both streams, in the order of the page; `...` stands for any lines, `[..]` for any part of one. The commands run in one shell.
Skipped where PyTorch or Triton is absent (PYTHON=.../python tests/run.py names the interpreter that has them)."""
import os
import re
import subprocess
import sys
import tempfile
import unittest

import support

try:
    import torch  # noqa: F401
    import triton
    import kiln.triton  # noqa: F401
except ImportError as missing:
    triton, absent = None, str(missing)

END = "== %d %d =="


def listings(path):
    """[(language, name of a file or "", lines)] of the page, in order."""
    with open(path) as file:
        text = file.read()
    return [(found[1], found[2].strip(), found[3].splitlines()) for found in re.finditer(r"(?ms)^```(\w*)([^\n]*)\n(.*?)^```$", text)]


def commands(lines):
    """[(a command, the lines that it prints)]."""
    found = []
    for line in lines:
        if line.startswith("$ "):
            found.append((line[2:], []))
        else:
            found[-1][1].append(line)
    return found


def pattern(lines):
    return "".join("(?:.*\n)*?" if line == "..." else ".*".join(map(re.escape, line.split("[..]"))) + "\n" for line in lines)


@unittest.skipIf(triton is None, "PyTorch or Triton is absent")
class Pages(unittest.TestCase):
    def follow(self, page):
        with tempfile.TemporaryDirectory(prefix="kiln-page-") as folder:
            self.follow_in(folder, os.path.join(support.ROOT, "docs", page))

    def prepare(self, folder):
        """The environment of an installation: `python` and `kiln` are there, and what kiln-triton.pth does, which is read from no folder of PYTHONPATH."""
        programs, site = os.path.join(folder, ".bin"), os.path.join(folder, ".site")
        os.makedirs(programs), os.makedirs(site)
        with open(os.path.join(programs, "python"), "w") as file:
            file.write('#!/bin/sh\nexec "%s" -W ignore "$@"\n' % sys.executable)
        os.chmod(os.path.join(programs, "python"), 0o755)
        with open(os.path.join(site, "sitecustomize.py"), "w") as file:
            file.write("import site; site.addsitedir(%r)" % os.path.join(support.ROOT, "python"))
        others = {name: value for name, value in os.environ.items() if not name.startswith(("KILN_", "TRITON_", "TORCHINDUCTOR_"))}
        return {**others, "PATH": os.pathsep.join((programs, os.path.join(support.BUILD, "bin"), others["PATH"])), "HOME": folder, "PYTHONUNBUFFERED": "1",
                "PYTHONPATH": os.pathsep.join((site, os.path.join(support.BUILD, "python")))}

    def follow_in(self, folder, path):
        wanted, script = [], []
        for language, name, lines in listings(path):
            if language == "python":
                script += ["cat >%s <<'END OF THE FILE'" % name, *lines, "END OF THE FILE"]
            elif language == "console":
                for command, printed in commands(lines):
                    script += [command, 'echo "%s"' % (END.replace("%d %d", "%d $?") % len(wanted))]
                    wanted.append((command, printed))
        self.assertGreater(len(wanted), 2)
        done = subprocess.run(["bash", "-c", "\n".join(script)], cwd=folder, env=self.prepare(folder), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=900)
        said = done.stdout.decode(errors="replace")
        for number, (command, printed) in enumerate(wanted):
            found, mark, said = said.partition(END % (number, 0) + "\n")
            self.assertTrue(mark, "%s: failed\n%s" % (command, found))
            self.assertRegex(found, r"\A%s\Z" % pattern(printed), command)

    def test_from_triton(self):
        self.follow("from-triton.md")

    def test_torch_compile(self):
        self.follow("torch-compile.md")

    def test_no_compile(self):
        self.follow("no-compile.md")


if __name__ == "__main__":
    sys.exit(support.main(__name__))
