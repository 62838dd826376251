// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Converts Python numbers to the bytes of a type of the kernel language.
#include "python/extension/extension.h"

#include <string.h>

// Whether the value says that its NumPy type is of that kind: a letter of the array interface.
static bool is_of_kind(PyObject *value, const char *letter) {
  PyObject *dtype = PyObject_GetAttrString(value, "dtype"),
           *kind = dtype ? PyObject_GetAttrString(dtype, "kind") : NULL;
  bool is = kind && PyUnicode_Check(kind) && PyUnicode_CompareWithASCIIString(kind, letter) == 0;
  Py_XDECREF(dtype);
  Py_XDECREF(kind);
  PyErr_Clear();
  return is;
}

// A new integer.
static PyObject *integer_of(PyObject *value) {
  if (PyLong_Check(value)) return Py_INCREF(value), value;
  if (is_of_kind(value, "b")) return PyNumber_Long(value); // a truth value is no integer
  if (!PyIndex_Check(value)) {
    PyObject *name = PyType_GetName(Py_TYPE(value));
    if (name) PyErr_Format(PyExc_TypeError, "expected an integer, found %U", name);
    Py_XDECREF(name);
    return NULL;
  }
  return PyNumber_Index(value);
}

// Whether the value is of an unsigned type of NumPy's of that size, so that its bits are meant.
static bool is_unsigned(PyObject *value, size_t size) {
  if (PyLong_CheckExact(value)) return false;
  PyObject *dtype = PyObject_GetAttrString(value, "dtype"),
           *kind = dtype ? PyObject_GetAttrString(dtype, "kind") : NULL,
           *bytes = dtype ? PyObject_GetAttrString(dtype, "itemsize") : NULL;
  bool is = kind && PyUnicode_Check(kind) && PyUnicode_CompareWithASCIIString(kind, "u") == 0 && bytes &&
            PyLong_Check(bytes) && PyLong_AsSize_t(bytes) == size;
  Py_XDECREF(dtype);
  Py_XDECREF(kind);
  Py_XDECREF(bytes);
  PyErr_Clear();
  return is;
}

static bool refuse_integer(const char *name, unsigned bits, bool is_bits, PyObject *number) {
  if (is_bits) {
    PyErr_Format(PyExc_OverflowError, "%R is not the bits of a value of type %s (0 to 255, or -128 to 127)",
                 number, name);
    return false;
  }
  long long most = bits == 1 ? 1 : (long long)(UINT64_MAX >> (65 - bits));
  PyErr_Format(PyExc_OverflowError, "%R is not a value of type %s (%lld to %lld)", number, name,
               bits == 1 ? 0 : -most - 1, most);
  return false;
}

// `is_bits`: the unsigned values of the type are its bits.
static bool pack_integer(const char *name, unsigned bits, size_t size, bool is_bits, PyObject *value,
                         uint8_t *out) {
  PyObject *number = integer_of(value);
  if (!number) return false;
  int overflow;
  long long n = PyLong_AsLongLongAndOverflow(number, &overflow);
  uint64_t word = (uint64_t)n;
  if (!overflow && bits < 64)
    overflow = n >= 1LL << (bits - (bits > 1)) ? 1 : n < -(1LL << (bits - 1)) ? -1 : 0;
  if (!overflow && bits == 1 && n < 0) overflow = -1;
  if (overflow > 0 && bits > 1 && (is_bits || is_unsigned(value, size))) {
    word = PyLong_AsUnsignedLongLong(number);
    overflow = PyErr_Occurred() || (bits < 64 && word >> bits);
    PyErr_Clear();
  }
  if (overflow) refuse_integer(name, bits, is_bits, number);
  else memcpy(out, &word, size); // little-endian, as all hosts of libkiln
  Py_DECREF(number);
  return !overflow;
}

static bool number_of(PyObject *value, double *out) {
  // NumPy's complex numbers would give their real part, with a warning.
  bool is_complex = !PyFloat_Check(value) && !PyLong_Check(value) && is_of_kind(value, "c");
  if (is_complex) PyErr_SetNone(PyExc_TypeError);
  *out = is_complex ? -1 : PyFloat_AsDouble(value);
  if (*out != -1 || !PyErr_Occurred()) return true;
  PyObject *name = PyErr_ExceptionMatches(PyExc_TypeError) ? PyType_GetName(Py_TYPE(value)) : NULL;
  if (name) PyErr_Format(PyExc_TypeError, "expected a number, found %U", name);
  Py_XDECREF(name);
  return false;
}

/// Bits of an f64 as those of a type with fewer, in one rounding to the nearest, ties to even; what is not a
/// number stays so. By integers: the calling thread may round otherwise and flush denormals. False: a number
/// became an infinity.
static bool narrow(uint64_t wide, unsigned exponent_bits, unsigned fraction_bits, uint32_t *out) {
  const int32_t bias = (1 << (exponent_bits - 1)) - 1;
  const uint32_t infinity = ((1U << exponent_bits) - 1) << fraction_bits,
                 sign = (uint32_t)(wide >> 63) << (exponent_bits + fraction_bits);
  uint64_t fraction = wide & 0xfffffffffffff;
  int32_t exponent = (int32_t)(wide >> 52 & 0x7ff);
  if (exponent == 0x7ff) {
    uint32_t quiet = fraction ? (uint32_t)(fraction >> (52 - fraction_bits)) | 1U << (fraction_bits - 1) : 0;
    return *out = sign | infinity | quiet, true;
  }
  if (exponent) fraction |= UINT64_C(1) << 52; // denormals of f64 are zeros of all the others
  exponent += bias - 1023;
  unsigned dropped = 52 - fraction_bits + (exponent < 1 ? (unsigned)(1 - exponent) : 0);
  uint64_t kept = dropped > 54 ? 0 : fraction >> dropped;
  if (dropped <= 54) {
    uint64_t rest = fraction & ((UINT64_C(1) << dropped) - 1), half = UINT64_C(1) << (dropped - 1);
    kept += rest > half || (rest == half && kept & 1); // a carry goes into the exponent, as it should
  }
  uint64_t bits = kept + ((uint64_t)(exponent > 1 ? exponent - 1 : 0) << fraction_bits);
  *out = sign | (bits < infinity ? (uint32_t)bits : infinity);
  return bits < infinity;
}

bool kiln_scalar_pack(const kiln_element *element, PyObject *value, uint8_t *out) {
  unsigned kind = element->own >> 16;
  if (kind == 'b') return pack_integer(element->name, 1, 1, false, value, out);
  if (kind == 'i') return pack_integer(element->name, 8u * element->size, element->size, false, value, out);
  if (kind == '4' || kind == '5') return pack_integer(element->name, 8, 1, true, value, out);
  double number;
  if (!number_of(value, &number)) return false;
  uint64_t wide;
  uint32_t bits, single;
  memcpy(&wide, &number, sizeof wide);
  if (element->size == 8) return memcpy(out, &wide, sizeof wide), true;
  bool is_brain = kind == 'F', is_half = !is_brain && element->size == 2;
  bool fits = narrow(wide, is_half ? 5 : 8, is_brain ? 7 : is_half ? 10 : 23, &bits);
  // The largest numbers of f32 are an infinity of bf16, as they are everywhere else.
  if (!fits && !(is_brain && narrow(wide, 8, 23, &single))) {
    PyObject *text = PyFloat_FromDouble(number);
    if (text) PyErr_Format(PyExc_OverflowError, "%R is not a value of type %s", text, element->name);
    Py_XDECREF(text);
    return false;
  }
  memcpy(out, &bits, element->size); // little-endian
  return true;
}
