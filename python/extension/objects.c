// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Holds what the types of the extension have in common.
#include "python/extension/extension.h"

void kiln_object_free(PyObject *self, const PyObject *weak, inquiry clear, void (*drop)(PyObject *self)) {
  PyTypeObject *type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  if (weak) PyObject_ClearWeakRefs(self);
  clear(self);
  if (drop) drop(self);
  PyObject_GC_Del(self);
  Py_DECREF(type);
}

static PyObject **at(PyObject *self, size_t place) { return (PyObject **)((char *)self + place); }

int kiln_object_visit(PyObject *self, const size_t *places, visitproc visit, void *arg) {
  Py_VISIT(Py_TYPE(self));
  for (; *places; places++) Py_VISIT(*at(self, *places));
  return 0;
}

int kiln_object_clear(PyObject *self, const size_t *places) {
  for (; *places; places++) {
    PyObject *old = *at(self, *places);
    *at(self, *places) = NULL;
    Py_XDECREF(old);
  }
  return 0;
}

bool kiln_is_name(PyObject *name, const char *text) {
  return PyUnicode_CompareWithASCIIString(name, text) == 0;
}

PyObject *kiln_tuple_of(PyObject *const *objects, size_t count) {
  PyObject *tuple = PyTuple_New((Py_ssize_t)count);
  for (size_t i = 0; tuple && i < count; i++) PyTuple_SetItem(tuple, (Py_ssize_t)i, Py_NewRef(objects[i]));
  return tuple;
}

PyObject *kiln_did_you_mean(PyObject *name, PyObject *words) {
  PyObject *module = words ? PyImport_ImportModule("kiln._suggest") : NULL;
  PyObject *text = module ? PyObject_CallMethod(module, "did_you_mean", "OO", name, words) : NULL;
  Py_XDECREF(module);
  Py_XDECREF(words);
  return text;
}

bool kiln_know_keywords(const char *function, PyObject *named, char *const *names) {
  PyObject *name, *value;
  for (Py_ssize_t at = 0; named && PyDict_Next(named, &at, &name, &value);) {
    size_t i = 0;
    while (names[i] && !kiln_is_name(name, names[i])) i++;
    if (names[i]) continue;
    PyObject *words = PyList_New(0);
    for (i = 0; words && names[i]; i++) {
      PyObject *word = PyUnicode_FromString(names[i]);
      if (!word || PyList_Append(words, word)) Py_CLEAR(words);
      Py_XDECREF(word);
    }
    PyObject *text = kiln_did_you_mean(name, words);
    if (text) PyErr_Format(PyExc_TypeError, "%s: there is no argument '%U'%U", function, name, text);
    Py_XDECREF(text);
    return false;
  }
  return true;
}

PyObject *kiln_integers(const int64_t *values, size_t count, int64_t factor) {
  PyObject *tuple = PyTuple_New((Py_ssize_t)count);
  for (size_t i = 0; tuple && i < count; i++) {
    PyObject *value = PyLong_FromLongLong(values[i] * factor);
    if (value) PyTuple_SetItem(tuple, (Py_ssize_t)i, value);
    else Py_CLEAR(tuple);
  }
  return tuple;
}
