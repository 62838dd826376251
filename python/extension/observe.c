// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tells Python functions of launches (kiln.on_launch), and libkiln-observe of the libkiln that this package has
// loaded: no library of the process finds its functions otherwise.
#include "python/extension/extension.h"

#include <dlfcn.h>
#include <stdlib.h>

#include "runtime/kiln_observe.h"

// ------------------------------------------------------------------------------------ libkiln-observe

// Preloaded, or lying next to libkiln where the environment asks for it: then it starts as it is loaded.
static void *find_observer(PyObject *path) {
  void *attach = dlsym(RTLD_DEFAULT, "kiln_observe_attach");
  bool is_asked =
      secure_getenv("KILN_OBSERVE") || secure_getenv("KILN_LOG") || secure_getenv("KILN_COUNTERS_FILE");
  if (attach || !is_asked) return attach;
  void *handle = kiln_load_beside("libkiln-observe.so.0", path);
  return handle ? dlsym(handle, "kiln_observe_attach") : NULL;
}

bool kiln_observe(void *libkiln, PyObject *path) {
  kiln_error err = {.text = "libkiln-observe is older than this package"};
  __typeof__(kiln_observe_attach) *attach = NULL;
  *(void **)&attach = find_observer(path);
  if (!attach && !PyErr_Occurred()) return true;
  if (attach && attach(libkiln, &err) == KILN_OK) return true;
  // A program does not fail for want of being observed.
  PyObject *type, *why, *trace;
  PyErr_Fetch(&type, &why, &trace);
  PyObject *text = why ? PyObject_Str(why) : kiln_text(err.text);
  Py_XDECREF(type);
  Py_XDECREF(why);
  Py_XDECREF(trace);
  bool is_told = text && !PyErr_WarnFormat(PyExc_RuntimeWarning, 1, "launches are not observed: %U", text);
  Py_XDECREF(text);
  return is_told;
}

// ------------------------------------------------------------------------------------------ on_launch

typedef struct hook {
  const kiln_api *c;
  PyObject *function; // owned
  bool is_removed;
} hook;
static _Thread_local bool is_inside; // of a function that is told

static PyObject *launch_of(const kiln_event *e) {
  const kiln_choice *c = e->choice;
  PyObject *choice = kiln_result("Choice", "(ssss(III)IIIII)", c->config, c->variant, c->target, c->bundle,
                                 c->grid[0], c->grid[1], c->grid[2], c->block_threads, c->shared_bytes,
                                 c->registers, c->spill_bytes, c->rank);
  if (!choice) return NULL;
  return kiln_result("Launch", "(ssNKid)", e->kernel_name, e->device_name, choice,
                     (unsigned long long)(uintptr_t)e->stream, (int)e->status,
                     (double)(e->end_ns - e->begin_ns) * 1e-9);
}

// What the function raises is shown and goes no further: the launch is made.
static void tell(void *user, const kiln_event *e) {
  hook *h = user;
  PyGILState_STATE state = PyGILState_Ensure();
  if (!h->is_removed) {
    PyObject *type, *value, *trace, *function = Py_NewRef(h->function);
    PyErr_Fetch(&type, &value, &trace);
    is_inside = true;
    PyObject *launch = launch_of(e),
             *result = launch ? PyObject_CallFunctionObjArgs(function, launch, NULL) : NULL;
    is_inside = false;
    if (!result) PyErr_WriteUnraisable(function);
    Py_XDECREF(launch);
    Py_XDECREF(result);
    Py_DECREF(function);
    PyErr_Restore(type, value, trace);
  }
  PyGILState_Release(state);
}

// Threads in the hook may wait for the interpreter's lock, so it is given up while they are waited for. A
// function that removes itself does not wait for them: then the hook stays, for those that still come to it.
static void remove_hook(hook *h) {
  if (h->is_removed) return;
  h->is_removed = true;
  Py_BEGIN_ALLOW_THREADS h->c->hook_remove(tell, h);
  Py_END_ALLOW_THREADS if (!is_inside) Py_CLEAR(h->function);
}

static void free_hook(PyObject *capsule) {
  hook *h = PyCapsule_GetPointer(capsule, NULL);
  remove_hook(h);
  if (!h->function) free(h);
}

PyObject *kiln_hook_launches(PyObject *Py_UNUSED(module), PyObject *function) {
  kiln_error err;
  const kiln_api *c = kiln_load(Py_None);
  hook *h = c ? calloc(1, sizeof *h) : NULL;
  if (!h) return c ? PyErr_NoMemory() : NULL;
  *h = (hook){.c = c, .function = Py_NewRef(function)};
  kiln_status status = c->hook_add(tell, h, KILN_EVENT_LAUNCHED | KILN_EVENT_TIMES, &err);
  PyObject *capsule = status ? kiln_raise(status, &err) : PyCapsule_New(h, NULL, free_hook);
  if (capsule) return capsule;
  if (!status) c->hook_remove(tell, h);
  Py_DECREF(function);
  free(h);
  return NULL;
}

PyObject *kiln_unhook_launches(PyObject *Py_UNUSED(module), PyObject *capsule) {
  hook *h = PyCapsule_GetPointer(capsule, NULL);
  if (!h) return NULL;
  remove_hook(h);
  Py_RETURN_NONE;
}
