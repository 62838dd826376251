# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Builds by way of `kiln build-server`: the same bytes and messages as from a program for each, whatever ends, changes or forks in between."""
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import support

import kiln
from kiln import _build_server, _compiler

SOURCE = """kiln 1
kernel twice(x: inout *f32, n: i32) @grid(cdiv(n, 64)) @config(warps = 1) {
  let i = pid(0) * 64 + iota(64)
  store(x + i, load(x + i, i < n) * 2.0, i < n)
}
"""


def children(pid):
    with open("/proc/%d/task/%d/children" % (pid, pid)) as file:
        return [int(word) for word in file.read().split()]


class Builds(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(dir=FOLDER)
        self.source, self.output = os.path.join(self.folder, "twice.kiln"), os.path.join(self.folder, "twice.kbundle")
        with open(self.source, "w") as file:
            file.write(SOURCE)
        os.environ["KILN_CACHE_DIR"] = os.path.join(self.folder, "cache")

    def tearDown(self):
        _build_server._at_end()
        shutil.rmtree(self.folder)

    def build(self, output=None, target="host"):
        output = output or self.output
        _compiler.build([self.source], [target], output, ("--no-cache",))
        with open(output, "rb") as file:
            return file.read()

    def test_bytes_and_messages(self):
        for target in ("host", "sm_90a", "gfx942"):
            twice = [self.build(target=target) for _ in range(2)]
            subprocess.run([_compiler.program(), "build", "-q", "-t", target, "--no-cache", "-o", self.output, self.source], check=True)
            with open(self.output, "rb") as file:
                self.assertEqual(twice, [file.read()] * 2)
        self.assertRaisesRegex(kiln.Error, r"^kiln: error: cannot open /none/a.kiln: No such file or directory \[KILN-E0003\]$",
                               _compiler.build, ["/none/a.kiln"], ["host"], self.output)
        self.assertEqual(len(_build_server._all), 1)

    def test_one_code_generator(self):
        self.build()
        server, = _build_server._all
        worker = children(server.process.pid)
        self.assertEqual(len(worker), 1)
        self.build(target="sm_80")
        self.assertEqual(children(server.process.pid), worker)
        os.kill(worker[0], signal.SIGKILL)
        self.build()  # whether the server has seen it or not
        self.build()
        self.assertNotEqual(children(server.process.pid), worker)
        os.kill(children(server.process.pid)[0], signal.SIGSTOP)  # and in the middle of a request
        os.unlink(self.output)
        builder = threading.Thread(target=self.build)
        builder.start()
        time.sleep(0.5)
        os.kill(children(server.process.pid)[0], signal.SIGKILL)
        builder.join()
        self.assertEqual((_build_server._all, os.path.exists(self.output)), ([server], True))

    def test_a_server_that_ended(self):
        self.build()
        server, = _build_server._all
        server.process.kill()
        self.build()
        self.assertEqual((len(_build_server._all), _build_server._all[0] is server), (1, False))

    def test_the_environment_of_now(self):
        self.build()
        server, = _build_server._all
        os.environ["KILN_CACHE_DIR"] = os.path.join(self.folder, "elsewhere")
        _compiler.build([self.source], ["host"], self.output)
        self.assertTrue(os.path.isdir(os.path.join(self.folder, "elsewhere")))
        self.assertTrue(len(_build_server._all) == 1 and _build_server._all[0] is not server)

    def test_threads_and_forks(self):
        failures = []

        def run(number):
            try:
                self.build("%s.%d" % (self.output, number))
            except Exception as error:
                failures.append(error)
        threads = [threading.Thread(target=run, args=(number,)) for number in range(3)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
        self.assertEqual(failures, [])
        servers = list(_build_server._all)
        self.assertLessEqual(len(servers), 3)
        child = os.fork()
        if child == 0:
            status = 1
            try:
                self.build()
                status = 0 if not set(_build_server._all) & set(servers) else 2
                _build_server._at_end()
            finally:
                os._exit(status)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.build()
        self.assertEqual(_build_server._all, servers)

    def test_nothing_stays_behind(self):
        text = "import sys; sys.path.insert(0, %r)\nfrom kiln import _compiler, _build_server\n_compiler.build([%r], ['host'], %r)\n" % (
            os.path.join(support.BUILD, "python"), self.source, self.output)
        text += "print(_build_server._all[0].process.pid)\n"
        left = os.path.join(self.folder, "left")
        os.mkdir(left)
        for end in ("", "import os, sys; sys.stdout.flush(); os.kill(os.getpid(), 9)"):
            done = subprocess.run([sys.executable, "-W", "error", "-c", text + end], env=dict(os.environ, TMPDIR=left), stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE)
            self.assertEqual(done.stderr, b"")
            pid = done.stdout.decode().strip()
            until = time.monotonic() + 60
            while os.path.exists("/proc/%s/exe" % pid) and time.monotonic() < until:  # of a zombie there is none
                time.sleep(0.05)
            self.assertFalse(os.path.exists("/proc/%s/exe" % pid))
            self.assertEqual(os.listdir(left), [])


if __name__ == "__main__":
    sys.exit(support.main(__name__))
