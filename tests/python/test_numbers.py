# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Numbers as arguments: what a parameter's type can hold arrives as it is, by every way, and all else is refused with the argument and the type before anything
runs. Values are drawn at and around the ends of every range; KILN_TEST_SEED=N[,COUNT] chooses them. torch.ops and kiln.jax where they are installed."""
import importlib.util
import os
import random
import re
import subprocess
import sys
import unittest

import support
support.with_zones()

import kiln  # noqa: E402

SEED, COUNT = (list(map(int, os.environ["KILN_TEST_SEED"].split(","))) + [60])[:2] if os.environ.get("KILN_TEST_SEED") else (random.SystemRandom().randrange(1 << 31), 60)
TYPES = {"a": 1, "b": 8, "c": 16, "d": 32, "e": 64}
KERNEL = """kiln 1
kernel put(y: out *i64, a: i1, b: i8, c: i16, d: i32, e: i64) @grid(1) @config(warps = 1)
{
  store(y, select(a, 1, 0) as i64)
  store(y + 1, b as i64)
  store(y + 2, c as i64)
  store(y + 3, d as i64)
  store(y + 4, e)
}
kernel reals(y: out *f64, h: f16, g: bf16, f: f32, d: f64) @grid(1) @config(warps = 1)
{
  store(y, h as f64)
  store(y + 1, g as f64)
  store(y + 2, f as f64)
  store(y + 3, d)
}
"""


def ends(bits):
    return (0, 1) if bits == 1 else (-1 << bits - 1, (1 << bits - 1) - 1)


class Cases(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        print("seed %d, %d draws" % (SEED, COUNT))
        cls.draw = random.Random(SEED)
        source = os.path.join(FOLDER, "numbers.kiln")
        cls.bundle = os.path.join(FOLDER, "numbers.kbundle")
        with open(source, "w") as file:
            file.write(KERNEL)
        support.tool("build", source, "-t", "host", "--no-cache", "-q", "-o", cls.bundle)
        cls.device = kiln.Library(cls.bundle).device("host")
        cls.y = cls.device.memory(5, "i64")

    def stored(self):
        data = bytes(self.y)
        return [int.from_bytes(data[8 * i:8 * i + 8], "little", signed=True) for i in range(5)]

    def held(self):
        """A value in range for each parameter, mostly at an end."""
        return [self.draw.choice((least, most, max(least, min(most, near)), self.draw.randint(least, most)))
                for least, most in map(ends, TYPES.values()) for near in [self.draw.choice((least + 1, most - 1, 0, 1, -1))]]

    def beyond(self, bits):
        least, most = ends(bits)
        return self.draw.choice((least - 1, most + 1, 1 << bits, (1 << bits) - 1 if bits > 1 else 3, -1 << bits, 3000000000 << max(0, bits - 32), 1 << 64, -1 << 63 - (bits < 64), 1 << 100,
                                 most + self.draw.randint(1, 1 << bits), least - self.draw.randint(1, 1 << bits)))

    def ways(self):
        """Each takes the five numbers and launches; what is refused raises."""
        kernel = self.device.kernel("put")

        def prepared_and_set(values):
            prepared = kernel.prepare(self.y, 0, 0, 0, 0, 0)
            for name, value in zip(TYPES, values):
                prepared.set(name, value)
            prepared()
        yield "called", lambda values: kernel(self.y, *values)
        yield "by name", lambda values: kernel(y=self.y, **dict(zip(TYPES, values)))
        yield "with a grid", lambda values: kernel[1](self.y, *values)
        yield "prepared", lambda values: kernel.prepare(self.y, *values)()
        yield "set", prepared_and_set


class Ranges(Cases):
    """By every way to call a kernel."""

    def is_ours(self, way, at, value):
        return True

    def test_the_ends_of_every_range(self):
        for way, launch in self.ways():
            for _ in range(COUNT):
                values = self.held()
                launch(values)
                self.assertEqual(self.stored(), values, (SEED, way))

    def test_beyond_them(self):
        for way, launch in self.ways():
            for _ in range(COUNT):
                values, at = self.held(), self.draw.randrange(5)
                name, bits = list(TYPES.items())[at]
                values[at] = self.beyond(bits)
                if ends(bits)[0] <= values[at] <= ends(bits)[1] or not self.is_ours(way, at, values[at]):
                    continue
                before = self.stored()
                with self.assertRaisesRegex(OverflowError, r"put: argument '%s' \(i%d\): %d is not a value of type i%d \(%d to %d\)" % (name, bits, values[at], bits, *ends(bits)),
                                            msg=(SEED, way, values)):
                    launch(values)
                self.assertEqual(self.stored(), before, (SEED, way))


class Others(Cases):
    def test_what_is_no_integer(self):
        kernel = self.device.kernel("put")
        for wrong in (1.0, 1.5, float("nan"), float("inf"), None, "1", b"1", 1j, [1], (1,), {}, object()):
            for at in range(5):
                values = [0] * 5
                values[at] = wrong
                self.assertRaisesRegex(TypeError, "put: argument '%s'.*expected an integer, found" % list(TYPES)[at], kernel, self.y, *values)
        kernel(self.y, True, False, True, False, True)
        self.assertEqual(self.stored(), [1, 0, 1, 0, 1])

    def test_reals(self):
        kernel, y = self.device.kernel("reals"), self.device.memory(4, "f64")
        for wrong in (None, "1", b"1", 1j, [1.0], object()):
            for at in range(4):
                self.assertRaisesRegex(TypeError, "reals: argument '[hgfd]'", kernel, y, *[0.0] * at, wrong, *[0.0] * (3 - at))
        for value, at, name in ((65520.0, 0, "f16"), (-1e30, 0, "f16"), (3.5e38, 1, "bf16"), (-3.5e38, 2, "f32"), (1 << 200, 2, "f32"), (1 << 2000, 3, "f64")):
            self.assertRaisesRegex(OverflowError, r"reals: argument '[hgfd]' \(%s\)" % name, kernel, y, *[0.0] * at, value, *[0.0] * (3 - at))
        for value in (float("inf"), float("-inf"), True, 0, -0.0, 1 << 10):
            kernel(y, value, value, value, value)
            self.assertEqual(memoryview(bytes(y)).cast("d").tolist(), [float(value)] * 4)
        for _ in range(COUNT):  # bf16 is rounded once: close to the middle of two, where f32 rounds to the middle
            low = self.draw.randrange(128)
            middle, off = 1 + (2 * low + 1) * 2.0 ** -8, self.draw.choice((-1, 1)) * 2.0 ** -self.draw.randint(26, 44)
            kernel(y, 0, middle + off, 0, 0)
            self.assertEqual(memoryview(bytes(y)).cast("d")[1], 1 + (low + (off > 0)) * 2.0 ** -7, (SEED, middle, off))


class OfNumPy(Cases):
    """The scalars of NumPy: by their value; unsigned ones of the parameter's size by their bits."""

    @classmethod
    def setUpClass(cls):
        if importlib.util.find_spec("numpy") is None:
            raise unittest.SkipTest("NumPy is not installed")
        super().setUpClass()

    def test_scalars_of_every_type(self):
        import numpy as np
        for way, launch in self.ways():
            for _ in range(COUNT):
                values, at = [0] * 5, self.draw.randrange(5)
                name, bits = list(TYPES.items())[at]
                kind = self.draw.choice((np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64))
                info = np.iinfo(kind)
                number = self.draw.choice([int(info.min), int(info.max), self.draw.randint(int(info.min), int(info.max))] +
                                          [one for one in (*ends(bits), ends(bits)[1] + 1) if info.min <= one <= info.max])
                values[at] = kind(number)
                is_bits = info.min == 0 and info.bits == bits
                if is_bits or ends(bits)[0] <= number <= ends(bits)[1]:
                    launch(values)
                    self.assertEqual(self.stored()[at], number - (number >> bits - 1 << bits if is_bits else 0), (SEED, way, kind, number))
                else:
                    with self.assertRaisesRegex(OverflowError, "argument '%s'.*is not a value of type i%d" % (name, bits), msg=(SEED, way, kind, number)):
                        launch(values)
        self.device.kernel("put")(self.y, np.bool_(True), np.bool_(True), 0, 0, 0)
        self.assertEqual(self.stored(), [1, 1, 0, 0, 0])
        for wrong in (np.float32(1), np.float64(1)):
            self.assertRaisesRegex(TypeError, "expected an integer", self.device.kernel("put"), self.y, 0, 0, 0, wrong, 0)


class OfTheCommandLine(Cases):
    """kiln run -a."""

    def run_tool(self, kernel, **arguments):
        words = [word for name, value in arguments.items() for word in ("-a", "%s=%s" % (name, value))]
        done = subprocess.run([os.path.join(support.BUILD, "bin", "kiln"), "run", self.bundle, kernel, *words, "-p", "y"], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, env=support.plain_environment())
        return done.returncode, done.stdout.decode(), done.stderr.decode()

    def test_drawn(self):
        for _ in range(COUNT):
            values = dict(zip(TYPES, self.held()))
            code, out, err = self.run_tool("put", y="zeros:5", **values)
            self.assertEqual((code, [int(word) for word in out.split("=")[-1].split()]), (0, list(values.values())), (SEED, err))
            name, bits = self.draw.choice(list(TYPES.items()))
            number = self.beyond(bits)
            if ends(bits)[0] <= number <= ends(bits)[1]:
                continue
            text = self.draw.choice((str(number), hex(number)))
            code, out, err = self.run_tool("put", y="zeros:5", **{**values, name: text})
            self.assertEqual((code, out), (1, ""), (SEED, text))
            self.assertIn("argument '%s': '%s' is not a value of type i%d" % (name, text, bits), err)
            if bits > 1:
                number = self.draw.choice(((1 << bits) - 1, 1 << bits - 1, self.draw.randrange(1 << bits)))
                code, out, err = self.run_tool("put", y="zeros:5", **{**values, name: "u%d:%d" % (bits, number)})
                self.assertEqual((code, int(out.split("=")[-1].split()[list(TYPES).index(name)])), (0, number - (number >> bits - 1 << bits)), (SEED, err))

    def test_what_is_refused(self):
        usual = dict.fromkeys(TYPES, "0")
        for name, text in (("d", "1.5"), ("d", "1e3"), ("d", "nan"), ("d", ""), ("d", " 1"), ("d", "1 "), ("d", "+1"), ("d", "--1"), ("d", "u64:1"), ("d", "u32:-1"), ("d", "u32:4294967296"),
                           ("e", "u64:18446744073709551616"), ("e", "9223372036854775808"), ("a", "-1"), ("a", "2"), ("a", "u1:1"), ("d", "true"), ("d", "0x"), ("d", "u32:"), ("d", "u32: 1")):
            code, _, err = self.run_tool("put", y="zeros:5", **{**usual, name: text})
            self.assertEqual(code, 1, (name, text))
            self.assertIn("argument '%s': '%s' is not a value of type" % (name, text), err)
        for buffer in ("fill:5:1.5", "fill:5:9223372036854775808", "fill:5:nan", "fill:5:u32:1", "fill:5:"):
            code, _, err = self.run_tool("put", **{**usual, "y": buffer})
            self.assertIn("argument 'y': '%s' is not a value of type i64" % buffer[7:], err)
            self.assertEqual(code, 1)
        for buffer in ("fill:5", "zeros:5:1", "iota:5:x", "random:5:-1", "random:5:0.5", "random:5:", "ones:5,"):
            code, _, err = self.run_tool("put", **{**usual, "y": buffer})
            self.assertIn("'%s' is not zeros:N" % buffer, err)
            self.assertEqual(code, 1)
        reals = {"h": "1", "g": "2", "f": "3", "d": "4"}
        for name, text in (("h", "65520"), ("g", "1e39"), ("f", "-1e39"), ("d", "1e400"), ("d", "x"), ("f", "")):
            code, _, err = self.run_tool("reals", **{**reals, "y": "zeros:4", name: text})
            self.assertEqual(code, 1, (name, text))
            self.assertIn("argument '%s': '%s' is not a value of type" % (name, text), err)
        self.assertEqual(self.run_tool("reals", y="fill:4:7", **{**reals, "d": "inf", "f": "-inf"})[:2], (0, "y = 1 2 -inf inf\n"))

    def test_shapes_of_the_tuner(self):
        shapes = os.path.join(FOLDER, "shapes")
        for text, why in (("d=3000000000", "argument 'd': '3000000000' is not a value of type i32"), ("d=-2147483649", "is not a value of type i32"), ("b={1,200}", "'200' is not a value of type i8")):
            with open(shapes, "w") as file:
                file.write("put y=zeros:5 " + " ".join("%s=0" % name for name in TYPES if name != text[0]) + " " + text + "\n")
            done = subprocess.run([os.path.join(support.BUILD, "bin", "kiln"), "tune", os.path.join(FOLDER, "numbers.kiln"), "--shapes", shapes, "-o", os.path.join(FOLDER, "table")],
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=support.plain_environment())
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(why, done.stdout.decode())


class OfFrameworks(Ranges):
    def ways(self):
        if importlib.util.find_spec("torch"):
            import torch
            import kiln.torch
            name = "numbers_%s" % self._testMethodName
            kiln.torch.register(self.bundle, namespace=name)
            y = torch.zeros(5, dtype=torch.int64)

            def launch(put, values):
                put(y, bool(values[0]) if values[0] in (0, 1) else values[0], *values[1:])
                self.found = y.tolist()
            yield "torch.ops", lambda values: launch(getattr(torch.ops, name).put, values)
            yield "torch.ops by the dispatcher", lambda values: launch(getattr(torch.ops, name).put.default, values)
        if importlib.util.find_spec("jax"):
            import jax
            import kiln.jax

            jax.config.update("jax_enable_x64", True)

            def launch_jax(values):
                self.found = kiln.jax.call(self.bundle, "put", jax.numpy.zeros(5, "int64"), *values).tolist()
            yield "kiln.jax", launch_jax

    def is_ours(self, way, at, value):
        """PyTorch itself makes a bool of what is passed for one, and refuses what has more than 64 bits."""
        return not way.startswith("torch") or (at > 0 and -1 << 63 <= value < 1 << 63)

    def setUp(self):
        if not importlib.util.find_spec("torch") and not importlib.util.find_spec("jax"):
            self.skipTest("neither PyTorch nor JAX is installed")
        self.found = []

    def stored(self):
        return self.found


if __name__ == "__main__":
    sys.exit(support.main(__name__))
