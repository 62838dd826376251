// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Loads libkiln at run time, from the place that the caller or the package names (kiln._paths).
#include "python/extension/extension.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

typedef struct loaded {
  kiln_api api;
  PyObject *path; // owned
  struct loaded *next;
} loaded;
static loaded *all; // never unloaded: its threads and handles may be in use

void *kiln_load_library(const char *soname, PyObject *path) {
  PyObject *paths = PyObject_CallFunction(kiln_of.candidates, "sO", soname, path);
  PyObject *tried = paths ? PyList_New(0) : NULL;
  void *handle = NULL;
  Py_ssize_t count = tried ? PySequence_Size(paths) : 0;
  for (Py_ssize_t i = 0; i < count && !handle; i++) {
    PyObject *item = PySequence_GetItem(paths, i), *bytes = NULL;
    if (!item || !PyUnicode_FSConverter(item, &bytes)) {
      Py_XDECREF(item);
      break;
    }
    handle = dlopen(PyBytes_AsString(bytes), RTLD_NOW | RTLD_LOCAL);
    PyObject *why = handle ? NULL : kiln_text(dlerror());
    if (why) PyList_Append(tried, why);
    Py_XDECREF(why);
    Py_DECREF(bytes);
    Py_DECREF(item);
  }
  if (!handle && !PyErr_Occurred()) {
    PyObject *separator = PyUnicode_FromString("; "),
             *text = separator ? PyUnicode_Join(separator, tried) : NULL;
    if (text) PyErr_Format(PyExc_OSError, "%s cannot be loaded: %U", soname, text);
    Py_XDECREF(separator);
    Py_XDECREF(text);
  }
  Py_XDECREF(paths);
  Py_XDECREF(tried);
  return handle;
}

void *kiln_load_beside(const char *soname, PyObject *library) {
  if (library == Py_None) return kiln_load_library(soname, library);
  PyObject *os_path = PyImport_ImportModule("os.path");
  PyObject *folder = os_path ? PyObject_CallMethod(os_path, "dirname", "(O)", library) : NULL;
  PyObject *path = folder ? PyObject_CallMethod(os_path, "join", "Os", folder, soname) : NULL;
  void *handle = path ? kiln_load_library(soname, path) : NULL;
  Py_XDECREF(os_path);
  Py_XDECREF(folder);
  Py_XDECREF(path);
  return handle;
}

static bool fill_api(void *handle, kiln_api *api) {
#define FUNCTION(function)                                                                               \
  if (!(api->function = (__typeof__(kiln_##function) *)dlsym(handle, "kiln_" #function)))                \
    return PyErr_Format(PyExc_OSError, "libkiln is older than this package: it has no kiln_" #function), \
           false;
#include "python/extension/functions.def"
#undef FUNCTION
  return true;
}

const kiln_api *kiln_load(PyObject *path) {
  for (loaded *l = all; l; l = l->next) {
    int is_same = PyObject_RichCompareBool(l->path, path, Py_EQ);
    if (is_same) return is_same > 0 ? &l->api : NULL;
  }
  void *handle = kiln_load_library("libkiln.so.0", path);
  if (!handle) return NULL;
  loaded *new = PyMem_Calloc(1, sizeof *new);
  if (!new) return PyErr_NoMemory(), NULL;
  if (!fill_api(handle, &new->api) || !kiln_observe(handle, path)) {
    PyMem_Free(new);
    return NULL;
  }
  Py_INCREF(path);
  new->path = path;
  new->next = all;
  all = new;
  return &new->api;
}

PyObject *kiln_text(const char *text) {
  return PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
}

const char *kiln_text_for(const char *what, PyObject *value) {
  Py_ssize_t size = 0;
  if (!PyUnicode_Check(value))
    return PyErr_Format(PyExc_TypeError, "%s: expected text, found %R", what, Py_TYPE(value)), NULL;
  const char *text = PyUnicode_AsUTF8AndSize(value, &size);
  if (!text || strlen(text) == (size_t)size) return text;
  return PyErr_Format(PyExc_ValueError, "%s: a NUL inside %R", what, value), NULL;
}

PyObject *kiln_raise(kiln_status status, const kiln_error *err) {
  char code[32];
  snprintf(code, sizeof code, " [KILN-E%04d]", (int)status);
  PyObject *number = PyLong_FromLong(status), *text = kiln_text(err->text), *failure = NULL;
  PyObject *whole = number && text ? PyUnicode_FromFormat("%U%s", text, code) : NULL;
  PyObject *class = whole ? PyDict_GetItemWithError(kiln_of.errors, number) : NULL;
  if (!class) class = kiln_of.error;
  if (whole) failure = PyObject_CallFunctionObjArgs(class, whole, number, NULL);
  if (failure) PyErr_SetObject(class, failure);
  Py_XDECREF(number);
  Py_XDECREF(text);
  Py_XDECREF(whole);
  Py_XDECREF(failure);
  return NULL;
}
