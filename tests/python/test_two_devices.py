# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The Python package with two devices in one process: through libkiln and a driver that is not there (tests/emulation/two_devices.c), which judges what is current
at each call and whose memory a launch gets. KILN_TEST_SEED draws another order."""
import array
import ctypes
import os
import random
import re
import subprocess
import sys
import threading
import unittest

import support
from other_arrays import Words
from support import LIBRARY, ROOT, tool

import kiln  # noqa: E402
from kiln import _core, _torch_library  # noqa: E402
from kiln._operations import Interface  # noqa: E402

DEVICES, N = 2, 16
SOURCE = """kiln 1

kernel add_one(x: in *f32, y: out *f32, n: i32) @grid(1) @config(warps = 1)
{
  let i = iota(32)
  store(y + i, load(x + i, i < n) + 1.0, i < n)
}
"""
SONAMES = {"cuda": "libcuda.so.1", "hip": "libamdhip64.so"}


class Driver:
    """The stand-in; loaded before libkiln looks for the driver's name."""

    def __init__(self, kind):
        path = os.path.join(FOLDER, SONAMES[kind])
        if not os.path.exists(path):
            subprocess.run(["gcc", "-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", *(["-DHIP"] if kind == "hip" else []),
                            os.path.join(ROOT, "tests", "emulation", "two_devices.c"), "-Wl,-soname," + SONAMES[kind], "-lpthread", "-o", path],
                           check=True, env=support.plain_environment())
        self.library = ctypes.CDLL(path)
        self.set, self.current = self.library.devices_set, self.library.devices_current

    def faults(self):
        text = ctypes.c_char_p()
        return self.library.devices_faults(ctypes.byref(text)), text.value.decode()


class Stream:
    """One as PyTorch has it: a handle, and nothing of its device."""

    def __init__(self, handle):
        self.cuda_stream = handle


class Both(unittest.TestCase):
    """One library, both devices of a kind, and one operation at a time on either."""
    KINDS = {"cuda": "sm_80", "hip": "gfx942"}

    @classmethod
    def setUpClass(cls):
        cls.drivers = {kind: Driver(kind) for kind in cls.KINDS}
        path, cls.bundle = os.path.join(FOLDER, "two.kiln"), os.path.join(FOLDER, "two.kbundle")
        with open(path, "w") as file:
            file.write(SOURCE)
        tool("build", path, *[word for target in (*cls.KINDS.values(), "sm_90a") for word in ("-t", target)], "-t", "host", "--no-cache", "-q", "-o", cls.bundle)

    def open(self, kind):
        library = kiln.Library(self.bundle, library=LIBRARY)
        self.addCleanup(library.close)
        devices = [library.device("%s:%d" % (kind, i)) for i in range(DEVICES)]
        for one in devices:
            one.add_one = one.kernel("add_one")
        return devices

    def refused(self, error, text, function, *arguments, **named):
        with self.assertRaises(error) as caught:
            function(*arguments, **named)
        if not re.search(text, str(caught.exception)):
            raise AssertionError("%s: %s" % (text, caught.exception))

    def draw(self, kind, seed, count, failures):
        """Operations in one thread, whatever it has current, each right or refused with both names; what is current stays."""
        driver, devices, random_ = self.drivers[kind], self.devices[kind], random.Random(seed)
        memory = [[one.memory(N, "f32") for _ in range(3)] for one in devices]
        shadow = [[[0.0] * N for _ in range(3)] for _ in devices]
        streams = [[one.stream(), one.stream()] for one in devices]
        prepared = [None, None]
        for at, one in enumerate(memory):
            for place in one:
                place.fill(0)

        def check(at, place):
            if list(memoryview(bytes(memory[at][place])).cast("f")) != shadow[at][place]:
                raise AssertionError("device %d, memory %d: %s, expected %s" % (at, place, bytes(memory[at][place]), shadow[at][place]))

        def launch(at):
            """Each argument of either device, the stream of either in each form: right where all are of the kernel's, else refused."""
            x, y = random_.randrange(3), random_.randrange(3)
            of_x, of_y, of_stream = (at if random_.random() < 0.7 else 1 - at for _ in range(3))
            stream = streams[of_stream][random_.randrange(2)]
            form = random_.choice([lambda: None, lambda: stream, lambda: stream.handle, lambda: Stream(stream.handle)])
            given = form()
            a, b = memory[of_x][x], memory[of_y][y]
            if kind == "cuda" and random_.random() < 0.3:  # an array that does not say whose it is
                a = Words("__cuda_array_interface__", typestr="<f4", shape=(N,), data=(a.address, False))
            names = {"here": "%s:%d" % (kind, at), "there": "%s:%d" % (kind, 1 - at)}
            kernel, n = devices[at].add_one, random_.randrange(1, N + 1)
            if given is stream and of_stream != at:
                self.refused(TypeError, "argument 'stream': expected a stream of %(here)s, found one of %(there)s" % names, kernel, a, b, n, stream=given)
            elif of_x != at or of_y != at:
                name = "x" if of_x != at else "y"
                self.refused(TypeError, "add_one: argument '" + name + r"' \(\*f32\): expected memory of %(here)s, found memory of (gpu|%(there)s)" % names,
                             kernel, a, b, n, stream=given)
            elif given is not None and of_stream != at:
                self.refused(kiln.Error, "expected a stream of %(here)s, found one of %(there)s" % names, kernel, a, b, n, stream=given)
            else:
                kernel(a, b, n, stream=given)
                shadow[at][y][:n] = [value + 1 for value in shadow[at][x][:n]]
                check(at, y)

        def prepare(at):
            """The same of a prepared launch: what is set is refused alone, and it goes on with what it had."""
            other = 1 - at
            prepared[at] = prepared[at] or devices[at].add_one.prepare(memory[at][0], memory[at][1], N)
            self.refused(TypeError, "argument 'x'.*expected memory of %s:%d, found memory of %s:%d" % (kind, at, kind, other), prepared[at].set, "x", memory[other][0])
            self.refused(TypeError, "argument 'stream': expected a stream of %s:%d, found one of %s:%d" % (kind, at, kind, other), prepared[at], stream=streams[other][0])
            self.refused(kiln.Error, "expected a stream of %s:%d, found one of %s:%d" % (kind, at, kind, other), prepared[at], stream=streams[other][0].handle)
            prepared[at].set("y", memory[at][2])
            prepared[at](stream=random_.choice([None, streams[at][0], streams[at][1].handle]))
            shadow[at][2] = [value + 1 for value in shadow[at][0]]
            check(at, 2)

        def copy(at):
            place = random_.randrange(3)
            values = [float(random_.randrange(1000)) for _ in range(N)]
            there = array.array("f", values)
            stream = random_.choice([None, streams[at][0]])
            self.refused(TypeError, "argument 'stream': expected a stream of %s:%d" % (kind, at), memory[at][place].copy_in, there, stream=streams[1 - at][0])
            if kind == "hip":
                stream = None  # the stand-in has no copies by HIP's streams
            memory[at][place].copy_in(there, stream=stream)
            shadow[at][place] = values
            check(at, place)

        def sync(at):
            self.refused(TypeError, "argument 'stream': expected a stream of %s:%d" % (kind, at), devices[at].sync, streams[1 - at][0])
            devices[at].sync(random_.choice([None, streams[at][0], streams[at][1].handle]))

        def make(at):
            place = random_.randrange(3)
            memory[at][place].close()
            memory[at][place] = devices[at].memory(N, "f32")
            memory[at][place].fill(0)
            shadow[at][place] = [0.0] * N
            if prepared[at]:
                prepared[at] = None
            with devices[at].stream() as stream:
                devices[at].add_one(memory[at][place], memory[at][place], 0, stream=stream)

        try:
            for i in range(count):
                driver.set(random_.choice([-1, 0, 1, 2] if kind == "cuda" else [0, 1]))
                before = driver.current()
                random_.choice([launch, launch, launch, prepare, copy, sync, make])(random_.randrange(DEVICES))
                if driver.current() != before:
                    raise AssertionError("operation %d: context %d was current, now %d" % (i, before, driver.current()))
            for at in range(DEVICES):
                for place in range(3):
                    check(at, place)
        except BaseException as error:
            failures.append("seed %d: %r" % (seed, error))

    def run_drawn(self, kind):
        seed, failures = int(os.environ.get("KILN_TEST_SEED", "20261126")), []
        self.devices = {kind: self.open(kind)}
        print("%s: seed %d" % (kind, seed))
        threads = [threading.Thread(target=self.draw, args=(kind, seed + i, 1000, failures)) for i in range(2)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
        self.assertEqual(failures, [])
        self.assertEqual(self.drivers[kind].faults(), (0, ""))

    def test_drawn_on_cuda(self):
        self.run_drawn("cuda")

    def test_drawn_on_hip(self):
        self.run_drawn("hip")

    def test_streams_that_say_their_device(self):
        """The default stream has no handle to tell it by: those of PyTorch and CuPy have their device's number."""
        for kind in self.KINDS:
            devices = self.open(kind)
            for at, device in enumerate(devices):
                memory = device.memory(N, "f32")
                prepared = device.add_one.prepare(memory, memory, 0)
                for handle, number in (("cuda_stream", "device_index"), ("ptr", "device_id")):
                    for its in (at, 1 - at, -1, None):
                        stream = type("Stream", (), {handle: 0, **({} if its is None else {number: its})})()
                        for call in (lambda: device.add_one(memory, memory, 0, stream=stream), lambda: prepared(stream=stream), lambda: device.sync(stream)):
                            if its == 1 - at:
                                self.refused(TypeError, "argument 'stream': expected a stream of %s:%d, found one of %s:%d" % (kind, at, kind, its), call)
                            else:
                                call()

    def test_of_two_libraries(self):
        """Two libraries see one device: memory and streams of either are the other's as well."""
        first, second = self.open("cuda"), self.open("cuda")
        memory = first[1].memory(N, "f32")
        memory.fill(0)
        with first[1].stream() as stream:
            second[1].add_one(memory, memory, N, stream=stream)
        self.assertEqual(bytes(memory), array.array("f", [1.0] * N).tobytes())
        self.refused(TypeError, "expected memory of cuda:0, found memory of cuda:1", second[0].add_one, memory, memory, N)

    def test_of_different_kinds(self):
        """Every pair of devices: memory and streams of one at a kernel of the other."""
        library = kiln.Library(self.bundle, library=LIBRARY)
        self.addCleanup(library.close)
        names = ["host", "host:3", "cuda:0", "cuda:1", "hip:0", "hip:1", "null", "null:sm_80", "null:sm_90a", "null:1:sm_80", "null:gfx942", "null:2"]
        devices = [library.device(name) for name in names]
        for there in devices:
            memory, stream = there.memory(N, "f32"), there.stream()
            memory.fill(0)
            for here in devices:
                kernel = here.kernel("add_one")
                is_same = there is here or {there.name, here.name} == {"host", "host:3"}
                if is_same or here.name.startswith("null") and not there.name.startswith("null"):
                    kernel(memory, memory, 0)
                else:
                    self.refused(TypeError, "argument 'x' .*expected memory of %s, found memory of %s$" % (here.name, there.name), kernel, memory, memory, 0)
                if is_same:
                    kernel(memory, memory, 0, stream=stream)
                else:
                    self.refused(TypeError, "'stream': expected a stream of %s, found one of %s$" % (here.name, there.name), kernel, 0, 0, 0, stream=stream)
        for kind in self.KINDS:
            self.assertEqual(self.drivers[kind].faults(), (0, ""))

    def test_a_library_of_operations(self):
        """What kiln.torch.library writes, with a stand-in for PyTorch's interface: each argument on each device."""
        library = kiln.Library(self.bundle, library=LIBRARY)
        self.addCleanup(library.close)
        interface = Interface(library.device("null").kernel("add_one"))
        text = _torch_library.source({"add_one": interface}, {"add_one": ("(Tensor x, Tensor(a!) y, int n, *, int[]? grid=None) -> ()", ["add_one"])}, "app",
                                     self.bundle, "cuda")
        source, path = os.path.join(FOLDER, "operations.c"), os.path.join(FOLDER, "operations.so")
        with open(source, "w") as file:
            file.write(text)
        subprocess.run(["gcc", "-shared", "-fPIC", "-std=gnu11", "-O1", source, os.path.join(ROOT, "tests", "python", "stable_interface.c"), LIBRARY,
                        "-Wl,-rpath," + os.path.dirname(LIBRARY), "-o", path], check=True, env=support.plain_environment())
        operations = ctypes.CDLL(path)
        operations.stable_call.restype = ctypes.c_char_p

        class Tensor(ctypes.Structure):
            _fields_ = [("data", ctypes.c_void_p), ("size", ctypes.c_int64), ("stride", ctypes.c_int64), ("dtype", ctypes.c_int32), ("type", ctypes.c_int32),
                        ("index", ctypes.c_int32)]

        devices = {"cpu": (0, -1), "cuda:0": (1, 0), "cuda:1": (1, 1)}
        memory = {name: library.device(name.replace("cpu", "host")).memory(N, "f32") for name in devices}
        driver = self.drivers["cuda"]
        for current in (-1, 0, 1, 2):
            for of_x in devices:
                for of_y in devices:
                    x, y = (Tensor(memory[name].address, N, 1, 6, *devices[name]) for name in (of_x, of_y))
                    memory[of_x].fill(0)
                    memory[of_y].fill(0)
                    driver.set(current)
                    before = driver.current()
                    stack = (ctypes.c_uint64 * 4)(ctypes.addressof(x), ctypes.addressof(y), N, 0)
                    found = operations.stable_call(stack, ctypes.c_uint64(4)).decode()
                    self.assertEqual(driver.current(), before)
                    if of_x == of_y:
                        self.assertEqual((found, bytes(memory[of_y])), ("", array.array("f", [1.0] * N).tobytes()))
                    else:
                        self.assertEqual(found, "add_one: argument 'y' (*f32): expected a tensor of %s, found one of %s" % (of_x, of_y))
                        self.assertEqual(bytes(memory[of_y]), bytes(4 * N))
        far = Tensor(memory["cuda:0"].address, N, 1, 6, 1, 64)
        stack = (ctypes.c_uint64 * 4)(ctypes.addressof(far), ctypes.addressof(far), N, 0)
        self.assertEqual(operations.stable_call(stack, ctypes.c_uint64(4)).decode(), "add_one: a tensor of cuda:64; at most 64 devices are opened")
        self.assertEqual(driver.faults(), (0, ""))

    def test_the_program_for_two_gpus(self):
        """tests/kernels/two_devices.py, which is carried to a machine with two GPUs, here on the stand-in."""
        folder = os.path.join(ROOT, "tests", "kernels")
        bundle = os.path.join(FOLDER, "carried.kbundle")
        tool("build", os.path.join(folder, "two_devices.kiln"), "-t", "sm_80", "--no-cache", "-q", "-o", bundle)
        done = subprocess.run([sys.executable, os.path.join(folder, "two_devices.py"), os.path.join(support.BUILD, "python"), bundle, "7", "400"],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=dict(os.environ, LD_LIBRARY_PATH=FOLDER), timeout=300)
        text = done.stdout.decode()
        self.assertEqual(done.returncode, 0, text)
        self.assertRegex(text.splitlines()[-1], "^10 passed, 0 failed, 8 skipped$", text)

    def test_programs_of_xla(self):
        """What XLA calls, on a device by its number and on the stream that XLA has there; one without code is refused by name."""
        path = os.path.join(FOLDER, "xla_frame.so")
        subprocess.run(["gcc", "-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", "-I", ROOT, os.path.join(ROOT, "tests", "python", "xla_frame.c"), "-o", path],
                       check=True, env=support.plain_environment())
        frame, driver = ctypes.CDLL(path), self.drivers["cuda"]
        frame.frame_launch.restype = ctypes.c_char_p
        pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
        pointer_of.restype, pointer_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
        on_gpu = pointer_of(_core._xla_targets()[1], None)
        devices = self.open("cuda")
        memory, streams = [one.memory(N, "f32") for one in devices], [one.stream() for one in devices]
        kernels = tuple(one.add_one for one in devices)

        def launch(call, at, stream):
            return frame.frame_launch(ctypes.c_void_p(on_gpu), ctypes.c_int64(call), ctypes.c_int32(at), ctypes.c_void_p(stream),
                                      ctypes.c_void_p(memory[at % 2].address), ctypes.c_void_p(memory[at % 2].address), ctypes.c_int64(N)).decode()

        calls = {(): kernels, (1,): (kernels[0], "no code for cuda:1"), (0,): ("no code for cuda:0", kernels[1])}
        for missing, given in calls.items():
            call = _core._xla_call(given, (0, 1, N), None)
            for current in (-1, 0, 1, 2):
                for at in range(DEVICES):
                    for stream in (None, streams[at].handle):
                        memory[at].fill(0)
                        driver.set(current)
                        before = driver.current()
                        self.assertEqual(launch(call, at, stream), "no code for cuda:%d" % at if at in missing else "")
                        self.assertEqual(driver.current(), before)
                        self.assertEqual(bytes(memory[at]), array.array("f", [float(at not in missing)] * N).tobytes())
            self.assertIn("a device that was not there before", launch(call, 2, None))
        self.assertIn("expected a stream of cuda:0, found one of cuda:1", launch(_core._xla_call(kernels, (0, 1, N), None), 0, streams[1].handle))
        for wrong in ((), ("none",), (kernels[0], None), (3, kernels[0])):
            self.assertRaises((TypeError, ValueError), _core._xla_call, wrong, (0, 1, N), None)
        self.assertEqual(driver.faults(), (0, ""))


if __name__ == "__main__":
    sys.exit(support.main(__name__))
