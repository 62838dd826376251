# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Kernels as functions of tvm-ffi (kiln.tvm_ffi), called by their names with arrays of NumPy, and what they refuse."""
import sys
import unittest

import support
support.with_zones()

try:
    import numpy as np
    import tvm_ffi
    import kiln.tvm_ffi
except ImportError:
    tvm_ffi = None

FOLDER = BUNDLE = None


@unittest.skipIf(tvm_ffi is None, "tvm-ffi (apache-tvm-ffi) is not installed")
class Functions(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.names = kiln.tvm_ffi.register(BUNDLE, namespace="kilntest")

    def function(self, name):
        return tvm_ffi.get_global_func("kilntest." + name)

    def test_all_that_take_arrays_are_there(self):
        self.assertLessEqual({"kilntest." + name for name in ("saxpy", "copy__T_f16", "copy", "twice", "scalars", "gridless")}, set(self.names))

    def test_registering_twice_replaces(self):
        """As a cell of a notebook does that is run again; what others registered stays."""
        self.assertEqual(kiln.tvm_ffi.register(BUNDLE, namespace="kilntest"), self.names)
        tvm_ffi.register_global_func("kilnother.saxpy", lambda: 1)
        with self.assertRaisesRegex(RuntimeError, "already registered"):
            kiln.tvm_ffi.register(BUNDLE, namespace="kilnother")
        self.assertEqual(tvm_ffi.get_global_func("kilnother.saxpy")(), 1)
        self.assertIn("kilnother.saxpy", kiln.tvm_ffi.register(BUNDLE, namespace="kilnother", override=True))

    def test_a_call_writes_in_place(self):
        x, y = np.arange(300, dtype=np.float32), np.full(300, 0.5, np.float32)
        self.assertIsNone(self.function("saxpy")(2.0, tvm_ffi.from_dlpack(x), tvm_ffi.from_dlpack(y), 300))
        np.testing.assert_array_equal(y, 2 * np.arange(300, dtype=np.float32) + 0.5)

    def test_views_have_the_strides_of_their_tensors(self):
        x, y = np.arange(32 * 16, dtype=np.float32).reshape(32, 16), np.zeros((32, 16), np.float32)
        self.function("twice")(tvm_ffi.from_dlpack(x), tvm_ffi.from_dlpack(y), 32, 16)
        np.testing.assert_array_equal(y, 2 * x)

    def test_types_choose_the_instance(self):
        for dtype in (np.int8, np.int64, np.float16, np.float64):
            x, y = np.arange(8).astype(dtype), np.zeros(8, dtype)
            self.function("copy")(tvm_ffi.from_dlpack(x), tvm_ffi.from_dlpack(y), 8)
            np.testing.assert_array_equal(x, y)
        with self.assertRaisesRegex(TypeError, "copy: expected tensors that one of its kernels takes, found float32"):
            self.function("copy")(tvm_ffi.from_dlpack(np.zeros(8, np.float32)), tvm_ffi.from_dlpack(np.zeros(8, np.float32)), 8)

    def test_refusals_name_the_parameter(self):
        y = tvm_ffi.from_dlpack(np.zeros(4, np.float32))
        with self.assertRaisesRegex(TypeError, r"argument 'x' \(\*f32\): expected elements of type f32, found"):
            self.function("saxpy")(1.0, tvm_ffi.from_dlpack(np.zeros(4, np.int32)), y, 4)
        with self.assertRaisesRegex(TypeError, r"saxpy: expected 4 arguments \(a, x, y, n\), found 3; without 'n' \(i32\)"):
            self.function("saxpy")(1.0, y, y)
        with self.assertRaisesRegex(TypeError, "saxpy: argument 'x': expected a tensor, found int"):
            self.function("saxpy")(1.0, 2, y, 4)
        with self.assertRaisesRegex(TypeError, r"copy: expected 3 arguments \(x, y, n\), found 2"):
            self.function("copy")(y, y)  # of all instances
        # tvm-ffi knows few kinds of exceptions; the text stays.
        with self.assertRaisesRegex(RuntimeError, "4294967296 is not a value of type i32"):
            self.function("saxpy")(1.0, y, y, 1 << 32)


if __name__ == "__main__":
    sys.exit(support.main(__name__))
