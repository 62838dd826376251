# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How handles of the Python package end: cycles, the interpreter's exit, fork, multiprocessing, threads. Each program runs in an interpreter of its own, with freed
memory overwritten (MALLOC_PERTURB_), and under the address sanitizer where the build has it."""
import gc
import multiprocessing
import os
import pickle
import subprocess
import sys
import threading
import unittest

import support
from support import LIBRARY

import kiln  # noqa: E402

START = """
import gc, os, sys, threading
sys.path[:0] = [%r, %r]
sys.dont_write_bytecode = True
import kiln
class Box: pass
def open_all(name="host:3"):
    library = kiln.Library(sys.argv[1], library=sys.argv[2])
    device = library.device(name)
    return library, device, device.kernel("gridless")
def run(device, kernel, count=40):
    memory = device.memory(count, "i32")
    kernel(memory, grid=count)
    data = bytes(memory)
    assert [int.from_bytes(data[4 * i:4 * i + 4], "little") for i in range(count)] == list(range(10, 10 + count)), "wrong numbers"
    return memory
"""


def run_program(text, environment={}, expected=0):
    """Runs a program after START; its output where its exit code is not the expected one."""
    program = START % (os.path.join(support.BUILD, "python"), support.ROOT) + text
    for perturb in ("165", "0"):
        done = subprocess.run([sys.executable, "-X", "faulthandler", "-c", program, BUNDLE, LIBRARY], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              env=dict(os.environ, MALLOC_PERTURB_=perturb, PYTHONMALLOC=support.ALLOCATOR, **environment), timeout=300)
        if done.returncode != expected or (expected == 0 and b"Exception ignored" in done.stdout):
            raise AssertionError("exit %d\n%s\n%s" % (done.returncode, text, done.stdout.decode(errors="replace")))


# What a program keeps in one cycle, by all orders in which it may have been made.
CYCLES = {
    "library and device": "library.device_of_mine = device",
    "device and kernel": "device.kernels = [kernel]; library.all = device",
    "memory and device": "memory = run(device, kernel); device.memories = [memory]; library.them = device",
    "memory, stream, kernel, all": "box = Box(); box.all = [run(device, kernel), device.stream(), kernel, library, device]; library.box = device.box = kernel.box = box",
    "two devices of one library": "other = library.device('null'); library.other, other.first, device.other = device, device, other; memory = device.copy(bytearray_of(64))",
    "a callback": "logged = kiln.Library(sys.argv[1], library=sys.argv[2], log=lambda *_: box_of(device)); device.logged = logged; library.d = logged.e = device",
    "bytes": "data = open(sys.argv[1], 'rb').read(); library = kiln.Library(data, library=sys.argv[2]); device = library.device('host:2'); kernel = device.kernel('gridless');"
             " run(device, kernel); library.d = device; device.k = kernel",
}
HELPERS = """
def box_of(x): return x
def bytearray_of(n):
    import ctypes
    class Array:
        def __init__(self):
            self.kept = ctypes.create_string_buffer(n)
            self.__array_interface__ = {"shape": (n,), "typestr": "|i1", "data": (ctypes.addressof(self.kept), False), "strides": None, "version": 3}
    return Array()
"""


class Ends(unittest.TestCase):
    def test_cycles_are_collected_in_any_order(self):
        for name, cycle in CYCLES.items():
            for names in ("library, device, kernel", "kernel, device, library"):
                with self.subTest(name):
                    run_program(HELPERS + "for _ in range(30):\n    library, device, kernel = open_all()\n    run(device, kernel)\n    %s\n    %s = None, None, None\n"
                                "    memory = box = other = logged = None\n    gc.collect()\n" % (cycle, names))

    def test_cycles_at_exit(self):
        for name, cycle in CYCLES.items():
            for collects in ("", "gc.disable()\n"):
                with self.subTest(name):
                    run_program(HELPERS + collects + "library, device, kernel = open_all()\nrun(device, kernel)\n%s\nsys.modules['kept'] = library\n" % cycle)

    def test_everything_global_at_exit(self):
        for order in ("library, device, kernel", "kernel, device, library", "device, library, kernel"):
            run_program("library, device, kernel = open_all()\nmemory, stream = run(device, kernel), device.stream()\nz, y, x = %s\na = stream, memory\n" % order)

    def test_use_after_the_collector_is_no_crash(self):
        run_program("""
class Late:
    def __del__(self):
        try:
            self.kernel(self.memory, grid=4)
            self.memory.fill(1)
        except (ValueError, kiln.Error):
            pass
for _ in range(30):
    late = Late()
    library, device, late.kernel = open_all()
    late.memory = run(device, late.kernel)
    library.late, device.library_too, late.device = late, library, device
    del library, device, late
    gc.collect()
""")

    def test_memory_of_collected_devices_is_freed(self):
        run_program("""
def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
library, device, kernel = open_all()
before = resident()
for _ in range(40):
    device = library.device("host:2")
    memory = device.memory(1 << 24)
    memory.fill(1)
    device.memory_of_mine = memory
    device.again = device
    del device, memory
    gc.collect()
assert resident() - before < %d << 20, (resident() - before) >> 20
""" % (400 if support.is_instrumented() else 48))  # a sanitizer keeps 256

    def test_what_is_closed_while_it_is_used_ends_afterwards(self):
        run_program("""
import time
class Closing:
    # Closes all when the arguments are taken, and from other threads while kernels run.
    def __init__(self, what, memory):
        self.what, self.memory = what, memory
    @property
    def __array_interface__(self):
        self.what.close()
        return {"shape": (4,), "typestr": "<i4", "data": (4096, False), "strides": None, "version": 3}
for i in range(20):
    library, device, kernel = open_all()
    memory = run(device, kernel)
    try:
        kernel(Closing((library, device, memory)[i % 3], memory), grid=0)
        assert i % 3 == 2
    except ValueError as refused:
        assert "closed" in str(refused) and i % 3 != 2, refused
for i in range(30):
    library, device, kernel = open_all("host:2")
    memory = device.memory(200000, "i32")
    started, results = threading.Event(), []
    def work():
        started.set()
        try:
            for _ in range(50):
                kernel(memory, grid=200000)
        except ValueError as refused:
            results.append(str(refused))
    threads = [threading.Thread(target=work) for _ in range(3)]
    for t in threads: t.start()
    started.wait()
    time.sleep(0.001 * (i % 5))
    (library, device, memory)[i % 3].close()
    for t in threads: t.join()
    assert all("closed" in text for text in results), results
""")

    def test_prepared_launches_in_cycles(self):
        run_program("""
for _ in range(50):
    library, device, kernel = open_all("host:2")
    memory = device.memory(40, "i32")
    prepared = kernel.prepare(memory, grid=40)
    memory.of = device.of = kernel.of = prepared
    prepared()
    del library, device, kernel, memory, prepared
    gc.collect()
library, device, kernel = open_all("host:2")
memory = device.memory(40, "i32")
kernel.prepared, kernel.gridded = kernel.prepare(memory, grid=40), kernel[40]
del library, device, kernel, memory
""")

    def test_subinterpreters_are_refused(self):
        run_program("""
try:
    import _xxsubinterpreters as interpreters
except ImportError:
    sys.exit()
number = interpreters.create()
path = sys.path
refused = ''
try:
    result = interpreters.run_string(number, "import sys; sys.path[:] = %r; import kiln" % (path,))
except Exception as failure:
    refused = str(failure)
assert "main interpreter" in refused or "subinterpreters" in refused, refused
interpreters.destroy(number)
run(*open_all()[1:])
""")

    def test_many_launches_do_not_grow(self):
        # What is freed stays resident until the sanitizer's quarantine is full.
        quarantine = {"ASAN_OPTIONS": os.environ["ASAN_OPTIONS"] + ":quarantine_size_mb=1"} if "ASAN_OPTIONS" in os.environ else {}
        run_program("""
library, device, kernel = open_all()
import array
memory, data = device.memory(4, "i32"), array.array("i", [0] * 4)
prepared, gridded = kernel.prepare(data, grid=0), kernel[0]
def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
def rounds(n):
    for i in range(n):
        kernel(memory, grid=0)
        gridded(data)
        prepared()
        kernel(y=4096, grid=(0, 1), stream=None)
        try:
            kernel([], grid=0)
        except TypeError:
            pass
rounds(2000)
before = resident()
rounds(int(os.environ.get("KILN_TEST_FULL") and 2000000 or 20000))
assert resident() - before < 2 << 20, resident() - before
""", quarantine)

    def test_threads_that_open_and_close(self):
        run_program("""
failures = []
shared = open_all()
def work():
    try:
        for _ in range(25):
            library, device, kernel = open_all("host:2")
            run(device, kernel)
            run(shared[1], shared[2])
            library.device_of_mine = device
            del library, device, kernel
    except BaseException as failure:
        failures.append(failure)
threads = [threading.Thread(target=work) for _ in range(8)]
for t in threads: t.start()
for t in threads: t.join()
assert not failures, failures
""")

    def test_kernels_are_pickled_by_bundle_and_name(self):
        folder = os.getcwd()
        os.chdir(os.path.dirname(BUNDLE))
        try:
            library = kiln.Library(os.path.basename(BUNDLE), library=LIBRARY)
        finally:
            os.chdir(folder)
        device = library.device("host:2")
        kernel = device.kernel("gridless")
        text = pickle.dumps((kernel, device, library))
        self.assertLess(len(text), 1000)  # nothing of the bundle's bytes
        for again in (pickle.loads(text), pickle.loads(text)):
            self.assertIs(again[0].device, again[1])
            self.assertIs(again[1].library, again[2])
            self.assertEqual((again[0].name, again[1].name, again[2].kernels), ("gridless", "host:2", library.kernels))
            self.assertEqual(launch(again[0], again[1], 3), launch(kernel, device, 3))
        kept = pickle.loads(text)
        self.assertIs(pickle.loads(pickle.dumps(kernel)).device, kept[1])  # opened once
        with open(BUNDLE, "rb") as file:
            of_bytes = kiln.Library(file.read(), library=LIBRARY)
            self.assertEqual(pickle.loads(pickle.dumps(of_bytes)).kernels, library.kernels)
            file.seek(0)
            self.assertRaisesRegex(TypeError, "an open file belongs to its process", pickle.dumps, kiln.Library(file, library=LIBRARY))
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            self.assertEqual(pool.apply(launch_alone, (kernel, 3)), launch(kernel, device, 3))

    def test_what_lives_on_a_device_is_not_pickled(self):
        device = kiln.Library(BUNDLE, library=LIBRARY).device("host")
        kernel = device.kernel("gridless")
        for handle in (device.memory(4), device.stream(), kernel.prepare(device.memory(4, "i32"), grid=4)):
            self.assertRaisesRegex(TypeError, "belongs to its process", pickle.dumps, handle)


def launch_alone(kernel, count):
    return launch(kernel, kernel.device, count)


def launch(kernel, device, count):
    memory = device.memory(count, "i32")
    kernel(memory, grid=count)
    return bytes(memory)[4 * count - 4]


SHARED = None


def in_child(count):
    library, device, kernel = SHARED
    return launch(kernel, device, count)


def in_spawned(bundle, library, count):
    with kiln.Library(bundle, library=library) as opened:
        device = opened.device("host:2")
        return launch(device.kernel("gridless"), device, count)


@unittest.skipIf(support.is_instrumented(), "no fork of threads under the address sanitizer: its lock may stay held in the child")
class Forks(unittest.TestCase):
    def setUp(self):
        global SHARED
        library = kiln.Library(BUNDLE, library=LIBRARY)
        device = library.device("host:3")
        SHARED = library, device, device.kernel("gridless")
        launch(SHARED[2], device, 50)

    def tearDown(self):
        global SHARED
        SHARED[0].close()
        SHARED = None

    def test_a_child_that_ends_the_interpreter(self):
        for close in ("", "device.close()\n", "library.close()\n", "library.d = device\ndel library, device, kernel\ngc.collect()\n"):
            run_program("library, device, kernel = open_all()\nrun(device, kernel)\npid = os.fork()\nif not pid:\n    import signal\n    signal.alarm(60)\nrun(device, kernel)\n"
                        + close + "if pid:\n    assert os.waitpid(pid, 0)[1] == 0\n")

    def test_a_pool_by_fork(self):
        with multiprocessing.get_context("fork").Pool(2) as pool:
            self.assertEqual(pool.map_async(in_child, range(1, 40)).get(120), [10 + n - 1 for n in range(1, 40)])
        self.assertEqual(in_child(7), 16)

    def test_a_pool_by_spawn(self):
        with multiprocessing.get_context("spawn").Pool(2) as pool:
            found = pool.starmap_async(in_spawned, [(BUNDLE, LIBRARY, n) for n in range(1, 9)]).get(240)
        self.assertEqual(found, [10 + n - 1 for n in range(1, 9)])

    def test_forks_while_threads_launch(self):
        library, device, kernel = SHARED
        stop, failures = threading.Event(), []

        def work():
            while not stop.is_set():
                if launch(kernel, device, 60) != 69:
                    failures.append("wrong")

        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        try:
            for _ in range(20):
                child = multiprocessing.get_context("fork").Process(target=self.child)
                child.start()
                child.join(60)
                self.assertEqual(child.exitcode, 0)
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        self.assertEqual(failures, [])

    @staticmethod
    def child():
        library, device, kernel = SHARED
        if launch(kernel, device, 60) != 69:
            sys.exit(3)
        library.close()
        del library, device, kernel
        gc.collect()


if __name__ == "__main__":
    sys.exit(support.main(__name__))
