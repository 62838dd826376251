# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Drawn kernels print drawn values of all types: the host, the PTX of two processors in the interpreter, and Python print the same lines. With
KILN_TEST_DEVICE=cuda an NVIDIA GPU (sm_90a) does so, too."""
import os
import random
import struct
import subprocess
import sys
import tempfile
import unittest

import support

SEED = int(os.environ.get("KILN_TEST_SEED", "20261201"))
KERNELS = 40 if os.environ.get("KILN_TEST_FULL") == "1" else 8
# Of an element: bits, and how Python's struct reads them.
TYPES = {"i1": (1, ""), "i8": (8, "b"), "i16": (16, "h"), "i32": (32, "i"), "i64": (64, "q"), "f16": (16, "e"), "bf16": (16, ""), "f32": (32, "f"), "f64": (64, "d")}
DEVICES = [("host", "host"), ("ptx:sm_80", "sm_80"), ("ptx:sm_90a", "sm_90a")] + ([("cuda:0", "sm_90a")] if os.environ.get("KILN_TEST_DEVICE") == "cuda" else [])
KILN = os.path.join(support.BUILD, "bin", "kiln")


def as_float(name, bits):
    if name == "bf16":
        return struct.unpack("<f", struct.pack("<I", bits << 16))[0]
    size, letter = TYPES[name]
    return struct.unpack("<" + letter, bits.to_bytes(size // 8, "little"))[0]


def text_of(name, bits, digits, unsigned):
    """A value of `name` as the language has it; `bits` are its bits."""
    size = TYPES[name][0]
    if digits:
        return "0x%0*x" % (digits, bits)
    if name[0] in "fb":
        value = as_float(name, bits)
        if value != value:
            return "-nan" if bits >> (size - 1) else "nan"
        return "%f" % value
    return str(bits if unsigned or name == "i1" or bits >> (size - 1) == 0 else bits - (1 << size))


class Drawing:
    """One kernel: its source, the files of its arguments, and the lines that it prints."""

    def __init__(self, draw, folder):
        self.arguments, parameters, body, printed = [], [], [], []
        self.programs = draw.choice([1, 1, 3])
        for k in range(draw.randint(1, 5)):
            name, logs = draw.choice(sorted(TYPES)), [draw.randint(0, 4) for _ in range(draw.randint(0, 3))]
            shape = [1 << log for log in logs]
            count = 1
            for extent in shape:
                count *= extent
            size = TYPES[name][0]
            values = [draw.choice([draw.getrandbits(size), draw.getrandbits(min(size, 4)), 0, (1 << size) - 1, 1 << (size - 1)]) for _ in range(count)]
            if name in ("f16", "bf16", "f32", "f64"):
                values = [value if as_float(name, value) == as_float(name, value) else 0 for value in values]  # a NaN's sign is the machine's
            digits, unsigned = draw.choice([0, 0, draw.randint(1, 16)]), draw.random() < 0.3
            text = draw.choice([" x: ", "", "%d 100%% ", " tab\\t", " (operand %d) " % k, " \\\"%s\\\" "])
            path = os.path.join(folder, "a%d.bin" % k)
            with open(path, "wb") as file:
                file.write(b"".join(value.to_bytes(max(1, size // 8), "little") for value in values))
            parameters.append("a%d: in *%s" % (k, name))
            self.arguments.append("a%d=@%s" % (k, path))
            body.append("  let v%d = %s" % (k, "load(a%d)" % k if not shape else "reshape(load(a%d + iota(%d)), %s)" % (k, count, shape) if len(shape) > 1 else "load(a%d + iota(%d))" % (k, count)))
            options = (", hex = %d" % digits if digits else "") + (", unsigned = true" if unsigned else "")
            body.append("  print(\"%s\", v%d%s)" % (text, k, options))
            printed.append((name, shape, values, digits, unsigned, text.replace("\\t", "\t").replace("\\\"", "\"")))
            if draw.random() < 0.3:
                body.append("  print(\"only text\")")
                printed.append((None, [], [], 0, False, "only text"))
        self.source = "kiln 1\nkernel k(%s) @grid(%d) @warps(%d) {\n%s\n}\n" % (", ".join(parameters), self.programs, draw.choice([1, 2, 4, 8]), "\n".join(body))
        self.lines = [line for program in range(self.programs) for one in printed for line in self.lines_of(program, *one)]

    @staticmethod
    def lines_of(program, name, shape, values, digits, unsigned, text):
        if name is None:
            yield "pid (%d, 0, 0)%s" % (program, text)
        for number, bits in enumerate(values):
            index, rest = [], number
            for extent in reversed(shape):
                index.insert(0, "%*d" % (len(str(extent - 1)), rest % extent))
                rest //= extent
            yield "pid (%d, 0, 0) idx (%s)%s%s" % (program, ", ".join(index), text, text_of(name, bits, digits, unsigned))


class Printing(unittest.TestCase):
    def test_drawn_values(self):
        draw = random.Random(SEED)
        for number in range(KERNELS):
            with self.subTest(number), tempfile.TemporaryDirectory(prefix="kiln-print-") as folder:
                kernel = Drawing(draw, folder)
                source, bundle = os.path.join(folder, "k.kiln"), os.path.join(folder, "k.kbundle")
                with open(source, "w") as file:
                    file.write(kernel.source)
                for device, target in DEVICES:
                    subprocess.run([KILN, "build", "-q", source, "-t", target, "--ptx-assembler=none", "--no-cache", "-o", bundle], check=True, stdout=subprocess.PIPE)
                    words = [word for argument in kernel.arguments for word in ("-a", argument)]
                    done = subprocess.run([KILN, "run", "-d", device, bundle, "k", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
                    self.assertEqual((done.returncode, done.stderr), (0, b""), kernel.source)
                    lines = done.stdout.decode().split("\n")[:-1]
                    self.assertEqual(sorted(lines), sorted(kernel.lines), kernel.source)
                    if device == "host" and kernel.programs == 1:
                        self.assertEqual(lines, kernel.lines, kernel.source)


if __name__ == "__main__":
    sys.exit(support.main(__name__))
