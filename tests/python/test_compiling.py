# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Sources compiled from Python, and the program `kiln` of the package."""
import os
import subprocess
import sys
import unittest

import support

import kiln  # noqa: E402


class Compiling(unittest.TestCase):
    def test_sources_from_python(self):
        environment = dict(os.environ, KILN_CACHE_DIR=os.path.join(FOLDER, "cache"), PYTHONPATH=os.path.join(support.BUILD, "python"))
        program = """if True:
            import kiln, sys
            library = kiln.compile(sys.argv[1], targets="host", arguments=["--no-cache"])
            assert "saxpy" in library.kernels
            kept = kiln.compile(sys.argv[1], output=sys.argv[2])
            memory = kept.device("host").memory(3, "i32")
            kept.device("host").kernel("gridless")(memory, grid=3)
            assert bytes(memory)[8] == 12
            try:
                kiln.compile(sys.argv[1], targets="toaster")
            except kiln.Error as refused:
                assert "toaster" in str(refused), refused
            else:
                raise AssertionError("a toaster")
        """
        out = os.path.join(FOLDER, "kept.kbundle")
        subprocess.run([sys.executable, "-c", program, os.path.join(FOLDER, "test.kiln"), out], check=True, env=environment)
        self.assertTrue(os.path.exists(out))
        done = subprocess.run([sys.executable, "-m", "kiln", "--version"], stdout=subprocess.PIPE, env=environment)
        self.assertEqual(done.returncode, 0)
        self.assertIn(kiln.version(), done.stdout.decode())

    def test_a_print_that_is_left_out_is_said(self):
        """Once a build that has an AMD GPU among its targets, from the cache as well, and with every option but -q twice."""
        path = os.path.join(FOLDER, "shown.ttir")
        with open(path, "w") as file:
            file.write('#loc3 = loc("dir/k.py":7:5)\nmodule {\n  tt.func public @shown(%x: i32) {\n    tt.print " x: " {hex = false, isSigned = array<i32: 1>} : %x : i32 loc(#loc3)\n'
                       '    tt.print " y: " {hex = false, isSigned = array<i32: 1>} : %x : i32 loc(#loc3)\n    tt.return\n  }\n}\n')
        text = "warning: kernel 'shown' prints nothing on gfx942: \" x: \" at dir/k.py:7:5, and 1 more"
        environment = dict(support.plain_environment(), KILN_CACHE_DIR=os.path.join(FOLDER, "cache"))

        def said(*words):
            done = subprocess.run([os.path.join(support.BUILD, "bin", "kiln"), *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment)
            self.assertEqual(done.returncode, 0, done.stderr.decode())
            return done.stderr.decode().count(text)
        bundle, folder = os.path.join(FOLDER, "shown.kbundle"), os.path.join(FOLDER, "triton")
        os.makedirs(folder)
        os.link(path, os.path.join(folder, "shown.ttir"))
        for options in ((), ("-q",), ("--quiet",), ("-q", "--no-cache"), ("-q", "--force"), ("-q", "-t", "gfx942"), ("-q", "--must-hit")):
            targets = () if "-t" in options else ("-t", "host,sm_80,gfx942")
            self.assertEqual(said("build", path, "-o", bundle, *targets, *options), 1, options)
        self.assertEqual(said("compile", "-q", path, "--target=gfx942", "--emit=asm", "-o", os.path.join(FOLDER, "shown.s")), 1)
        self.assertEqual(said("import-triton", folder, "-t", "host,gfx942", "-o", bundle), 1)
        for options in (("-t", "host,gfx942", "-q", "-q"), ("-t", "host,gfx942", "-qq"), ("-t", "gfx942", "--quiet", "-q"), ("-t", "host,sm_80")):
            self.assertEqual(said("build", path, "-o", bundle, *options), 0, options)
        done = subprocess.run([sys.executable, "-W", "ignore", "-c", "import kiln, sys; [kiln.compile(sys.argv[1], targets='gfx942') for _ in range(3)]", path], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              env=dict(environment, PYTHONPATH=os.path.join(support.BUILD, "python")))
        self.assertEqual((done.returncode, done.stderr.decode().count(text)), (0, 1), done.stderr.decode())


if __name__ == "__main__":
    sys.exit(support.main(__name__))
