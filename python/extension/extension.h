// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the files of the Python extension share. The extension calls libkiln through a table (libkiln.c) and
// knows nothing of its inside. Built for the stable ABI of CPython 3.11. Everything happens with the GIL
// held, except what may wait: that is between `kiln_held_begin` and `kiln_held_end`, so that close() of
// another thread takes effect when it has ended.
#ifndef KILN_PYTHON_EXTENSION_H
#define KILN_PYTHON_EXTENSION_H

#include <pyconfig.h>
#ifndef Py_GIL_DISABLED // a free-threaded interpreter has no stable ABI
#define Py_LIMITED_API 0x030B0000
#endif
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <structmember.h>

#include <stdbool.h>
#include <stdint.h>

#include "python/extension/dlpack.h"
#include "runtime/kiln.h"

// Vectorcall has had this number and these functions since 3.9; the headers of the stable ABI name them
// from 3.12 on.
#if defined(Py_LIMITED_API) && Py_LIMITED_API < 0x030C0000
#define Py_TPFLAGS_HAVE_VECTORCALL (1UL << 11)
#define PY_VECTORCALL_ARGUMENTS_OFFSET ((size_t)1 << (8 * sizeof(size_t) - 1))
#define PyVectorcall_NARGS(n) ((Py_ssize_t)((n) & ~PY_VECTORCALL_ARGUMENTS_OFFSET))
typedef PyObject *(*vectorcallfunc)(PyObject *callable, PyObject *const *args, size_t count, PyObject *names);
PyAPI_FUNC(PyObject *) PyVectorcall_Call(PyObject *callable, PyObject *tuple, PyObject *names);
PyAPI_FUNC(PyObject *)
    PyObject_Vectorcall(PyObject *callable, PyObject *const *args, size_t flagged, PyObject *names);
#endif

typedef struct kiln_api {
#define FUNCTION(name) __typeof__(kiln_##name) *name;
#include "python/extension/functions.def"
#undef FUNCTION
} kiln_api;

/// What other modules of the package and the interpreter have for us. References are owned to the process's
/// end: subinterpreters are refused, so there is one of each.
typedef struct kiln_globals {
  PyTypeObject *library, *device, *memory, *stream, *kernel, *gridded, *prepared, *plan, *runner, *counter,
      *variants, *with_grid, *operation, *differentiable, *direct;
  PyObject *strided, *error, *errors;     // kiln._arrays, kiln._errors: two classes, {number: class}
  PyObject *describe, *room, *candidates; // functions of kiln._arrays, kiln._paths
  PyObject *stream_name, *grid_name;      // ("stream",), ("grid",)
} kiln_globals;
extern kiln_globals kiln_of;
/// A named tuple of kiln._results, of what Py_BuildValue makes of the rest, which is a tuple; new.
PyObject *kiln_result(const char *name, const char *format, ...);

// --------------------------------------------------------------------------------- objects.c

/// tp_dealloc of an object of the collector: `clear` is the type's tp_clear, `drop` (or NULL) ends what that
/// leaves, `weak` is its list of weak references (or NULL).
void kiln_object_free(PyObject *self, const PyObject *weak, inquiry clear, void (*drop)(PyObject *self));
/// Of objects that are called; the first member after the head is `call`.
#define KILN_CALLED (Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL)
#define KILN_CALL_OF(type) \
  { "__vectorcalloffset__", T_PYSSIZET, offsetof(type, call), READONLY, NULL }
/// What the collector is told of an object: its type, and the references at these places in it, ended by 0.
int kiln_object_visit(PyObject *self, const size_t *places, visitproc visit, void *arg);
int kiln_object_clear(PyObject *self, const size_t *places);
/// The functions of the collector for a type whose references are at the places that follow, with `drop` (or
/// NULL) for what they leave, and its slots.
#define KILN_COLLECTED(type, drop, ...)                                                      \
  static const size_t type##_places[] = {__VA_ARGS__, 0};                                    \
  static int type##_traverse(PyObject *self, visitproc visit, void *arg) {                   \
    return kiln_object_visit(self, type##_places, visit, arg);                               \
  }                                                                                          \
  static int type##_clear(PyObject *self) { return kiln_object_clear(self, type##_places); } \
  static void type##_free(PyObject *self) { kiln_object_free(self, NULL, type##_clear, drop); }
#define KILN_COLLECTED_SLOTS(type) \
  {Py_tp_dealloc, type##_free}, {Py_tp_traverse, type##_traverse}, { Py_tp_clear, type##_clear }
/// How many arguments a call names: `names` is a tuple or NULL.
static inline Py_ssize_t kiln_named(PyObject *names) { return names ? PyTuple_Size(names) : 0; }
/// Whether a keyword is this one.
bool kiln_is_name(PyObject *name, const char *text);
PyObject *kiln_tuple_of(PyObject *const *objects, size_t count);
/// Whether each keyword of a call is among `names` (ended by NULL); else an exception that says what was meant.
bool kiln_know_keywords(const char *function, PyObject *named, char *const *names);
/// "; did you mean 'count'?" for a name that is not among `words` (stolen; NULL: none), or "". NULL with an exception.
PyObject *kiln_did_you_mean(PyObject *name, PyObject *words);
/// A tuple of integers, each times `factor`.
PyObject *kiln_integers(const int64_t *values, size_t count, int64_t factor);

// --------------------------------------------------------------------------------- libkiln.c

/// libkiln at `path` (None: where the package looks for it), loaded once a path. NULL with OSError, which
/// names what was tried.
const kiln_api *kiln_load(PyObject *path);
/// A shared library by its name, at `path` or where the package looks; dlopen's handle. NULL with OSError.
void *kiln_load_library(const char *soname, PyObject *path);
/// The same next to libkiln, which is at `path`; None: where the package looks.
void *kiln_load_beside(const char *soname, PyObject *path);
/// Lets libkiln-observe see a libkiln that was loaded, if it is there or asked for. False with an exception, where a
/// warning became one.
bool kiln_observe(void *libkiln, PyObject *path);
/// For kiln.on_launch: a function is told of launches until what this returns is given to the second. observe.c
PyObject *kiln_hook_launches(PyObject *module, PyObject *function);
PyObject *kiln_unhook_launches(PyObject *module, PyObject *hook);
/// Raises a status of libkiln as the exception of its number. Always NULL.
PyObject *kiln_raise(kiln_status status, const kiln_error *err);
/// Text for libkiln, borrowed; NULL with an exception where it is none or has a NUL inside, at which C would
/// end it.
const char *kiln_text_for(const char *what, PyObject *value);
/// Text of libkiln.
PyObject *kiln_text(const char *text);

// --------------------------------------------------------------------------------- library.c, device.c

/// Open bundles: the library's object holds them, and each open device. What libkiln borrows lives as long.
typedef struct kiln_opened {
  size_t references, calls;
  const kiln_api *c;
  kiln_library *handle; // NULL: closed
  bool is_closing;
  PyObject *bytes; // owned: a list of the bundles that are bytes
  PyObject *log;   // owned; the library's object visits it and gives it up
  void *verifier;
  void (*verifier_destroy)(void *verifier);
} kiln_opened;
void kiln_opened_drop(kiln_opened *opened);

/// What libkiln knows as one device. Its object and each memory and stream hold a claim, since the collector
/// ends the objects of a cycle in any order; the last claim closes it, or close().
typedef struct kiln_held {
  size_t claims, calls;
  const kiln_api *c;
  kiln_device *handle; // NULL: ended
  bool is_ending;
  kiln_opened *opened; // counted
} kiln_held;
void kiln_held_drop(kiln_held *held);
/// Before a call that gives up the GIL; false with ValueError where the device is closed.
bool kiln_held_begin(kiln_held *held);
void kiln_held_end(kiln_held *held);

typedef enum kiln_device_place { BY_HOST = 1, BY_CUDA = 2, BY_HIP = 4, BY_NULL = 8 } kiln_device_place;

typedef struct kiln_library_object {
  PyObject_HEAD PyObject *dict, *weak;
  PyObject *opened_by; ///< (sources, options or None, folder), for pickles
  kiln_opened *opened;
  struct kiln_device_object *devices; // borrowed: the first that is open
} kiln_library_object;

typedef struct kiln_device_object {
  PyObject_HEAD PyObject *dict, *weak;
  kiln_library_object *library;
  struct kiln_device_object *previous, *next; // of the library
  PyObject *name;
  kiln_device_place place;
  int index; // "cuda:1"
  bool is_open;
  kiln_held *held;
  struct kiln_child *children; // borrowed: the first that is open
} kiln_device_object;

/// Memory or a stream: ends before its device.
typedef struct kiln_child {
  PyObject_HEAD PyObject *dict, *weak;
  kiln_device_object *device; // NULL after the collector
  kiln_held *held;
  struct kiln_child *previous, *next;
  void *handle;
  size_t uses; // launches under way
  bool is_open, is_released;
  void (*release)(struct kiln_child *child);
} kiln_child;
void kiln_child_add(kiln_child *child, kiln_device_object *device, void *handle,
                    void (*release)(kiln_child *child));
void kiln_child_close(kiln_child *child);
/// One launch fewer uses it; what was closed meanwhile is released.
void kiln_child_unuse(kiln_child *child);
void kiln_child_free(PyObject *self);
int kiln_child_visit(PyObject *self, visitproc visit, void *arg);
int kiln_child_clear(PyObject *self);

/// ValueError where the device is closed.
bool kiln_device_is_open(kiln_device_object *device);
/// Waits for `stream`; false with an exception.
bool kiln_device_wait(kiln_device_object *device, kiln_stream stream);
/// Whether two are views of one device; what belongs to it may come from either.
bool kiln_device_is_same(const kiln_device_object *a, const kiln_device_object *b);
/// None, an integer, a kiln.Stream of `device`, or what frameworks call a stream: whose those are libkiln
/// says.
bool kiln_stream_of(PyObject *value, const kiln_device_object *device, kiln_stream *out);

/// Methods that several types have.
PyObject *kiln_enter(PyObject *self, PyObject *none);
PyObject *kiln_exit(PyObject *self, PyObject *const *args, Py_ssize_t count);
PyObject *kiln_refuse_pickling(PyObject *self, PyObject *none);
/// __reduce__ of libraries, devices and kernels: by kiln._pickling.
PyObject *kiln_pickle(PyObject *self, PyObject *none);
PyObject *kiln_closed(PyObject *self); // raises

// --------------------------------------------------------------------------------- memory.c

typedef struct kiln_element {
  const char *name;
  uint8_t size;
  const char *typestr;
  uint32_t own, accepted[5]; // KILN_IS; 0 ends
} kiln_element;
#define KILN_IS(kind, bits) ((uint32_t)(kind) << 16 | (bits))
/// NULL: no type of the kernel language.
const kiln_element *kiln_element_find(const char *name, size_t size);
extern const kiln_element kiln_elements[];
extern const size_t kiln_element_count;

typedef struct kiln_memory_object {
  kiln_child child;
  const kiln_element *element;
  size_t size;
  int rank;
  int64_t *shape; // owned
} kiln_memory_object;

// --------------------------------------------------------------------------------- driver_copies.c

typedef struct kiln_copy {
  void *device, *host;
  size_t size;
  kiln_stream stream;
  int index;
  bool is_in;
} kiln_copy;
/// Asks the driver of a GPU to copy when `stream` comes to it; 0, the driver's error, or -1 where the driver
/// has no such copies.
int kiln_copy_by_stream(const kiln_copy *copy, kiln_device_place place);
/// Which of several GPUs an address is of, as their driver says; -1: it does not, or there are no others.
int kiln_gpu_of_address(uint64_t address, kiln_device_place place);

// --------------------------------------------------------------------------------- array.c

typedef enum kiln_place {
#define PLACE(name, number, text, devices) KILN_PLACE_##name,
#include "python/extension/places.def"
#undef PLACE
} kiln_place;

/// An array somewhere, as long as what holds it.
typedef struct kiln_array {
  uint64_t address;
  uint32_t type; // KILN_IS
  int rank;
  const int64_t *shape, *strides;    // strides NULL: contiguous
  bool strides_are_bytes, is_tensor; // is_tensor: of PyTorch
  kiln_place place;
  int index;                       // of the GPU; -1: unknown
  const kiln_device_object *owner; // borrowed: of memory of ours; NULL
  const char *read_only;           // why it cannot be written; NULL: it can
  void *handle;                    // of a tensor that was read by it; good until other code runs
} kiln_array;

/// What keeps an array until it has been used.
typedef struct kiln_hold {
  enum { HOLDS_NOTHING, HOLDS_OBJECT, HOLDS_BUFFER, HOLDS_CHILD } kind;
  union {
    PyObject *object;
    Py_buffer buffer;
    kiln_child *child;
    int64_t extents[10]; // with HOLDS_NOTHING: of an array that nothing else has
  };
} kiln_hold;
void kiln_hold_drop(kiln_hold *hold);

/// The array that `value` is: 1, 0 where it speaks no protocol, -1 with an exception. `stream` is what will
/// use it; `device` waits for the stream of a __cuda_array_interface__ (may be NULL). Without
/// `wants_extents` a contiguous tensor may have no shape and no rank.
int kiln_array_of(PyObject *value, kiln_stream stream, kiln_device_object *device, bool wants_extents,
                  kiln_array *out, kiln_hold *hold);
bool kiln_array_is_contiguous(const kiln_array *array);
/// Raises why a pointer cannot have it.
void kiln_array_refuse_strides(const kiln_array *array);
/// Bytes.
size_t kiln_array_size(const kiln_array *array);
/// "f32"
PyObject *kiln_array_type_text(uint32_t type);
const char *kiln_place_name(kiln_place place);
/// Which devices can use memory there: kiln_device_place.
unsigned kiln_place_devices(kiln_place place);
/// From a capsule or the exchange.
bool kiln_array_from_dlpack(const dlpack_tensor *tensor, kiln_array *out);

// --------------------------------------------------------------------------------- torch.c

/// 1 with the array where `value` is exactly a torch.Tensor or Parameter, 0 where it is not, -1 with an
/// exception: it is negative, or a subclass that has no memory of its own. Without `wants_extents` what is
/// contiguous may have none, and no rank.
int kiln_torch_array(PyObject *value, bool wants_extents, kiln_array *out, kiln_hold *hold);
/// torch.float32 and the like, borrowed; NULL: PyTorch lacks it.
PyObject *kiln_torch_dtype(uint32_t type);
/// Whether the program uses PyTorch.
bool kiln_torch_is_used(void);
/// Whether it is exactly a torch.Tensor or Parameter, as far as a tensor was met before or PyTorch was asked
/// for.
bool kiln_torch_is_exact(PyObject *value);
/// Whether it is one of an element or more, contiguous, with memory of its own, and not negative: the
/// common case, read without more. No exception where it is not.
bool kiln_torch_dense(PyObject *value, kiln_array *out);
/// Whether a tensor, just read as `array`, may be written: false with an exception where autograd would not
/// know of it.
bool kiln_torch_may_write(PyObject *tensor, const kiln_array *array);
/// Whether it is a tensor of PyTorch, or kiln.strided of one.
bool kiln_torch_is(PyObject *value);
/// PyTorch's current stream of a device; false with an exception.
bool kiln_torch_stream(const kiln_device_object *device, kiln_stream *out);
/// A new tensor of so many bytes on the device; NULL with an exception.
PyObject *kiln_torch_bytes(const kiln_device_object *device, size_t bytes);
/// Tells PyTorch that `tensor` is in use on `stream`, which was given as `object` (a stream of PyTorch's, or
/// another).
bool kiln_torch_record(PyObject *tensor, const kiln_device_object *device, kiln_stream stream,
                       PyObject *object);
/// Tells autograd that `tensors`, a list, were written.
bool kiln_torch_wrote(PyObject *tensors);

// --------------------------------------------------------------------------------- handles.c

/// The types that PyTorch has names for (torch.c): torch.NAME.
typedef struct kiln_torch_type {
  const char *name;
  uint32_t type; // KILN_IS
} kiln_torch_type;
extern const kiln_torch_type kiln_torch_types[];
extern const size_t kiln_torch_type_count;

/// Finds how exact tensors are read by their handles, once: in their objects or by the descriptor of
/// `_cdata`. Where that cannot be proved, none is. `empty` (NULL: there is none): what PyTorch's compiled
/// graphs call for a new tensor on the current GPU.
void kiln_handles_find(bool is_hip, bool is_in_object, PyObject *cdata, PyObject *empty);
bool kiln_handles_are_read(void);
/// The array of an exact torch.Tensor or Parameter: false, and no exception, where another way has to tell.
bool kiln_handle_read(PyObject *tensor, kiln_array *out);
/// Of an exact tensor, where handles are read; or of the handle that an array has.
bool kiln_handle_requires_grad(PyObject *tensor);
bool kiln_handle_of_array_requires_grad(const kiln_array *array);
/// Of an array that has a handle: whether its memory holds the numbers with the other sign.
bool kiln_handle_is_negative(const kiln_array *array);
/// A tensor to be made, contiguous; who fills it in sets the rank and what follows.
typedef struct kiln_new_tensor {
  int32_t number, device_type, device_index;
  bool is_zeroed;
  void *handle;     // owned; NULL: not made yet
  PyObject *object; // owned: made by kiln_handle_begin(), instead of a handle; NULL
  int rank;
  int64_t sizes[8], strides[8];
} kiln_new_tensor;
/// False where another way has to make it.
bool kiln_handle_new_of(uint32_t type, bool is_zeroed, kiln_place place, int index, kiln_new_tensor *out);
/// What PyTorch was asked for last: the arguments, owned, and the extents that they say.
typedef struct kiln_asked {
  PyObject *args;
  int64_t sizes[8];
} kiln_asked;
/// Makes it of a GPU at once, where that is the shorter way; false with an exception. `last`: of the same
/// rank and `dtype`.
bool kiln_handle_begin(kiln_new_tensor *tensor, PyObject *dtype, kiln_asked *last);
/// Allocates what is not made, without the GIL, and says where; after false kiln_handle_drop() alone may
/// follow. Memory that is not there leaves a text of PyTorch's on stderr.
bool kiln_handle_make(kiln_new_tensor *tensor, void **data);
/// The tensor that was made, once.
PyObject *kiln_handle_give(kiln_new_tensor *tensor);
void kiln_handle_drop(kiln_new_tensor *tensor);
/// Whether autograd records what is done, and whether a mode of the program handles PyTorch's operations;
/// where handles are read.
bool kiln_handles_grad_is_enabled(void);
bool kiln_handles_has_mode(void);
/// Whether nothing of this thread (a mode, autocast, tracing, a transform, a profiler) stands between a call
/// of an operation of PyTorch's and what its tensors alone decide.
bool kiln_handles_thread_is_plain(void);
/// This thread is as new ones are but in inference mode: those like it are plain, too.
void kiln_handles_take_inference(void);
/// Raises the version of an exact tensor: false where another way has to.
bool kiln_handle_wrote(PyObject *tensor);

// --------------------------------------------------------------------------------- scalar.c

/// The bytes of a number as `element`, little-endian, at `out`; false with an exception, an OverflowError
/// where it is out of range. Unsigned scalars of NumPy of the element's size give their bits.
bool kiln_scalar_pack(const kiln_element *element, PyObject *value, uint8_t *out);

// --------------------------------------------------------------------------------- kernel.c

/// Arguments for which there is room on the stack.
enum { KILN_FEW = 16 };

typedef struct kiln_parameter {
  PyObject *name, *type; // owned texts
  const kiln_element *element;
  uint32_t offset, size;
  uint8_t rank, depth, access;
  bool has_size; // a pointer, of which the source states how many elements it needs
} kiln_parameter;

/// What the sizes of arrays were compared with and were found to suffice, in the last few of different
/// launches. Expressions read numbers alone, so these and the sizes decide.
enum { KILN_SIZES_KEPT = 4, KILN_SIZES_RUNS = 4, KILN_SIZES_WORDS = 64 };
typedef struct kiln_sizes_memo {
  bool is_able; // there is room for the numbers
  size_t run_count, next;
  struct {
    uint16_t at, words; // of the block, of 4 bytes: numbers that are next to each other
  } runs[KILN_SIZES_RUNS];
  struct {
    bool is_set;
    size_t bytes[KILN_FEW];
    uint32_t numbers[KILN_SIZES_WORDS];
  } kept[KILN_SIZES_KEPT];
} kiln_sizes_memo;

typedef struct kiln_kernel_object {
  PyObject_HEAD vectorcallfunc call;
  PyObject *dict, *weak;
  kiln_device_object *device;
  kiln_kernel *handle;
  PyObject *name, *params; // params: a tuple of Param, made when asked for
  PyObject *spare;         // owned: a list for the tensor that a launch writes, or NULL; see kiln_list_keep
  size_t block_size, count;
  bool uses_scratch;
  kiln_parameter *parameters; // owned
  kiln_sizes_memo *sizes;     // owned; NULL: no parameter has_size
} kiln_kernel_object;
PyObject *kiln_kernel_new(kiln_device_object *device, PyObject *name);

/// Launches with `values`, one a parameter; those that are NULL are pointers to the `made` tensors in order,
/// which are made here. 1; 0 where one cannot be made, and -1 with an exception.
int kiln_launch_making(kiln_kernel_object *k, PyObject *const *values, kiln_new_tensor *made, size_t count);

// --------------------------------------------------------------------------------- arguments.c

enum { KILN_MOST_BLOCK = 4096 };
/// The arguments of one launch.
typedef struct kiln_arguments {
  kiln_kernel_object *kernel; // borrowed
  kiln_stream stream;
  PyObject *stream_object;  // borrowed; NULL: none was given
  PyObject *grid_object;    // borrowed; NULL: the kernel's own
  PyObject *scratch_object; // borrowed: scratch=; NULL: none was given
  uint32_t grid[3];
  bool has_grid, has_tensors; // has_tensors: of PyTorch, on a GPU
  bool is_lenient;            // as Triton takes arguments: see kernel_launch_lenient
  PyObject *written;          // owned: a list of tensors of PyTorch, or NULL
  kiln_hold *holds;           // one a parameter, `held_count` of them set
  size_t held_count;
  PyObject **values; // borrowed, one a parameter
  size_t *bytes;     // one a parameter: of its array; KILN_SIZE_UNKNOWN. Read where the kernel has `sizes`
  size_t few_bytes[KILN_FEW];
  kiln_hold few_holds[KILN_FEW];
  PyObject *few_values[KILN_FEW];
  _Alignas(16) uint8_t block[KILN_MOST_BLOCK];
} kiln_arguments;
/// Fills `a`, whose `is_lenient` is set, from a call's arguments; false with an exception, and nothing to
/// deinit then.
bool kiln_arguments_init(kiln_arguments *a, kiln_kernel_object *kernel, PyObject *const *args, size_t count,
                         PyObject *names, const uint32_t *grid);
void kiln_arguments_deinit(kiln_arguments *a);
/// Launches with arguments that were filled, and deinits them; false with an exception.
bool kiln_arguments_launch(kiln_arguments *a);
/// Raises: the kernel has no such parameter; `is_call`: nor is it one of the keywords of a launch. Always false.
bool kiln_refuse_name(const kiln_kernel_object *k, PyObject *name, bool is_call);
/// How many launches of the process did not go through Python: of Variants and Runner.
extern unsigned long long kiln_launched;
/// Compares the sizes of arrays with what the kernel needs for these arguments; false with an exception.
bool kiln_arguments_fit(kiln_arguments *a);
/// Packs one argument at block + offset, what keeps it in `hold`; false with an exception that names the
/// parameter.
bool kiln_argument_pack(kiln_arguments *a, const kiln_parameter *p, PyObject *value, uint8_t *out,
                        kiln_hold *hold);
/// Puts the parameter's name before the text of what was raised.
void kiln_argument_name(const kiln_kernel_object *k, const kiln_parameter *p);
/// Lists of what a launch writes. To add makes a list where there is none; what a launch is done with may be
/// kept for the next, emptied to None, which only a list of one is.
bool kiln_list_add(PyObject **list, kiln_kernel_object *k, PyObject *value);
void kiln_list_keep(kiln_kernel_object *k, PyObject *list);
/// "grid: expected one to three integers" where it is none.
bool kiln_grid_of(kiln_kernel_object *kernel, PyObject *value, uint32_t *out);

// --------------------------------------------------------------------------------- scratch.c

/// Scratch memory of one launch.
typedef struct kiln_scratch {
  PyObject *tensor; // owned, or NULL
  kiln_hold hold;   // of what was given
  bool has_hold;
  void *address; // NULL: none
  size_t bytes;
} kiln_scratch;
/// The memory for a launch, or none; false with an exception. Dropped in any case, once the launch was made.
bool kiln_scratch_take(const kiln_arguments *a, kiln_scratch *out);
void kiln_scratch_drop(kiln_scratch *scratch);

// --------------------------------------------------------------------------------- launch_counter.c

/// Adds one to a Counter.
void kiln_count(PyObject *counter);

// --------------------------------------------------------------------------------- prepared.c

PyObject *kiln_prepare_new(kiln_kernel_object *kernel, PyObject *const *args, size_t count, PyObject *names);

// --------------------------------------------------------------------------------- differentiable.c

PyObject *kiln_recorded_type(PyObject *module, PyObject *base);

// --------------------------------------------------------------------------------- xla.c

/// Two capsules: the functions that XLA calls on the host and on a GPU.
PyObject *kiln_xla_targets(PyObject *module, PyObject *none);
/// _xla_call(kernels, values, grid or None): what a program has to hand to it, as an integer. `kernels` has
/// the kernel on each device or a text that says why there is none, `values` for each parameter a number, or
/// the number of the buffer.
PyObject *kiln_xla_call(PyObject *module, PyObject *args);

extern PyType_Spec kiln_library_spec, kiln_device_spec, kiln_memory_spec, kiln_stream_spec, kiln_kernel_spec,
    kiln_gridded_spec, kiln_prepared_spec, kiln_plan_spec, kiln_runner_spec, kiln_counter_spec,
    kiln_variants_spec, kiln_with_grid_spec, kiln_operation_spec, kiln_differentiable_spec, kiln_direct_spec;

#endif
