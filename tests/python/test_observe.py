# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""kiln.on_launch, and libkiln-observe in an interpreter: asked for by the environment, or preloaded."""
import gc
import os
import re
import shutil
import subprocess
import sys
import threading
import unittest
import weakref

import support
from support import LIBRARY

import kiln  # noqa: E402

try:
    import torch
except ImportError:
    torch = None

FOLDER = BUNDLE = None


class OnLaunch(unittest.TestCase):
    def setUp(self):
        self.library = kiln.Library(BUNDLE)
        self.device = self.library.device("host:1")
        self.memory = self.device.memory(8, "f64")
        self.kernel = self.device.kernel("copy[T=f64]")
        self.addCleanup(self.library.close)

    def launch(self):
        self.kernel(self.memory, self.memory, 8)

    def test_a_function_is_told_of_every_launch_until_it_ends(self):
        told = []
        remove = kiln.on_launch(told.append)
        self.launch()
        prepared = self.kernel.prepare(self.memory, self.memory, 8)
        prepared()
        remove()
        self.launch()
        remove()
        self.assertEqual([launch.kernel for launch in told], ["copy[T=f64]"] * 2)
        launch = told[0]
        self.assertIsInstance(launch, kiln.Launch)
        self.assertEqual((launch.device, launch.stream, launch.status), ("host:1", 0, 0))
        self.assertEqual(launch.choice.grid, (1, 1, 1))
        self.assertIn("BLOCK=64", launch.choice.config)
        self.assertTrue(0 < launch.seconds < 60)

    @unittest.skipUnless(torch, "PyTorch is not installed")
    def test_operations_of_torch_are_told(self):
        import kiln.torch
        ops = kiln.torch.register(BUNDLE, namespace="kiln_told")
        x, y = torch.arange(100.0), torch.ones(100)
        told = []
        remove = kiln.on_launch(told.append)
        for _ in range(3):
            ops.saxpy(2, x, y, 100)
        remove()
        ops.saxpy(2, x, y, 100)
        self.assertEqual([(launch.kernel, launch.choice.grid) for launch in told], [("saxpy", (2, 1, 1))] * 3)

    def test_what_a_function_raises_is_shown_and_the_launch_is_made(self):
        shown = []
        before, sys.unraisablehook = sys.unraisablehook, lambda hook: shown.append(str(hook.exc_value))
        remove = kiln.on_launch(lambda launch: 1 // 0)
        try:
            self.launch()
        finally:
            remove()
            sys.unraisablehook = before
        self.assertEqual(shown, ["integer division or modulo by zero"] if sys.version_info < (3, 14) else ["division by zero"])
        with self.assertRaisesRegex(TypeError, "expected a function, found 5"):
            kiln.on_launch(5)

    def test_a_function_may_launch_and_may_end_itself(self):
        calls = []

        def again(launch):
            calls.append(launch.kernel)
            self.launch()
            remove()

        remove = kiln.on_launch(again)
        self.launch()
        self.launch()
        self.assertEqual(calls, ["copy[T=f64]"])

    def test_a_fifth_is_refused_and_functions_are_given_back(self):
        class Told:
            def __call__(self, launch):
                pass

        functions = [Told() for _ in range(4)]
        removes = [kiln.on_launch(function) for function in functions]
        with self.assertRaisesRegex(kiln.Error, "there are 4 hooks"):
            kiln.on_launch(Told())
        weak = weakref.ref(functions.pop())
        for remove in removes:
            remove()
        del removes, remove
        gc.collect()
        self.assertIsNone(weak())

    def test_functions_come_and_go_while_threads_launch(self):
        is_enough = threading.Event()
        told = []

        def launch_on():
            with kiln.Library(BUNDLE) as library:
                device = library.device("null")
                memory = device.memory(8, "f64")
                kernel = device.kernel("copy[T=f64]")
                while not is_enough.is_set():
                    kernel(memory, memory, 8)

        threads = [threading.Thread(target=launch_on) for _ in range(3)]
        for thread in threads:
            thread.start()
        for _ in range(50):
            remove = kiln.on_launch(told.append)
            self.launch()
            remove()
            count = len(told)
            self.assertGreaterEqual(count, 1)
            self.launch()
            self.assertEqual(len(told), count)
            told.clear()
        is_enough.set()
        for thread in threads:
            thread.join()


PROGRAM = """
import sys
sys.path.insert(0, %r)
import kiln
with kiln.Library(%r, library=%s) as library:
    device = library.device("host:1")
    memory = device.memory(8, "f64")
    device.kernel("copy[T=f64]")(memory, memory, 8)
    if "end" in sys.argv:
        kiln.on_launch(print)  # to the end of the process
print("done")
"""


class Observed(unittest.TestCase):
    def run_program(self, library=None, words=(), **environment):
        text = PROGRAM % (os.path.join(support.BUILD, "python"), BUNDLE, repr(library))
        done = subprocess.run([sys.executable, "-c", text, *words], capture_output=True, text=True, env=dict(support.plain_environment(), **environment))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout, "done\n")
        return done.stderr

    def test_the_environment_asks_for_it(self):
        for library in (None, LIBRARY):
            text = self.run_program(library, KILN_LOG="launch")
            self.assertRegex(text, r'^kiln \S+ \d+/\d+ launch device=host:1 kernel="copy\[T=f64\]" .* status=OK\n$')
        self.assertEqual(self.run_program(), "")

    def test_preloaded_it_finds_what_the_package_loads(self):
        if support.is_instrumented():
            self.skipTest("a sanitizer has to be loaded first")
        text = self.run_program(KILN_LOG="launch", LD_PRELOAD=os.path.join(support.BUILD, "lib", "libkiln-observe.so.0"))
        self.assertEqual(len(re.findall(" launch device=", text)), 1)

    def test_where_it_is_missing_a_program_is_warned_and_runs(self):
        alone = shutil.copy(LIBRARY, os.path.join(FOLDER, "libkiln.so.0"))
        text = self.run_program(alone, KILN_LOG="launch")
        self.assertRegex(text, "RuntimeWarning: launches are not observed: libkiln-observe.so.0 cannot be loaded")

    def test_a_function_that_is_there_at_the_end_is_no_harm(self):
        self.assertEqual(self.run_program(words=["end"]), "")


if __name__ == "__main__":
    sys.exit(support.main(__name__))
