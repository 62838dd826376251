# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""kiln.triton with the oldest and the newest Triton that it supports, in the long run with all of them, each in an environment with Triton's wheel alone, which is made here from PyPI and kept
in the build's folder. triton_alone.py has the tests."""
import os
import re
import shutil
import subprocess
import sys
import threading
import unittest

import support

BETWEEN = ("3.7.0", "3.8.0") if os.environ.get("KILN_TEST_FULL") == "1" else ()
VERSIONS = ("3.6.0", *BETWEEN, "3.9.0")
UNREACHABLE = re.compile(r"from versions: none|[Cc]onnection|Temporary failure|Read timed out|Network is unreachable|ProxyError|No module named 'ensurepip'|ensurepip is not available")


def make_environment(version):
    """(the interpreter, None), or (None, what pip says)."""
    folder = os.path.join(support.BUILD, "triton-alone", version)
    python, ready = os.path.join(folder, "bin", "python"), os.path.join(folder, "ready")
    if os.path.exists(ready):
        return python, None
    shutil.rmtree(folder, ignore_errors=True)
    for command in ((sys.executable, "-m", "venv", folder),
                    (python, "-m", "pip", "install", "-q", "--retries", "1", "--timeout", "20", "--no-deps", "--no-compile", "triton==" + version)):
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=support.plain_environment())
        if done.returncode:
            shutil.rmtree(folder, ignore_errors=True)
            return None, done.stdout.decode(errors="replace").strip() or "exit %d" % done.returncode
    with open(ready, "w"):
        pass
    return python, None


class Versions(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if support.is_instrumented():
            raise unittest.SkipTest("Triton's wheels run without sanitizers")
        cls.made = {}
        threads = [threading.Thread(target=lambda version=version: cls.made.update({version: make_environment(version)})) for version in VERSIONS]
        for one in threads:
            one.start()
        for one in threads:
            one.join()

    def check(self, version):
        python, why = self.made[version]
        if why and UNREACHABLE.search(why):
            self.skipTest("Triton %s cannot be had from PyPI: %s" % (version, why.splitlines()[-1]))
        self.assertIsNone(why)
        done = subprocess.run([python, os.path.join(support.ROOT, "tests", "python", "triton_alone.py")], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=600)
        said = done.stdout.decode(errors="replace")
        self.assertRegex(said, "Triton %s" % re.escape(version))
        self.assertEqual(done.returncode, 0, said)
        self.assertRegex(said, r"(?m)^\d\d+ passed, 0 failed, 0 skipped$")

    def test_the_oldest(self):
        self.check(VERSIONS[0])

    def test_those_between(self):
        if not BETWEEN:
            self.skipTest("the long run has the versions between the oldest and the newest")
        for version in BETWEEN:
            self.check(version)

    def test_the_newest(self):
        self.check(VERSIONS[-1])


if __name__ == "__main__":
    sys.exit(support.main(__name__))
