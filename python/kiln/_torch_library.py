# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A shared library of C with the operations of a bundle, for programs of PyTorch that have no Python, or not this package: what AOTInductor compiled,
torch.jit. It has the bundle in it, speaks PyTorch's stable interface for C (2.10 and newer) and libkiln, and needs no headers to be compiled."""
import ast
import json
import os
import subprocess
import tempfile

from ._paths import HERE
from ._operations import ACCUM, OUT, is_array

# By type of the kernel language: the numbers that PyTorch has for what is taken; the first is allocated.
_NUMBERS = {"f32": (6,), "f64": (7,), "f16": (5,), "bf16": (15,), "i1": (11,), "i8": (1, 0), "i16": (2, 27), "i32": (3, 28), "i64": (4, 29), "e4m3": (24,), "e5m2": (23,)}
_FLOATS = ("f16", "bf16", "f32", "f64")

_HEAD = r"""// Made by kiln.torch.library; the operations of a bundle for PyTorch.
#include <math.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

typedef struct { int status; char text[996]; uint32_t operation; } kiln_error;
extern int kiln_open_memory(const void *, size_t, void **, kiln_error *), kiln_device_open(void *, const char *, void **, kiln_error *),
    kiln_kernel_get(void *, const char *, const void *, void **, kiln_error *), kiln_launch_packed(void *, void *, const void *, size_t, kiln_error *);
extern size_t kiln_block_size(const void *);

// PyTorch's stable interface: every function gives 0 where it worked; values on the stack are 64 bits, tensors are owned.
typedef void *tensor;
extern int aoti_torch_library_init_fragment(const char *, const char *, uint32_t, void **), aoti_torch_library_init_impl(const char *, const char *, const char *, uint32_t, void **),
    aoti_torch_library_def(void *, const char *), aoti_torch_library_impl(void *, const char *, void (*)(uint64_t *, uint64_t, uint64_t)),
    aoti_torch_get_data_ptr(tensor, void **), aoti_torch_get_dim(tensor, int64_t *), aoti_torch_get_sizes(tensor, int64_t **), aoti_torch_get_strides(tensor, int64_t **),
    aoti_torch_get_dtype(tensor, int32_t *), aoti_torch_get_device_type(tensor, int32_t *), aoti_torch_get_device_index(tensor, int32_t *),
    aoti_torch_is_contiguous(tensor, bool *), aoti_torch_delete_tensor_object(tensor), aoti_torch_zero_(tensor),
    aoti_torch_empty_strided(int64_t, const int64_t *, const int64_t *, int32_t, int32_t, int32_t, tensor *);
extern __attribute__((weak)) int aoti_torch_get_current_cuda_stream(int32_t, void **);
extern _Noreturn void refuse(const char *) __asm__("_ZSt21__throw_runtime_errorPKc"); // of libstdc++, which PyTorch brings

typedef struct { const char *name; char kind; uint8_t rank, input; bool is_zeroed, is_written; uint16_t offset, bytes; int32_t types[2]; const char *type; } parameter;
typedef struct { const char *name; const parameter *parameters; int count, outputs; void (*shapes)(const int64_t *, int64_t (*)[8]); int number; } kernel;
enum { DEVICES = 65, MOST = 64 };

extern const char bundle[], bundle_end[];
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static void *opened, *devices[DEVICES], *kernels[KERNELS][DEVICES];

static bool has_types(const kernel *k, const uint64_t *stack) {
  for (int i = 0; i < k->count; i++) {
    const parameter *p = &k->parameters[i];
    int32_t type = -1;
    if (p->kind == 't' && (aoti_torch_get_dtype((tensor)stack[p->input], &type) || (type != p->types[0] && type != p->types[1]))) return false;
  }
  return true;
}

typedef struct { int32_t type, index; } place;

static bool place_of(tensor t, place *out) {
  if (aoti_torch_get_device_type(t, &out->type) || aoti_torch_get_device_index(t, &out->index)) return false;
  if (!out->type) out->index = 0; // the CPU is one
  return true;
}

static const char *name_of(place at, char *name, size_t size) {
  if (at.type > 1) snprintf(name, size, "another kind of device");
  else snprintf(name, size, at.type ? "%s:%d" : "cpu", GPU, (int)at.index);
  return name;
}

static void *kernel_on(const kernel *k, place where, kiln_error *err) {
  int at = where.type ? where.index + 1 : 0, status = at >= DEVICES;
  char name[32] = "host";
  if (where.type) name_of(where, name, sizeof name);
  if (status) snprintf(err->text, sizeof err->text, "%s: a tensor of %s; at most %d devices are opened", k->name, name, DEVICES - 1);
  if (status) return NULL;
  pthread_mutex_lock(&mutex);
  if (!opened) status = kiln_open_memory(bundle, (size_t)(bundle_end - bundle), &opened, err);
  if (!status && !devices[at]) status = kiln_device_open(opened, name, &devices[at], err);
  if (!status && !kernels[k->number][at]) status = kiln_kernel_get(devices[at], k->name, NULL, &kernels[k->number][at], err);
  pthread_mutex_unlock(&mutex);
  return status ? NULL : kernels[k->number][at];
}

// An empty text where it fits.
static void pack(const kernel *k, const parameter *p, tensor t, place device, uint8_t *out, char *why, size_t size) {
  int64_t rank = 0, *sizes = NULL, *strides = NULL;
  void *data = NULL;
  place its = {0, 0};
  char here[32], there[32];
  bool is_contiguous = true;
  if (aoti_torch_get_data_ptr(t, &data) || aoti_torch_get_dim(t, &rank) || aoti_torch_get_sizes(t, &sizes) || aoti_torch_get_strides(t, &strides) ||
      !place_of(t, &its) || aoti_torch_is_contiguous(t, &is_contiguous))
    snprintf(why, size, "%s: argument '%s': a tensor that has no memory", k->name, p->name);
  else if (its.type != device.type || its.index != device.index)
    snprintf(why, size, "%s: argument '%s' (%s): expected a tensor of %s, found one of %s", k->name, p->name, p->type, name_of(device, here, sizeof here),
             name_of(its, there, sizeof there));
  else if (p->rank && rank != p->rank) snprintf(why, size, "%s: argument '%s' (%s): expected a tensor of rank %d, found %d", k->name, p->name, p->type, p->rank, (int)rank);
  else if (!p->rank && !is_contiguous) snprintf(why, size, "%s: argument '%s' (%s): expected a contiguous tensor", k->name, p->name, p->type);
  memcpy(out, &data, 8);
  bool is_empty = false, is_repeated = false;
  for (int i = 0; i < p->rank && !*why; i++) is_empty |= !sizes[i], is_repeated |= sizes[i] > 1 && !strides[i];
  if (p->is_written && is_repeated && !is_empty)
    snprintf(why, size, "%s: argument '%s' (%s): the kernel writes it, but several of its elements are one place in memory", k->name, p->name, p->type);
  for (int i = 0; i < p->rank && !*why; i++) {
    memcpy(out + 8 + 8 * i, &sizes[i], 8);
    memcpy(out + 8 + 8 * (p->rank + i), &strides[i], 8);
  }
}

// To the nearest bf16, ties to even, at once: the f32 before it is rounded to odd.
static uint16_t bf16_of(double number) {
  float single = (float)number;
  uint32_t bits;
  if (single != single || single - single != 0) return memcpy(&bits, &single, 4), (uint16_t)(bits >> 16 | (single != single ? 0x40 : 0));
  memcpy(&bits, &single, 4);
  if ((double)single != number) {
    if ((single < 0 ? -(double)single : (double)single) > (number < 0 ? -number : number)) bits--;
    bits |= 1;
  }
  return (uint16_t)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

// An empty text where the value is one of the type.
static void pack_number(const kernel *k, const parameter *p, uint64_t value, uint8_t *out, char *why, size_t size) {
  double number, rounded = 0;
  memcpy(&number, &value, 8);
  float single = (float)number;
  _Float16 half = (_Float16)number;
  uint16_t brain = bf16_of(number);
  if (p->kind == 'd') memcpy(out, &number, 8);
  else if (p->kind == 'f') memcpy(out, &single, 4), rounded = (double)single;
  else if (p->kind == 'h') memcpy(out, &half, 2), rounded = (double)half;
  else if (p->kind == 'b') memcpy(out, &brain, 2), rounded = (double)single;
  else {
    int64_t whole = (int64_t)value, most = p->kind == '1' ? 1 : p->kind == '8' ? 255 : INT64_MAX >> (64 - 8 * p->bytes), least = p->kind == '1' ? 0 : p->kind == '8' ? -128 : -most - 1;
    if (whole < least || whole > most)
      snprintf(why, size, "%s: argument '%s' (%s): %lld is not a value of type %s (%lld to %lld)", k->name, p->name, p->type, (long long)whole, p->type, (long long)least, (long long)most);
    memcpy(out, &value, p->bytes);
  }
  if (isinf(rounded) && !isinf(number))
    snprintf(why, size, "%s: argument '%s' (%s): %.17g is not a value of type %s", k->name, p->name, p->type, number, p->type);
}

static bool allocate(const parameter *p, const int64_t *sizes, int32_t type, int32_t index, tensor *out) {
  int64_t strides[8], step = 1;
  for (int i = p->rank; i-- > 0; step *= sizes[i]) strides[i] = step;
  return !aoti_torch_empty_strided(p->rank, sizes, strides, p->types[0], type, type ? index : 0, out) && (!p->is_zeroed || !aoti_torch_zero_(*out));
}

static void run(const kernel *const *instances, int count, uint64_t *stack, uint64_t inputs) {
  const kernel *k = NULL;
  for (int i = 0; i < count && !k; i++) k = has_types(instances[i], stack) ? instances[i] : NULL;
  char why[1200] = "";
  uint8_t block[4096] = {0};
  tensor outputs[MOST];
  int64_t integers[MOST], shapes[MOST][8];
  int made = 0;
  place at = {-1, 0};
  if (!k) snprintf(why, sizeof why, "%s: expected tensors of other types", instances[0]->name);
  else if (stack[inputs - 1]) snprintf(why, sizeof why, "%s: the grid is the kernel's own here", k->name);
  for (int i = 0; k && i < k->count && at.type < 0; i++)
    if (k->parameters[i].kind == 't' && !place_of((tensor)stack[k->parameters[i].input], &at)) at = (place){0, 0};
  for (int i = 0; k && i < MOST && i < (int)inputs; i++) integers[i] = (int64_t)stack[i];
  if (!*why && k->shapes) k->shapes(integers, shapes);
  for (int i = 0; !*why && i < k->count; i++) {
    const parameter *p = &k->parameters[i];
    uint8_t *out = block + p->offset;
    if (p->kind == 't') pack(k, p, (tensor)stack[p->input], at, out, why, sizeof why);
    else if (p->kind != 'o') pack_number(k, p, stack[p->input], out, why, sizeof why);
    else if (!allocate(p, shapes[p->input], at.type, at.index, &outputs[p->input])) snprintf(why, sizeof why, "%s: '%s' cannot be allocated", k->name, p->name);
    else {
      made++;
      void *data = NULL;
      aoti_torch_get_data_ptr(outputs[p->input], &data);
      memcpy(out, &data, 8);
    }
  }
  kiln_error err = {0};
  void *stream = NULL;
  if (!*why && at.type && aoti_torch_get_current_cuda_stream) aoti_torch_get_current_cuda_stream(at.index, &stream);
  void *found = *why ? NULL : kernel_on(k, at, &err);
  if (!*why && (!found || kiln_launch_packed(found, stream, block, kiln_block_size(found), &err))) snprintf(why, sizeof why, "%s", err.text);
  const kernel *any = k ? k : instances[0];
  for (int i = 0; i < any->count; i++)
    if (any->parameters[i].kind == 't') aoti_torch_delete_tensor_object((tensor)stack[any->parameters[i].input]);
  if (*why) {
    for (int i = 0; i < made; i++) aoti_torch_delete_tensor_object(outputs[i]);
    refuse(why);
  }
  for (int i = 0; i < k->outputs; i++) stack[i] = (uint64_t)(uintptr_t)outputs[i];
}

static int64_t cdiv(int64_t a, int64_t b) { return a / b + (a % b != 0 && (a < 0) == (b < 0)); }
static int64_t min(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t max(int64_t a, int64_t b) { return a > b ? a : b; }
"""


def _text(value):
    return json.dumps(value)


def _extent(node, inputs):
    """A launch expression as one of C over the integers of the stack."""
    if isinstance(node, ast.Constant):
        return "INT64_C(%d)" % node.value
    if isinstance(node, ast.Name):
        return "i[%d]" % inputs[node.id]
    if isinstance(node, ast.UnaryOp):
        return "(-%s)" % _extent(node.operand, inputs)
    if isinstance(node, ast.BinOp):
        sign = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.Mod: "%"}[type(node.op)]
        return "(%s %s %s)" % (_extent(node.left, inputs), sign, _extent(node.right, inputs))
    return "%s(%s)" % (node.func.id, ", ".join(_extent(one, inputs) for one in node.args))


def _kernel(number, interface):
    """The tables of one kernel."""
    inputs = {param.name: at for at, param in enumerate(interface.taken)}
    outputs = list(interface.returned)
    rows, shapes = [], []
    for param in interface.params:
        kinds = _NUMBERS[param.scalar]
        is_output = param.name in outputs
        rank = len(interface.returned[param.name][1]) if is_output else param.rank
        if is_output and param.rank:
            raise ValueError("%s: '%s' is a view that is returned; a library of C allocates for pointers only" % (interface.name, param.name))
        letters = {"f16": "h", "bf16": "b", "f32": "f", "f64": "d", "i1": "1", "e4m3": "8", "e5m2": "8"}
        kind = "o" if is_output else "t" if is_array(param) else letters.get(param.scalar if not param.depth else "", "i")
        rows.append("{%s, '%s', %d, %d, %s, %s, %d, %d, {%d, %d}, %s}" % (
            _text(param.name), kind, rank, outputs.index(param.name) if is_output else inputs[param.name],
            *("true" if one else "false" for one in (param.access == ACCUM, param.access >= OUT)), param.offset, param.size, kinds[0], kinds[-1], _text(param.type)))
    for at, (_, extents) in enumerate(interface.returned.values()):
        shapes += ["s[%d][%d] = %s;" % (at, i, _extent(one, inputs)) for i, one in enumerate(extents)]
    text = "static const parameter parameters_%d[] = {%s};\n" % (number, ", ".join(rows))
    if shapes:
        text += "static void shapes_%d(const int64_t *i, int64_t (*s)[8]) { (void)i; %s }\n" % (number, " ".join(shapes))
    return text + "static const kernel kernel_%d = {%s, parameters_%d, %d, %d, %s, %d};\n" % (
        number, _text(interface.name), number, len(interface.params), len(outputs), "shapes_%d" % number if shapes else "NULL", number)


def source(interfaces, operations, namespace, bundle, gpu):
    """The text: `interfaces` of all kernels, `operations` {name: (schema, [names of the kernels])}."""
    numbers = {name: i for i, name in enumerate(interfaces)}
    parts = ["#define KERNELS %d\n#define GPU %s\n" % (len(interfaces), _text(gpu)), _HEAD]
    parts += [_kernel(numbers[name], one) for name, one in interfaces.items()]
    lines = []
    for at, (name, (schema, kernels)) in enumerate(operations.items()):
        parts.append("static const kernel *const instances_%d[] = {%s};\n" % (at, ", ".join("&kernel_%d" % numbers[one] for one in kernels)))
        parts.append("static void operation_%d(uint64_t *stack, uint64_t inputs, uint64_t outputs) { (void)outputs; run(instances_%d, %d, stack, inputs); }\n" % (at, at, len(kernels)))
        lines.append("  failed |= aoti_torch_library_def(defined, %s);\n" % _text(name + schema))
        lines += ["  failed |= aoti_torch_library_impl(%s, %s, operation_%d);\n" % (key, _text(name), at) for key in ("cpu", "cuda")]
    parts.append('__asm__(".section .rodata\\n.balign 64\\nbundle: .incbin %s\\nbundle_end: .byte 0\\n.previous\\n");\n' % _text(bundle).replace("\\", "\\\\").replace('"', '\\"'))
    parts.append("__attribute__((constructor)) static void begin(void) {\n  void *defined, *cpu, *cuda;\n"
                 "  int failed = aoti_torch_library_init_fragment(%s, __FILE__, 1, &defined) | aoti_torch_library_init_impl(%s, \"CPU\", __FILE__, 1, &cpu) |\n"
                 "               aoti_torch_library_init_impl(%s, \"CUDA\", __FILE__, 1, &cuda);\n" % ((_text(namespace),) * 3))
    parts += lines + ['  if (failed) refuse("the operations of a bundle cannot be registered with PyTorch");\n}\n']
    return "".join(parts)


def build(text, output, compiler, pytorch):
    """Compiles it against libkiln, which is found at its place in this package, and PyTorch's libraries in a folder."""
    with tempfile.TemporaryDirectory(prefix="kiln-") as folder:
        path = os.path.join(folder, "operations.c")
        with open(path, "w") as file:
            file.write(text)
        libkiln = os.path.realpath(os.path.join(HERE, "libkiln.so.0"))
        torchs = [os.path.join(pytorch, name) for name in ("libtorch_cpu.so", "libtorch_cuda.so", "libtorch_hip.so")]
        command = [*compiler, "-std=gnu11", "-O2", "-fPIC", "-fexceptions", "-shared", "-o", output, path, "-Wl,--no-as-needed", libkiln,
                   *filter(os.path.exists, torchs), "-l:libstdc++.so.6", "-Wl,-rpath,%s:%s" % (os.path.dirname(libkiln), pytorch)]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if done.returncode:
            raise OSError("%s: exit %d\n%s" % (" ".join(command), done.returncode, done.stdout.decode(errors="replace")))
