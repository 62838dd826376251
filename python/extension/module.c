// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Defines the module kiln._core: its types, and what it takes from the package's other modules.
#include "python/extension/extension.h"

#include <string.h>

kiln_globals kiln_of;

static PyObject *version(PyObject *Py_UNUSED(module), PyObject *args) {
  PyObject *library = Py_None;
  if (!PyArg_ParseTuple(args, "|O:version", &library)) return NULL;
  const kiln_api *c = kiln_load(library);
  return c ? kiln_text(c->version()) : NULL;
}

// For tests.
static PyObject *reads_handles(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none)) {
  return PyBool_FromLong(kiln_handles_are_read());
}

// For kiln.torch, which tries it in states that are known.
static PyObject *thread_is_plain(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none)) {
  return PyBool_FromLong(kiln_torch_is_used() && kiln_handles_thread_is_plain());
}

static PyObject *take_inference(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none)) {
  if (kiln_torch_is_used()) kiln_handles_take_inference();
  Py_RETURN_NONE;
}

static bool take(const char *module, const char *name, PyObject **out) {
  PyObject *from = PyImport_ImportModule(module);
  *out = from ? PyObject_GetAttrString(from, name) : NULL;
  Py_XDECREF(from);
  return *out != NULL;
}

PyObject *kiln_result(const char *name, const char *format, ...) {
  va_list list;
  va_start(list, format);
  PyObject *type, *values = Py_VaBuildValue(format, list), *result = NULL;
  va_end(list);
  if (values && take("kiln._results", name, &type)) {
    result = PyObject_CallObject(type, values);
    Py_DECREF(type);
  }
  Py_XDECREF(values);
  return result;
}

static bool add_type(PyObject *module, PyType_Spec *spec, PyTypeObject **out) {
  PyObject *type = PyType_FromModuleAndSpec(module, spec, NULL);
  *out = (PyTypeObject *)type;
  if (!type) return false;
  return !PyModule_AddObjectRef(module, strchr(spec->name, '.') + 1, type);
}

// A free-threaded interpreter takes the lock when it imports a module like this one, unless it was told not
// to.
static bool has_lock(void) {
  PyObject *ask = PySys_GetObject("_is_gil_enabled"); // borrowed; older ones always have it
  PyObject *answer = ask ? PyObject_CallNoArgs(ask) : Py_NewRef(Py_True);
  Py_XDECREF(answer);
  if (answer == Py_True) return true;
  if (answer)
    PyErr_SetString(PyExc_ImportError,
                    "kiln wants the interpreter's lock, which PYTHON_GIL=0 or -X gil=0 takes away");
  return false;
}

static int fill_module(PyObject *module) {
  if (!has_lock()) return -1;
  if (PyInterpreterState_GetID(PyInterpreterState_Get()) != 0 || kiln_of.library) {
    PyErr_SetString(
        PyExc_ImportError,
        "kiln works in the main interpreter only, not in subinterpreters, and is imported once a process");
    return -1;
  }
  kiln_globals *g = &kiln_of;
  bool is_fine =
      take("kiln._arrays", "Strided", &g->strided) && take("kiln._errors", "Error", &g->error) &&
      take("kiln._errors", "ERRORS", &g->errors) && take("kiln._arrays", "describe", &g->describe) &&
      take("kiln._arrays", "room", &g->room) && take("kiln._paths", "candidates", &g->candidates) &&
      (g->stream_name = Py_BuildValue("(s)", "stream")) && (g->grid_name = Py_BuildValue("(s)", "grid"));
  is_fine =
      is_fine && add_type(module, &kiln_device_spec, &g->device) &&
      add_type(module, &kiln_memory_spec, &g->memory) && add_type(module, &kiln_stream_spec, &g->stream) &&
      add_type(module, &kiln_kernel_spec, &g->kernel) && add_type(module, &kiln_gridded_spec, &g->gridded) &&
      add_type(module, &kiln_prepared_spec, &g->prepared) &&
      add_type(module, &kiln_library_spec, &g->library) && add_type(module, &kiln_plan_spec, &g->plan) &&
      add_type(module, &kiln_runner_spec, &g->runner) && add_type(module, &kiln_counter_spec, &g->counter) &&
      add_type(module, &kiln_variants_spec, &g->variants) &&
      add_type(module, &kiln_with_grid_spec, &g->with_grid) &&
      add_type(module, &kiln_operation_spec, &g->operation) &&
      add_type(module, &kiln_differentiable_spec, &g->differentiable) &&
      add_type(module, &kiln_direct_spec, &g->direct);
  if (is_fine) is_fine = !PyModule_AddStringConstant(module, "__version__", KILN_VERSION);
  return is_fine ? 0 : -1;
}

static PyMethodDef functions[] = {
    {"version", version, METH_VARARGS,
     "version(library=None)\n--\n\nThe version of libkiln, such as \"0.1.0\"."},
    {"_hook_launches", kiln_hook_launches, METH_O, NULL},
    {"_unhook_launches", kiln_unhook_launches, METH_O, NULL},
    {"_reads_handles", reads_handles, METH_NOARGS, NULL},
    {"thread_is_plain", thread_is_plain, METH_NOARGS, NULL},
    {"take_inference", take_inference, METH_NOARGS, NULL},
    {"recorded_type", kiln_recorded_type, METH_O, NULL},
    {"_xla_targets", kiln_xla_targets, METH_NOARGS, NULL},
    {"_xla_call", kiln_xla_call, METH_VARARGS, NULL},
    {0},
};
static PyModuleDef_Slot slots[] = {{Py_mod_exec, fill_module}, {0, NULL}};
static PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "kiln._core", "The package's native part.", 0, functions, slots, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__core(void);
PyMODINIT_FUNC PyInit__core(void) { return PyModuleDef_Init(&definition); }
