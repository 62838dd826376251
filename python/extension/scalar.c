// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Numbers of Python as the bytes of a type of the kernel language.
#include "python/extension/extension.h"

#include <math.h>
#include <string.h>

// NumPy's truth values are no integers, but say what they are.
static bool is_truth_value(PyObject *value) {
  PyObject *dtype = PyObject_GetAttrString(value, "dtype"),
           *kind = dtype ? PyObject_GetAttrString(dtype, "kind") : NULL;
  bool is = kind && PyUnicode_Check(kind) && PyUnicode_CompareWithASCIIString(kind, "b") == 0;
  Py_XDECREF(dtype);
  Py_XDECREF(kind);
  PyErr_Clear();
  return is;
}

// A new integer.
static PyObject *integer_of(PyObject *value) {
  if (PyLong_Check(value)) return Py_INCREF(value), value;
  if (is_truth_value(value)) return PyNumber_Long(value);
  if (!PyIndex_Check(value)) {
    PyObject *name = PyType_GetName(Py_TYPE(value));
    if (name) PyErr_Format(PyExc_TypeError, "expected an integer, found %U", name);
    Py_XDECREF(name);
    return NULL;
  }
  return PyNumber_Index(value);
}

// From the least signed to the greatest unsigned value of `bits`.
static bool pack_integer(const char *name, unsigned bits, size_t size, PyObject *value, uint8_t *out) {
  PyObject *number = integer_of(value);
  if (!number) return false;
  int overflow;
  long long n = PyLong_AsLongLongAndOverflow(number, &overflow);
  uint64_t word = (uint64_t)n;
  if (overflow > 0 && bits == 64) {
    word = PyLong_AsUnsignedLongLong(number);
    overflow = PyErr_Occurred() != NULL;
    PyErr_Clear();
  } else if (!overflow && bits < 64)
    overflow = n < (bits == 1 ? 0 : -(1LL << (bits - 1))) || n >= 1LL << bits;
  if (overflow) PyErr_Format(PyExc_OverflowError, "%R is not a value of type %s", number, name);
  else memcpy(out, &word, size); // little-endian, as all hosts of libkiln
  Py_DECREF(number);
  return !overflow;
}

static bool number_of(PyObject *value, double *out) {
  *out = PyFloat_AsDouble(value);
  if (*out != -1 || !PyErr_Occurred()) return true;
  PyObject *name = PyErr_ExceptionMatches(PyExc_TypeError) ? PyType_GetName(Py_TYPE(value)) : NULL;
  if (name) PyErr_Format(PyExc_TypeError, "expected a number, found %U", name);
  Py_XDECREF(name);
  return false;
}

// To the nearest, ties to even; what is not a number stays so.
static uint16_t bf16_of(float number) {
  uint32_t bits;
  memcpy(&bits, &number, sizeof bits);
  if (number != number) return (uint16_t)(bits >> 16 | 0x40);
  return (uint16_t)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

bool kiln_scalar_pack(const kiln_element *element, PyObject *value, uint8_t *out) {
  unsigned kind = element->own >> 16;
  if (kind == 'b') return pack_integer(element->name, 1, 1, value, out);
  if (kind == 'i') return pack_integer(element->name, 8u * element->size, element->size, value, out);
  if (kind == '4' || kind == '5') return pack_integer("i8", 8, 1, value, out); // the bits
  double number;
  if (!number_of(value, &number)) return false;
  float single = (float)number;
  _Float16 half = (_Float16)number;
  uint16_t brain = bf16_of(single);
  const void *bytes = kind == 'F'          ? &brain
                      : element->size == 2 ? (void *)&half
                      : element->size == 4 ? (void *)&single
                                           : &number;
  double rounded = kind == 'F' || element->size == 4 ? (double)single
                   : element->size == 2              ? (double)half
                                                     : number;
  if (isinf(rounded) && !isinf(number)) {
    PyObject *text = PyFloat_FromDouble(number);
    if (text) PyErr_Format(PyExc_OverflowError, "%R is not a value of type %s", text, element->name);
    Py_XDECREF(text);
    return false;
  }
  memcpy(out, bytes, element->size);
  return true;
}
