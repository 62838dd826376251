// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Implements kiln.Library: open bundles, and the objects that libkiln borrows for them.
#include "python/extension/extension.h"

#include "runtime/kiln_verify.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

// ------------------------------------------------------------------------------------------- opened

static void end(kiln_opened *o) {
  kiln_library *handle = o->handle;
  if (!handle || o->calls) return;
  o->handle = NULL;
  Py_BEGIN_ALLOW_THREADS o->c->close(handle);
  Py_END_ALLOW_THREADS
}

static void close_opened(kiln_opened *o) {
  o->is_closing = true;
  end(o);
}

void kiln_opened_drop(kiln_opened *o) {
  if (--o->references) return;
  close_opened(o);
  if (o->verifier) o->verifier_destroy(o->verifier);
  Py_CLEAR(o->log);
  Py_CLEAR(o->bytes);
  PyMem_Free(o);
}

static bool is_open(kiln_library_object *self) {
  if (self->opened && self->opened->handle && !self->opened->is_closing) return true;
  kiln_closed((PyObject *)self);
  return false;
}

// May be called by any thread, with or without the GIL.
static void log_line(void *user, int level, const char *text) {
  if (!Py_IsInitialized()) return;
  PyGILState_STATE state = PyGILState_Ensure();
  kiln_opened *o = user;
  PyObject *log = o->log;
  if (log) {
    PyObject *type, *value, *trace; // of a caller that is raising
    PyErr_Fetch(&type, &value, &trace);
    Py_INCREF(log);
    PyObject *line = kiln_text(text), *result = line ? PyObject_CallFunction(log, "iO", level, line) : NULL;
    if (!result) PyErr_WriteUnraisable(log);
    Py_XDECREF(result);
    Py_XDECREF(line);
    Py_DECREF(log);
    PyErr_Restore(type, value, trace);
  }
  PyGILState_Release(state);
}

// ------------------------------------------------------------------------------------------ sources

// Path, bytes, descriptor or file. What is borrowed goes to o->bytes.
static bool take_source(kiln_opened *o, PyObject *value, kiln_source *out) {
  *out = (kiln_source){.fd = -1};
  PyObject *kept = NULL;
  if (PyBytes_Check(value) || PyByteArray_Check(value) || PyMemoryView_Check(value)) {
    kept = PyBytes_FromObject(value);
    char *bytes = NULL;
    Py_ssize_t size = 0;
    if (!kept || PyBytes_AsStringAndSize(kept, &bytes, &size)) goto failed;
    out->bytes = bytes;
    out->size = (size_t)size;
  } else if (PyLong_Check(value) || PyObject_HasAttrString(value, "fileno")) {
    out->fd = PyObject_AsFileDescriptor(value);
    return out->fd >= 0;
  } else {
    if (!PyUnicode_FSConverter(value, &kept)) return false;
    out->path = PyBytes_AsString(kept);
  }
  if (PyList_Append(o->bytes, kept)) goto failed;
  Py_DECREF(kept);
  return true;
failed:
  Py_XDECREF(kept);
  return false;
}

static bool add_trust(kiln_opened *o, PyObject *trust, PyObject *library, kiln_open_options *options) {
  if (PyUnicode_Check(trust) || PyBytes_Check(trust)) { // whose items would be taken for paths
    PyErr_Format(PyExc_TypeError, "trust: expected a list of files with public keys, found %R", trust);
    return false;
  }
  void *handle = kiln_load_beside("libkiln-verify.so.0", library);
  if (!handle) return false;
  __typeof__(kiln_verifier_create) *create = (__typeof__(create))dlsym(handle, "kiln_verifier_create");
  __typeof__(kiln_verifier_add_file) *add = (__typeof__(add))dlsym(handle, "kiln_verifier_add_file");
  o->verifier_destroy = (void (*)(void *))dlsym(handle, "kiln_verifier_destroy");
  options->verify = (kiln_verify_callback *)dlsym(handle, "kiln_verify_trusted");
  if (!create || !add || !o->verifier_destroy || !options->verify) {
    PyErr_SetString(PyExc_OSError, "libkiln-verify is older than this package");
    return false;
  }
  kiln_error err;
  kiln_status status = create((kiln_verifier **)&o->verifier, &err);
  PyObject *keys = PySequence_List(trust);
  for (Py_ssize_t i = 0; keys && !status && i < PyList_Size(keys); i++) {
    PyObject *path = NULL;
    if (!PyUnicode_FSConverter(PyList_GetItem(keys, i), &path)) break;
    status = add(o->verifier, PyBytes_AsString(path), &err);
    Py_DECREF(path);
  }
  Py_XDECREF(keys);
  if (status) kiln_raise(status, &err);
  options->verify_user = o->verifier;
  options->policy |= KILN_NEED_SIGNATURE;
  return !PyErr_Occurred();
}

// ------------------------------------------------------------------------------------------- object

typedef struct wishes {
  PyObject *trust, *log, *library, *name, *min_version;
  unsigned policy;
} wishes;

static bool take_version(PyObject *value, uint64_t *out) {
  PyObject *number = value ? PyNumber_Index(value) : PyLong_FromLong(0);
  if (!number) return false;
  *out = PyLong_AsUnsignedLongLong(number);
  bool is_fine = !PyErr_Occurred();
  if (!is_fine) PyErr_Format(PyExc_ValueError, "min_version: expected 0 to 2^64 - 1, found %R", number);
  Py_DECREF(number);
  return is_fine;
}

static bool open_bundles(kiln_opened *o, PyObject *sources, const wishes *w) {
  Py_ssize_t count = PyTuple_Size(sources);
  kiln_source *entries = PyMem_Calloc((size_t)count + 1, sizeof *entries);
  if (!entries) return PyErr_NoMemory(), false;
  kiln_open_options options = {.size = sizeof options, .sources = entries, .source_count = (size_t)count};
  options.policy = w->policy;
  bool is_done = false;
  if (!take_version(w->min_version, &options.min_version)) goto out;
  for (Py_ssize_t i = 0; i < count; i++)
    if (!take_source(o, PyTuple_GetItem(sources, i), &entries[i])) goto out;
  if (w->name != Py_None && !(options.name = kiln_text_for("name", w->name))) goto out;
  if (w->log != Py_None) {
    Py_INCREF(w->log);
    o->log = w->log;
    options.log = log_line;
    options.log_user = o;
  }
  if (w->trust != Py_None && !add_trust(o, w->trust, w->library, &options)) goto out;
  kiln_error err;
  kiln_status status;
  Py_BEGIN_ALLOW_THREADS status = o->c->open(&options, &o->handle, &err);
  Py_END_ALLOW_THREADS if (status) kiln_raise(status, &err);
  is_done = !status;
out:
  PyMem_Free(entries);
  return is_done;
}

// How it was opened; paths are of the folder that the process was in then.
static PyObject *opening(PyObject *sources, PyObject *named) {
  PyObject *os = PyImport_ImportModule("os"), *folder = os ? PyObject_CallMethod(os, "getcwd", NULL) : NULL;
  Py_XDECREF(os);
  if (!folder) { // a folder that is gone; what is absolute is found all the same
    PyErr_Clear();
    folder = PyUnicode_FromString("");
  }
  return folder ? Py_BuildValue("(OON)", sources, named ? named : Py_None, folder) : NULL;
}

static PyObject *library_new(PyTypeObject *type, PyObject *sources, PyObject *named) {
  static char *names[] = {"policy", "trust", "log", "library", "name", "min_version", NULL};
  wishes w = {.trust = Py_None, .log = Py_None, .library = Py_None, .name = Py_None, .min_version = NULL};
  PyObject *none = PyTuple_New(0);
  if (!none) return NULL;
  bool is_fine = kiln_know_keywords("Library", named, names) &&
                 PyArg_ParseTupleAndKeywords(none, named, "|$IOOOOO:Library", names, &w.policy, &w.trust,
                                             &w.log, &w.library, &w.name, &w.min_version);
  Py_DECREF(none);
  const kiln_api *c = is_fine ? kiln_load(w.library) : NULL;
  if (!c) return NULL;
  kiln_library_object *self = (kiln_library_object *)PyType_GenericAlloc(type, 0);
  if (!self) return NULL;
  kiln_opened *o = self->opened = PyMem_Calloc(1, sizeof *o);
  if (!o) {
    Py_DECREF((PyObject *)self);
    return PyErr_NoMemory();
  }
  o->references = 1;
  o->c = c;
  o->bytes = PyList_New(0);
  self->opened_by = opening(sources, named);
  if (self->opened_by && o->bytes && open_bundles(o, sources, &w)) return (PyObject *)self;
  Py_DECREF((PyObject *)self);
  return NULL;
}

static PyObject *library_close(PyObject *self, PyObject *Py_UNUSED(none)) {
  kiln_library_object *l = (kiln_library_object *)self;
  while (l->devices) { // each leaves the list
    PyObject *done = PyObject_CallMethod((PyObject *)l->devices, "close", NULL);
    if (!done) return NULL;
    Py_DECREF(done);
  }
  if (l->opened) close_opened(l->opened);
  Py_RETURN_NONE;
}

static PyObject *library_kernels(PyObject *self, void *Py_UNUSED(closure)) {
  kiln_library_object *l = (kiln_library_object *)self;
  if (!is_open(l)) return NULL;
  const kiln_api *c = l->opened->c;
  size_t count = c->kernel_count(l->opened->handle);
  PyObject *list = PyList_New((Py_ssize_t)count);
  for (size_t i = 0; list && i < count; i++) {
    const char *text;
    kiln_error err;
    kiln_status status = c->kernel_at(l->opened->handle, i, &text, &err);
    PyObject *name = status ? kiln_raise(status, &err) : kiln_text(text);
    if (!name) Py_CLEAR(list);
    else PyList_SetItem(list, (Py_ssize_t)i, name);
  }
  return list;
}

// The bundles as they were given, those that are bytes by their count.
static PyObject *source_names(PyObject *sources) {
  PyObject *text = PyUnicode_FromString("");
  for (Py_ssize_t i = 0; text && i < PyTuple_Size(sources); i++) {
    PyObject *source = PyTuple_GetItem(sources, i);
    PyObject *longer = PyBytes_Check(source)
                           ? PyUnicode_FromFormat("%U%s%zd bytes", text, i ? ", " : "", PyBytes_Size(source))
                           : PyUnicode_FromFormat("%U%s%S", text, i ? ", " : "", source);
    Py_DECREF(text);
    text = longer;
  }
  return text;
}

static PyObject *library_repr(PyObject *self) {
  kiln_library_object *l = (kiln_library_object *)self;
  PyObject *sources = l->opened_by ? source_names(PyTuple_GetItem(l->opened_by, 0)) : NULL;
  if (!sources) return PyErr_Occurred() ? NULL : PyUnicode_FromString("<kiln.Library>");
  bool is_open = l->opened && l->opened->handle;
  PyObject *text = is_open ? PyUnicode_FromFormat("<kiln.Library of %zu kernels from %U>",
                                                  l->opened->c->kernel_count(l->opened->handle), sources)
                           : PyUnicode_FromFormat("<kiln.Library from %U, closed>", sources);
  Py_DECREF(sources);
  return text;
}

static PyObject *library_device(PyObject *self, PyObject *args, PyObject *named) {
  static char *names[] = {"name", NULL};
  kiln_library_object *l = (kiln_library_object *)self;
  const char *name = "host";
  if (!kiln_know_keywords("device", named, names) ||
      !PyArg_ParseTupleAndKeywords(args, named, "|s:device", names, &name) || !is_open(l))
    return NULL;
  kiln_device_object *device = (kiln_device_object *)PyType_GenericAlloc(kiln_of.device, 0);
  kiln_held *held = device ? PyMem_Calloc(1, sizeof *held) : NULL;
  if (!held || !(device->name = PyUnicode_FromString(name))) {
    PyMem_Free(held);
    Py_XDECREF((PyObject *)device);
    return PyErr_Occurred() ? NULL : PyErr_NoMemory();
  }
  kiln_opened *o = l->opened;
  o->references++; // the held's
  o->calls++;
  *held = (kiln_held){.claims = 1, .c = o->c, .opened = o};
  kiln_error err;
  kiln_status status;
  Py_BEGIN_ALLOW_THREADS status = o->c->device_open(o->handle, name, &held->handle, &err);
  Py_END_ALLOW_THREADS o->calls--;
  if (o->is_closing) end(o);
  device->held = held;
  if (status) {
    Py_DECREF((PyObject *)device);
    return kiln_raise(status, &err);
  }
  const char *colon = strchr(name, ':');
  size_t length = colon ? (size_t)(colon - name) : strlen(name);
  device->place = length == 4 && !memcmp(name, "host", 4)   ? BY_HOST
                  : length == 4 && !memcmp(name, "cuda", 4) ? BY_CUDA
                  : length == 3 && !memcmp(name, "hip", 3)  ? BY_HIP
                                                            : BY_NULL;
  device->index = colon && (device->place & (BY_CUDA | BY_HIP)) ? atoi(colon + 1) : 0;
  device->is_open = true;
  Py_INCREF(self);
  device->library = l;
  device->next = l->devices;
  if (l->devices) l->devices->previous = device;
  l->devices = device;
  return (PyObject *)device;
}

static int library_traverse(PyObject *self, visitproc visit, void *arg) {
  kiln_library_object *l = (kiln_library_object *)self;
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(l->dict);
  Py_VISIT(l->opened_by);
  if (l->opened) Py_VISIT(l->opened->log);
  return 0;
}

static int library_clear(PyObject *self) {
  kiln_library_object *l = (kiln_library_object *)self;
  Py_CLEAR(l->dict);
  Py_CLEAR(l->opened_by);
  if (l->opened) Py_CLEAR(l->opened->log);
  return 0;
}

static void library_drop(PyObject *self) {
  kiln_opened *opened = ((kiln_library_object *)self)->opened;
  if (!opened) return;
  close_opened(opened);
  kiln_opened_drop(opened);
}

static void library_free(PyObject *self) {
  kiln_object_free(self, ((kiln_library_object *)self)->weak, library_clear, library_drop);
}

static PyMethodDef methods[] = {
    {"device", (PyCFunction)(void (*)(void))library_device, METH_VARARGS | METH_KEYWORDS,
     "device($self, name=\"host\")\n--\n\nOpens \"host\", \"host:4\", \"cuda:0\", \"hip:0\", \"null\" or "
     "\"null:sm_90\"."},
    {"close", library_close, METH_NOARGS, "close($self)\n--\n\nCloses the library and its devices."},
    {"__enter__", kiln_enter, METH_NOARGS, NULL},
    {"__exit__", (PyCFunction)(void (*)(void))kiln_exit, METH_FASTCALL, NULL},
    {"__reduce__", kiln_pickle, METH_NOARGS, NULL},
    {0},
};
static PyGetSetDef getters[] = {
    {"kernels", library_kernels, NULL, "The names of all kernels, in order.", NULL},
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, NULL, NULL},
    {0},
};
static PyMemberDef members[] = {
    {"_opened_by", T_OBJECT_EX, offsetof(kiln_library_object, opened_by), READONLY, NULL},
    {"__dictoffset__", T_PYSSIZET, offsetof(kiln_library_object, dict), READONLY, NULL},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(kiln_library_object, weak), READONLY, NULL},
    {0},
};
static PyType_Slot slots[] = {
    {Py_tp_doc,
     "Library(*sources, policy=0, trust=None, log=None, library=None, name=None, min_version=0)\n--\n\n"
     "Open bundles. Each of `sources` is a path, the bundle's bytes, a file descriptor or an open file; "
     "earlier ones win\n"
     "where codes fit equally well. `policy` is a sum of EXACT_ONLY, NO_JIT and CHECK_ALL; `trust` lists "
     "files with public\n"
     "keys, one of which must have signed each bundle; `log(level, text)` gets warnings; `library` is the "
     "path of libkiln\n"
     "where it is neither in this installation nor where the loader looks; `name` and `min_version` are the "
     "statement that\n"
     "a bundle must make of itself."},
    {Py_tp_repr, library_repr},
    {Py_tp_new, library_new},
    {Py_tp_dealloc, library_free},
    {Py_tp_traverse, library_traverse},
    {Py_tp_clear, library_clear},
    {Py_tp_methods, methods},
    {Py_tp_getset, getters},
    {Py_tp_members, members},
    {0, NULL},
};
PyType_Spec kiln_library_spec = {"kiln.Library", sizeof(kiln_library_object), 0,
                                 Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_BASETYPE, slots};
