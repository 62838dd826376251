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


if __name__ == "__main__":
    sys.exit(support.main(__name__))
