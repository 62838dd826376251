# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The Python package on devices: streams, copies, what libkiln is asked for, and GPUs where there are some."""
import array
import ctypes
import os
import subprocess
import sys
import unittest

import support
from other_arrays import Elsewhere, Words
from support import LIBRARY, ROOT, run_gridless, tool

import kiln  # noqa: E402

try:
    import numpy as np
except ImportError:
    np = None


class Recorded(unittest.TestCase):
    """What libkiln is asked for, by a library that stands before it (recorder.c); there the null device stands for GPUs."""

    @classmethod
    def setUpClass(cls):
        cls.path = os.path.join(FOLDER, "recorder.so")
        if not os.path.exists(cls.path):
            subprocess.run(["gcc", "-shared", "-fPIC", "-D_GNU_SOURCE", "-O1", "-Wall", "-Werror", "-I", ROOT, os.path.join(ROOT, "tests", "python", "recorder.c"),
                            "-Wl,--no-as-needed", LIBRARY, "-Wl,-rpath," + os.path.dirname(LIBRARY), "-o", cls.path], check=True, env=support.plain_environment())
        cls.seen = Seen.in_dll(ctypes.CDLL(cls.path), "recorded")
        cls.library = kiln.Library(BUNDLE, library=cls.path)
        cls.device = cls.library.device("cuda:1")

    @classmethod
    def tearDownClass(cls):
        cls.library.close()

    def setUp(self):
        ctypes.memset(ctypes.byref(self.seen), 0, ctypes.sizeof(Seen))


class Seen(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in ("launches", "syncs", "frees", "stream", "synced", "block_size", "is_prepared")] + [
        ("grid", ctypes.c_uint32 * 4), ("block", ctypes.c_uint8 * 4096)]


class Streams(Recorded):
    def launch(self, x, **named):
        self.device.kernel("saxpy")(1, x, 0, 4, **named)
        self.assertEqual(self.seen.launches, 1)
        return self.seen.stream

    def test_the_stream_of_a_gpu_array_is_waited_for(self):
        self.assertEqual(self.launch(Words("__cuda_array_interface__", typestr="<f4", stream=7)), 0)
        self.assertEqual((self.seen.syncs, self.seen.synced), (1, 7))
        self.setUp()
        self.assertEqual(self.launch(Words("__cuda_array_interface__", typestr="<f4", stream=7), stream=7), 7)
        self.assertEqual(self.seen.syncs, 0)
        self.assertEqual(int.from_bytes(bytes(self.seen.block)[8:16], "little"), 4096)

    def test_streams_of_frameworks(self):
        class Torch:
            cuda_stream = 5

        class Protocol:
            def __cuda_stream__(self):
                return (0, 6)

        for stream, handle in ((None, 0), (4, 4), (Torch(), 5), (Protocol(), 6)):
            self.setUp()
            self.assertEqual(self.launch(0, stream=stream), handle)

    @unittest.skipIf(np is None, "numpy is not installed")
    def test_a_gpu_tensor_is_asked_with_the_stream_of_the_launch(self):
        x = Elsewhere(np.zeros(4, np.float32))
        self.launch(x, stream=9)
        self.assertEqual(x.stream, 9)
        self.setUp()
        self.launch(x)
        self.assertEqual(x.stream, 1)

    @unittest.skipIf(np is None, "numpy is not installed")
    def test_another_gpu_is_refused(self):
        with self.library.device("cuda:0") as other:
            self.assertRaisesRegex(TypeError, "expected memory of cuda:0, found memory of cuda:1", other.kernel("saxpy"), 1, Elsewhere(np.zeros(4, np.float32)), 0, 4)
            self.assertRaisesRegex(TypeError, "expected memory of cuda:0, found memory of cuda:1", other.kernel("saxpy"), 1, self.device.memory(4, "f32"), 0, 4)
        with self.library.device("hip:1") as other:
            self.assertRaisesRegex(TypeError, "expected memory of hip:1, found memory of cuda", other.kernel("saxpy"), 1, Elsewhere(np.zeros(4, np.float32)), 0, 4)
        self.assertRaisesRegex(TypeError, "expected memory of cuda:1, found memory of host", self.device.kernel("saxpy"), 1, array.array("f", [0]), 0, 4)


COPIES = """
import ctypes, sys
sys.path.insert(0, sys.argv[1])
driver = ctypes.CDLL(sys.argv[2])
driver.drivers_run.restype = ctypes.c_void_p
import kiln
library = kiln.Library(sys.argv[3], library=sys.argv[4])
device = library.device(sys.argv[5] + ":1")
memory, there, back = device.memory(64, "i8"), bytearray(range(64)), bytearray(64)
memory.fill(7)
memory.copy_in(there, stream=5)
assert bytes(memory) == bytes([7] * 64)      # nothing has run
assert driver.drivers_run() == 5
assert bytes(memory) == there
memory.copy_out(back, stream=0)
assert back == bytes(64)
assert driver.drivers_run() is None          # the default stream
assert back == there
memory.copy_in(bytes(64))                    # without a stream, at once
memory.copy_out(back, stream=None)
assert back == bytes(64)
driver.drivers_refuse(719)
for call in (memory.copy_in, memory.copy_out):
    try:
        call(back, stream=5)
    except kiln.Error as error:
        assert str(error) == "a copy by a stream failed: error 719 of the driver", error
    else:
        raise AssertionError
for wrong in (lambda: memory.copy_in(back, strean=5), lambda: memory.copy_in(back, 5), lambda: memory.copy_in(), lambda: memory.copy_in(bytes(3), stream=5)):
    try:
        wrong()
    except (TypeError, ValueError):
        pass
    else:
        raise AssertionError
assert driver.drivers_left() == 0 and driver.drivers_device() == int(sys.argv[6])
print("agreed")
"""


class Copies(unittest.TestCase):
    def test_a_stream_copies(self):
        recorder = os.path.join(FOLDER, "copies_recorder.so")
        compile_c = ["gcc", "-shared", "-fPIC", "-D_GNU_SOURCE", "-O1", "-Wall", "-Werror", "-I", ROOT]
        subprocess.run([*compile_c, os.path.join(ROOT, "tests", "python", "recorder.c"), "-Wl,--no-as-needed", LIBRARY, "-Wl,-rpath," + os.path.dirname(LIBRARY),
                        "-o", recorder], check=True, env=support.plain_environment())
        for name, soname, device in (("cuda", "libcuda.so.1", "1"), ("hip", "libamdhip64.so", "0")):
            driver = os.path.join(FOLDER, name + "_driver.so")
            subprocess.run([*compile_c, *(["-DCUDA"] if name == "cuda" else []), os.path.join(ROOT, "tests", "python", "drivers.c"), "-Wl,-soname," + soname, "-o", driver],
                           check=True, env=support.plain_environment())
            done = subprocess.run([sys.executable, "-c", COPIES, os.path.join(support.BUILD, "python"), driver, BUNDLE, recorder, name, device],
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60)
            self.assertEqual((done.returncode, done.stdout.decode()), (0, "agreed\n"))

    def test_without_the_driver_and_on_the_host(self):
        with kiln.Library(BUNDLE, library=LIBRARY) as library:
            memory = library.device("host").memory(4, "i8")
            memory.copy_in(b"abcd", stream=3)  # the host has no streams: at once
            self.assertEqual(bytes(memory), b"abcd")


class Gpus(unittest.TestCase):
    """What needs a GPU: skipped, and counted, where there is none. Every other argument test runs on the host."""

    def device_of(self, name):
        with kiln.Library(library=LIBRARY) as none:
            try:
                target = none.device(name).target
            except kiln.NoDevice as absent:
                self.skipTest(str(absent))
        bundle = os.path.join(FOLDER, name.replace(":", "") + ".kbundle")
        tool("build", os.path.join(FOLDER, "test.kiln"), "-t", target, "--no-cache", "-q", "-o", bundle)
        return kiln.Library(bundle, library=LIBRARY).device(name)

    def run_all(self, name):
        device = self.device_of(name)
        self.assertEqual(run_gridless(device, 5), [10, 11, 12, 13, 14])
        if np is None:
            return
        x, y = np.arange(1000, dtype=np.float32), np.full(1000, 0.5, np.float32)
        saxpy = device.kernel("saxpy")
        self.assertRaisesRegex(TypeError, "expected memory of %s, found memory of host" % name, saxpy, 2, x, y, 1000)
        dx, dy = device.copy(x), device.copy(y)
        with device.stream() as stream:
            saxpy(2, Words("__cuda_array_interface__", **dx.__cuda_array_interface__), dy, 1000, stream=stream)
            stream.sync()
        np.testing.assert_array_equal(dy.numpy(), 2 * x + y)
        a, b = device.copy(x.reshape(20, 50)), device.memory((20, 50), "f32")
        device.kernel("twice")(a, b, 20, 50)
        device.sync()
        np.testing.assert_array_equal(b.numpy(), 2 * x.reshape(20, 50))

    def copy_by_streams(self, name):
        device = self.device_of(name)
        x = np.arange(1 << 20, dtype=np.float32)
        there, back = device.memory(len(x), "f32"), np.zeros_like(x)
        with device.stream() as stream:
            for factor in range(1, 4):
                more = factor * x
                there.copy_in(more, stream=stream)
                device.kernel("saxpy")(1, there, there, len(x), stream=stream)
                there.copy_out(back, stream=stream)
                stream.sync()
                np.testing.assert_array_equal(back, 2 * more)

    def test_cuda(self):
        self.run_all("cuda:0")
        self.copy_by_streams("cuda:0")

    def test_hip(self):
        self.run_all("hip:0")
        self.copy_by_streams("hip:0")

    def test_torch(self):
        try:
            import torch
        except ImportError:
            self.skipTest("torch is not installed")
        device = self.device_of("cuda:0")
        x, y = torch.arange(1000, dtype=torch.float32, device="cuda"), torch.ones(1000, device="cuda")
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        device.kernel("saxpy")(2, x, y, 1000, stream=stream)
        stream.synchronize()
        self.assertTrue(torch.equal(y, 2 * x + 1))
        half, out = torch.randn(96, device="cuda", dtype=torch.bfloat16), torch.zeros(96, device="cuda", dtype=torch.bfloat16)
        device.kernel("copy[T=bf16]")(half, out, 96)
        device.sync()
        self.assertTrue(torch.equal(half, out))
        turned = torch.zeros(50, 20, device="cuda").t()
        device.kernel("twice")(x.reshape(20, 50), turned, 20, 50)
        device.sync()
        self.assertTrue(torch.equal(turned, 2 * x.reshape(20, 50)))


if __name__ == "__main__":
    sys.exit(support.main(__name__))
