# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""bench/aot_inductor.py without a GPU. The compiler that it gives PyTorch: one that puts a copy of libstdc++ into what it links is found, and wrapped so that it shares
PyTorch's. A process that fails leaves the others theirs. Skipped where PyTorch or g++ is absent."""
import contextlib
import io
import os
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
import zipfile
from unittest import mock

import support

sys.path.insert(0, os.path.join(support.ROOT, "bench"))
import aot_inductor  # noqa: E402

try:
    import torch  # noqa: F401
    absent = None if shutil.which("g++") else "g++ is not installed"
except ImportError as missing:
    absent = str(missing)


class Compilers(unittest.TestCase):
    def setUp(self):
        if absent or support.is_instrumented():
            self.skipTest(absent or "the sanitizer brings its own libstdc++")
        self.folder = tempfile.mkdtemp(dir=FOLDER)

    def compiler(self, text):
        path = os.path.join(self.folder, "of machine", "g++")
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as file:
            file.write("#!/bin/sh\n" + text)
        os.chmod(path, 0o755)
        return "'%s'" % path

    def sharing(self, compiler):
        return aot_inductor.sharing_compiler(compiler, os.path.join(self.folder, "cxx"))

    def run_it(self, *words):
        done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=self.folder)
        self.assertEqual(done.returncode, 0, done.stdout.decode(errors="replace"))
        return done.stdout.decode()

    def test_one_that_shares_stays(self):
        self.assertEqual(self.sharing("g++"), "g++")

    def test_one_that_copies_is_wrapped(self):
        ours = self.sharing(self.compiler('case "$*" in *c++-header*) exec g++ "$@" ;; esac\nexec g++ -static-libstdc++ "$@" -static-libgcc -static-libstdc++\n'))
        self.assertEqual(os.path.relpath(ours, self.folder), os.path.join("cxx", "g++"))  # it has been tried
        self.check_other_words(ours)

    def check_other_words(self, ours):
        """Those that do not link, and an object that is linked."""
        for name, text in (("one two.h", "#include <string>\n"), ("a.cpp", '#include "one two.h"\nstd::string text(int i) { return std::to_string(i); }\n')):
            with open(os.path.join(self.folder, name), "w") as file:
                file.write(text)
        self.assertIn("g++", self.run_it(ours, "--version"))
        self.assertIn("basic_string", self.run_it(ours, "-E", "a.cpp"))
        for words in (("-x", "c++-header", "one two.h", "-o", "one.gch"), ("-fPIC", "-c", "a.cpp", "-o", "a.o"), ("-static-libstdc++", "-shared", "a.o", "-o", "a.so")):
            self.assertEqual(self.run_it(ours, "-Werror", *words), "")
        with open(os.path.join(self.folder, "a.so"), "rb") as file:
            self.assertIn(b"libstdc++.so.6", file.read())

    def test_one_that_fails(self):
        with self.assertRaisesRegex(SystemExit, "no compiler that links libstdc.. shared:\n[^\n]*exit 7: no licence"):
            self.sharing(self.compiler("echo no licence; exit 7\n"))
        with self.assertRaisesRegex(SystemExit, "nowhere-g..: this compiler is not there"):
            self.sharing("nowhere-g++")

    def test_help_says_so(self):
        text = self.run_it(sys.executable, os.path.join(support.ROOT, "bench", "aot_inductor.py"), "--help")
        self.assertIn("share libstdc++ with PyTorch", text)


class Pretended:
    """In place of the machine: what its processes would leave, but for one kind of them, which fails."""

    def __init__(self, folder, failing):
        self.folder, self.package, self.failing = folder, "package", failing

    def run(self, what, name, path, to, **environment):
        if what == self.failing:
            raise aot_inductor.Failed("%s %s: exit 7" % (what, name))
        if what.startswith("build"):
            with zipfile.ZipFile(path, "w") as package:
                for one in ("a.kbundle", "libkiln.so.0", "a.so") if what == "build kiln" else ("a.cubin", "a.so"):
                    package.writestr(one, "libstdc++.so.6")
            return {"seconds": 3.0}
        torch.save(torch.ones(3), to)
        return {"imports": 1.0, "driver": 1.0, "first": 0.5, "step": 0.001, "process": 3.0}


class Parts(unittest.TestCase):
    def measured(self, failing, until=float("inf")):
        if absent:
            self.skipTest(absent)
        model, said = aot_inductor.Model(Pretended(tempfile.mkdtemp(dir=FOLDER), failing), "mlp"), io.StringIO()
        with contextlib.redirect_stdout(said):
            for who in ("eager", "kiln", "triton", "compile"):
                model.prepare(who)
            model.start(2, until)
            model.wrap(until)
        return model.good, said.getvalue()

    def test_one_that_fails_leaves_the_others_theirs(self):
        rows = ("package by Kiln  ", "package by Triton  ", "torch.compile, warm caches", "cpp_wrapper by Kiln: a step")
        for failing, missing in ((None, ()), ("build kiln", rows[:1]), ("build triton", rows[1:2]), ("compile", rows[2:3]), ("load", rows[:2]), ("wrapper kiln", rows[3:])):
            with self.subTest(failing):
                good, text = self.measured(failing)
                self.assertEqual(good, failing is None, text)
                self.assertEqual([row for row in rows if row not in text], list(missing))
                self.assertEqual("%s mlp: exit 7" % failing in text, failing is not None)
                self.assertEqual("x sooner than torch.compile" in text, failing in (None, "wrapper kiln"))

    def test_a_row_for_each_start(self):
        lines = self.measured(None)[1].splitlines()
        starts = [line.split("mlp: ")[1].split(":")[0] for line in lines if "whole process" in line and "empty caches" not in line]
        self.assertEqual(starts, 2 * ["package by Kiln", "package by Triton", "torch.compile, warm caches"])
        self.assertNotIn("warm caches", self.measured(None, until=0)[1])

    def test_one_that_hangs_says_where(self):
        """Also where a process that it started holds its output open."""
        if absent:
            self.skipTest(absent)
        script = os.path.join(tempfile.mkdtemp(dir=FOLDER), "hangs.py")
        with open(script, "w") as file:
            file.write("import faulthandler, signal, subprocess, time\nfaulthandler.register(signal.SIGUSR1)\nsubprocess.Popen(['sleep', '600'])\n"
                       "def waits():\n  time.sleep(600)\nwaits()\n")
        machine = aot_inductor.Machine.__new__(aot_inductor.Machine)
        machine.folder, machine.limit, machine.environment = FOLDER, 5, dict(os.environ)
        start = time.monotonic()
        with mock.patch.object(aot_inductor, "__file__", script), self.assertRaisesRegex(aot_inductor.Failed, "load mlp: not done after 5 s\n(?s:.*)in waits"):
            machine.run("load", "mlp", "", "")
        self.assertLess(time.monotonic() - start, 60)


if __name__ == "__main__":
    sys.exit(support.main(__name__))
