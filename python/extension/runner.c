// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Launches a compiled kernel as the launchers of Triton's compiled kernels are called, which PyTorch's
// generated code does: Runner(kernel, sources, counter)(x, y, z, stream, function, packed, metadata, enter, exit,
// *arguments), all arguments of the @triton.jit function in order, constants too.
#include "python/extension/extension.h"

#include <string.h>

enum { GRID_X, GRID_Y, GRID_Z, STREAM, FUNCTION, PACKED, METADATA, ENTER, LEAVE, FIRST };

typedef struct runner {
  PyObject_HEAD vectorcallfunc call;
  kiln_kernel_object *kernel;
  PyObject *counter; ///< of launches
  size_t *sources;   ///< owned: for each parameter of the kernel that of the function
  size_t arguments;  ///< at least so many
} runner;

/// A hook of launches; None is none.
static bool call_hook(PyObject *hook, PyObject *metadata) {
  if (hook == Py_None) return true;
  PyObject *done = PyObject_CallFunctionObjArgs(hook, metadata, NULL);
  Py_XDECREF(done);
  return done != NULL;
}

static bool take_grid(runner *r, PyObject *const *args, uint32_t *grid) {
  PyObject *whole = PyTuple_Pack(3, args[GRID_X], args[GRID_Y], args[GRID_Z]);
  bool is_fine = whole && kiln_grid_of(r->kernel, whole, grid);
  Py_XDECREF(whole);
  return is_fine;
}

/// The launch itself, on the given stream whatever PyTorch's current one is.
static bool launch(runner *r, PyObject *const *args) {
  kiln_kernel_object *k = r->kernel;
  kiln_arguments a;
  a.is_lenient = true;
  uint32_t grid[3];
  PyObject *few[KILN_FEW], **values = few;
  kiln_stream stream = args[STREAM] == Py_None ? NULL : PyLong_AsVoidPtr(args[STREAM]);
  if (PyErr_Occurred() || !take_grid(r, args, grid)) return false;
  if (k->count > KILN_FEW) values = PyMem_Malloc(k->count * sizeof *values);
  if (!values) return PyErr_NoMemory(), false;
  for (size_t i = 0; i < k->count; i++) values[i] = args[FIRST + r->sources[i]];
  bool is_fine = kiln_arguments_init(&a, k, values, k->count, NULL, grid);
  if (is_fine) {
    if (args[STREAM] != Py_None) a.stream = stream;
    is_fine = kiln_arguments_launch(&a);
  }
  if (values != few) PyMem_Free(values);
  return is_fine;
}

static PyObject *runner_call(PyObject *self, PyObject *const *args, size_t flagged, PyObject *names) {
  runner *r = (runner *)self;
  size_t count = (size_t)PyVectorcall_NARGS(flagged);
  if (!r->kernel) return kiln_device_is_open(NULL), NULL;
  if (kiln_named(names) || count < FIRST + r->arguments)
    return PyErr_Format(PyExc_TypeError,
                        "%U: expected a grid, a stream, five more and at least %zu arguments of the kernel, "
                        "found %zu in all",
                        r->kernel->name, r->arguments, count);
  Py_INCREF(self);
  bool is_fine = call_hook(args[ENTER], args[METADATA]) && launch(r, args);
  if (is_fine) {
    kiln_count(r->counter);
    kiln_launched++;
    is_fine = call_hook(args[LEAVE], args[METADATA]);
  }
  Py_DECREF(self);
  return is_fine ? Py_NewRef(Py_None) : NULL;
}

// Runner(kernel, sources, counter)
static PyObject *runner_new(PyTypeObject *type, PyObject *args, PyObject *Py_UNUSED(named)) {
  PyObject *kernel, *sources, *counter;
  if (!PyArg_ParseTuple(args, "O!O!O!:Runner", kiln_of.kernel, &kernel, &PyTuple_Type, &sources,
                        kiln_of.counter, &counter))
    return NULL;
  kiln_kernel_object *k = (kiln_kernel_object *)kernel;
  if ((size_t)PyTuple_Size(sources) != k->count)
    return PyErr_Format(PyExc_ValueError, "%U: expected %zu sources, found %zd", k->name, k->count,
                        PyTuple_Size(sources));
  runner *r = (runner *)PyType_GenericAlloc(type, 0);
  if (!r) return NULL;
  kiln_torch_is_used(); // so that the first call knows tensors
  r->call = runner_call;
  r->kernel = (kiln_kernel_object *)Py_NewRef(kernel);
  r->counter = Py_NewRef(counter);
  r->sources = PyMem_Calloc(k->count + 1, sizeof *r->sources);
  if (!r->sources) PyErr_NoMemory();
  for (size_t i = 0; r->sources && i < k->count; i++) {
    r->sources[i] = PyLong_AsSize_t(PyTuple_GetItem(sources, (Py_ssize_t)i));
    if (r->sources[i] >= r->arguments) r->arguments = r->sources[i] + 1;
  }
  if (PyErr_Occurred()) Py_CLEAR(r);
  return (PyObject *)r;
}

static void runner_drop(PyObject *self) { PyMem_Free(((runner *)self)->sources); }

KILN_COLLECTED(runner, runner_drop, offsetof(runner, kernel), offsetof(runner, counter))

static PyMemberDef members[] = {
    KILN_CALL_OF(runner),
    {0},
};
static PyType_Slot slots[] = {
    {Py_tp_doc,
     "Runner(kernel, sources, counter): launches a kernel as Triton's compiled kernels are launched."},
    {Py_tp_new, runner_new},
    KILN_COLLECTED_SLOTS(runner),
    {Py_tp_call, PyVectorcall_Call},
    {Py_tp_members, members},
    {0, NULL},
};
PyType_Spec kiln_runner_spec = {"kiln.Runner", sizeof(runner), 0, KILN_CALLED, slots};
