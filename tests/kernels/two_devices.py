#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Two GPUs in one process, on a machine that has two: two_devices.py PACKAGE BUNDLE [SEED [OPERATIONS]]

PACKAGE is the folder with the package `kiln` and its libkiln (build/<config>/python with its links followed, or an unpacked wheel), BUNDLE is made by

    kiln build tests/kernels/two_devices.kiln -t sm_90a -o two.kbundle

This file and these two are all that is needed, with CUDA's driver; PyTorch is used where it is, which takes no compiler. Every mix of two devices is either right,
on the device of the kernel and its data, or refused by the argument's name and both devices, and what was current in the thread is current afterwards: cuda:0, cuda:1
and no context at all. Prints what failed, and `N passed, N failed, N skipped`.
"""
import array
import ctypes
import os
import random
import re
import sys
import threading
import traceback
import types

if len(sys.argv) < 3:
    sys.exit(__doc__)
sys.path.insert(0, os.path.abspath(sys.argv[1]))
BUNDLE = os.path.abspath(sys.argv[2])
SEED = int(sys.argv[3]) if len(sys.argv) > 3 else 20261126
OPERATIONS = int(sys.argv[4]) if len(sys.argv) > 4 else 2000
HERE, THERE, N = "cuda:0", "cuda:1", 5000
counts = {"passed": 0, "failed": 0, "skipped": 0}

import kiln  # noqa: E402

try:
    import torch
except ImportError:
    torch = None
try:
    import triton.language as tl
except ImportError:
    tl = None


class Skipped(Exception):
    pass


def check(holds, text):
    if not holds:
        raise AssertionError(text)


def exactly(function, *arguments, **named):
    """Calls it: what is current in the thread is so afterwards, also where it raises."""
    before = cuda.current(), torch and torch.cuda.is_initialized() and torch.cuda.current_device()
    try:
        return function(*arguments, **named)
    finally:
        after = cuda.current(), torch and torch.cuda.is_initialized() and torch.cuda.current_device()
        check(after == before, "context and PyTorch's device were %s, now %s; the contexts of the devices are %s" % (before, after, cuda.contexts))


class Watched:
    """A kernel or a prepared launch, called exactly."""

    def __init__(self, launch):
        self.launch = launch

    def __call__(self, *arguments, **named):
        return exactly(self.launch, *arguments, **named)

    def prepare(self, *arguments):
        return Watched(exactly(self.launch.prepare, *arguments))

    def preload(self):
        exactly(self.launch.preload)

    def set(self, *arguments):
        exactly(self.launch.set, *arguments)


def refused(errors, text, function, *arguments, **named):
    """It is refused, and the message has `text`, a regular expression."""
    try:
        exactly(function, *arguments, **named)
    except errors as error:
        check(re.search(text, str(error)), "expected a refusal like\n    %s\nfound\n    %s: %s" % (text, type(error).__name__, error))
    else:
        raise AssertionError("expected a refusal like\n    %s\nit went through" % text)


def other(name):
    return THERE if name == HERE else HERE


# ------------------------------------------------------------------------------------------- current

class Cuda:
    """What of the driver this asks: contexts."""

    def __init__(self):
        try:
            self.driver = ctypes.CDLL("libcuda.so.1")
        except OSError as error:
            sys.exit("two_devices.py: %s" % error)
        count = ctypes.c_int()
        check(not self.driver.cuInit(0) and not self.driver.cuDeviceGetCount(ctypes.byref(count)), "the driver does not start")
        if count.value < 2:
            sys.exit("two_devices.py: expected two GPUs, found %d" % count.value)
        self.contexts = []
        for device in range(2):
            context = ctypes.c_void_p()
            check(not self.driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), device), "no context of device %d" % device)
            self.contexts.append(context.value)

    def current(self):
        context = ctypes.c_void_p()
        check(not self.driver.cuCtxGetCurrent(ctypes.byref(context)), "cuCtxGetCurrent")
        return context.value

    def push(self, device):
        check(not self.driver.cuCtxPushCurrent_v2(ctypes.c_void_p(self.contexts[device])), "cuCtxPushCurrent")

    def pop(self):
        context = ctypes.c_void_p()
        check(not self.driver.cuCtxPopCurrent_v2(ctypes.byref(context)), "cuCtxPopCurrent")


cuda = Cuda()


class Current:
    """A part of the program with one device's context current (None: what was), which is so at its end as well."""

    def __init__(self, which):
        self.which = which

    def __enter__(self):
        if self.which is not None:
            cuda.push(self.which)
        self.before = cuda.current()

    def __exit__(self, kind, *_):
        now = cuda.current()
        if self.which is not None:
            cuda.pop()
        if kind is None:
            check(now == self.before, "context %s was current, now %s; those of the devices are %s" % (self.before, now, cuda.contexts))


# --------------------------------------------------------------------------------------------- tests

library = kiln.Library(BUNDLE)
devices = {name: library.device(name) for name in (HERE, THERE)}
add_one = {name: Watched(one.kernel("add_one")) for name, one in devices.items()}
values = [float(i % 1000) for i in range(N)]
tests = []


def test(function):
    tests.append(function)
    return function


def test_everywhere(function):
    """A test with no context current, as far as PyTorch has left none, and with each device's."""
    def run():
        for which in (None, 0, 1):
            with Current(which):
                function()
    run.__name__ = function.__name__
    return test(run)


def filled(name):
    return devices[name].copy(array.array("f", values))


def floats(memory):
    return memoryview(bytes(memory)).cast("f").tolist()


def is_added(memory, count=N):
    check(floats(memory)[:count] == [one + 1 for one in values[:count]], "wrong results")


@test_everywhere
def each_its_own():
    """The same kernel on each device, first launches and later ones, on default and other streams."""
    for _ in range(2):
        for name, device in devices.items():
            x, y = filled(name), device.memory(N, "f32")
            add_one[name](x, y, N)
            device.sync()
            is_added(y)
            with device.stream() as stream:
                y.fill(0)
                add_one[name](x, y, N, stream=stream)
                stream.sync()
                is_added(y)
                y.fill(0)
                add_one[name](x, y, N, stream=stream.handle)
                stream.sync()
                is_added(y)


@test_everywhere
def memory_of_the_other():
    for name in devices:
        mine, its = filled(name), filled(other(name))
        both = "expected memory of %s, found memory of %s" % (name, other(name))
        refused(TypeError, r"add_one: argument 'x' \(\*f32\): " + both, add_one[name], its, mine, N)
        refused(TypeError, r"add_one: argument 'y' \(\*f32\): " + both, add_one[name], mine, its, N)
        check(floats(mine) == values and floats(its) == values, "a refused launch ran")


@test_everywhere
def an_interface_of_the_other():
    """An array by __cuda_array_interface__, which does not say whose it is."""
    for name, device in devices.items():
        y = device.memory(N, "f32")
        mine, its = (types.SimpleNamespace(memory=one, __cuda_array_interface__=one.__cuda_array_interface__) for one in (filled(name), filled(other(name))))
        add_one[name](mine, y, N)
        device.sync()
        is_added(y)
        refused(TypeError, "argument 'x'.*expected memory of %s, found memory of gpu%s" % (name, other(name)[4:]), add_one[name], its, y, N)


@test_everywhere
def a_stream_of_the_other():
    for name, device in devices.items():
        x, y = filled(name), device.memory(N, "f32")
        y.fill(0)
        prepared = add_one[name].prepare(x, y, N)
        with devices[other(name)].stream() as stream:
            both = "expected a stream of %s, found one of %s" % (name, other(name))
            refused(TypeError, "argument 'stream': " + both, add_one[name], x, y, N, stream=stream)
            refused(TypeError, "argument 'stream': " + both, prepared, stream=stream)
            refused(TypeError, "argument 'stream': " + both, device.sync, stream)
            refused(TypeError, "argument 'stream': " + both, x.copy_in, array.array("f", values), stream=stream)
            # Plain handles are refused by libkiln, after the driver has refused them.
            for given in (stream.handle, types.SimpleNamespace(cuda_stream=stream.handle)):
                refused(kiln.Error, "add_one.*" + both, add_one[name], x, y, N, stream=given)
                refused(kiln.Error, "add_one.*" + both, prepared, stream=given)
            device.sync(stream.handle)  # which may be waited for
        check(floats(y) == [0.0] * N, "a refused launch ran")
        for special in (1, 2):  # the driver's names of the default streams are of any device
            y.fill(0)
            add_one[name](x, y, N, stream=special)
            device.sync(special)
            is_added(y)


@test_everywhere
def prepared_launches():
    held = {name: (filled(name), device.memory(N, "f32")) for name, device in devices.items()}
    prepared = {name: add_one[name].prepare(*held[name], N) for name in devices}
    for name in devices:
        refused(TypeError, "argument 'x'.*expected memory of %s, found memory of %s" % (name, other(name)), prepared[name].set, "x", held[other(name)][0])
    for count in (N, 100, N - 1):
        for name, device in devices.items():
            held[name][1].fill(0)
            prepared[name].set("n", count)
            prepared[name]()
        for name, device in devices.items():
            device.sync()
            is_added(held[name][1], count)


@test_everywhere
def copies_by_streams():
    for name, device in devices.items():
        there, given, back = device.memory(N, "f32"), array.array("f", values), array.array("f", bytes(4 * N))
        with device.stream() as stream:
            there.copy_in(given, stream=stream)
            add_one[name](there, there, N, stream=stream)
            there.copy_out(back, stream=stream)
            stream.sync()
        check(back.tolist() == [one + 1 for one in values], "wrong results")


@test_everywhere
def tensor_maps():
    """Products whose code has tensor maps: each device encodes its own."""
    size = 256
    for name, device in devices.items():
        ones, c = device.copy(array.array("H", [0x3F80] * (size * size)), "bf16"), device.memory(size * size, "f32")
        product = Watched(device.kernel("product"))
        for _ in range(2):
            c.fill(0)
            product(ones, ones, c, size, size, size)
            device.sync()
            check(floats(c) == [float(size)] * (size * size), "wrong results on %s" % name)
        its = devices[other(name)].memory(size * size, "f32")
        refused(TypeError, "argument 'c'.*expected memory of %s, found memory of %s" % (name, other(name)), product, ones, ones, its, size, size, size)


@test_everywhere
def closed_while_the_other_goes_on():
    for name in devices:
        with kiln.Library(BUNDLE) as second:
            device = second.device(name)
            x, kernel = device.copy(array.array("f", values)), Watched(device.kernel("add_one"))
            kernel(x, x, N)
            device.sync()
            # Another library sees the same device: memory of either is the other's as well.
            add_one[name](x, x, N)
            devices[name].sync()
            check(floats(x) == [one + 2 for one in values], "wrong results")
            device.close()
            y = filled(other(name))
            add_one[other(name)](y, y, N)
            devices[other(name)].sync()
            is_added(y)


def in_threads(work, count=4):
    """work(0), ... in threads; raises what they raise."""
    failures = []

    def run(number):
        try:
            work(number)
        except BaseException:
            failures.append("thread %d\n%s" % (number, traceback.format_exc()))
    threads = [threading.Thread(target=run, args=(i,)) for i in range(count)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    check(not failures, "\n".join(failures))


def draw(seed, count):
    """Drawn operations in one thread, whatever it has current."""
    random_ = random.Random(seed)
    held = {name: [[filled(name), list(values)] for _ in range(3)] for name in devices}
    streams = {name: [device.stream(), device.stream()] for name, device in devices.items()}
    for at in range(count):
        name, which = random_.choice([HERE, THERE]), random_.choice([None, 0, 1])
        x, y = random_.choice(held[name]), random_.choice(held[name])
        stream, n = random_.choice([None, *streams[name]]), random_.randrange(1, N + 1)
        with Current(which):
            kind = random_.randrange(8)
            if kind == 0:
                refused(TypeError, "expected memory of %s, found memory of %s" % (name, other(name)), add_one[name], random_.choice(held[other(name)])[0], y[0], n)
            elif kind == 1:
                refused(kiln.Error, "expected a stream of %s, found one of %s" % (name, other(name)), add_one[name], x[0], y[0], n,
                        stream=random_.choice(streams[other(name)]).handle)
            elif kind == 2:
                y[0].copy_in(array.array("f", values))
                y[1] = list(values)
            elif kind == 3:
                y[0].close()
                y[0], y[1] = devices[name].memory(N, "f32"), [0.0] * N
                y[0].fill(0)
            else:
                if kind == 4:
                    add_one[name].prepare(x[0], y[0], n)(stream=stream)
                else:
                    add_one[name](x[0], y[0], n, stream=stream)
                devices[name].sync(stream)
                y[1][:n] = [one + 1 for one in x[1][:n]]
            if random_.random() < 0.2 or at == count - 1:
                check(floats(y[0]) == y[1], "operation %d on %s: wrong results" % (at, name))
    for name in devices:
        for memory, expected in held[name]:
            check(floats(memory) == expected, "at the end, on %s: wrong results" % name)


@test
def drawn_in_threads():
    print("drawn: seeds %d to %d, %d operations each" % (SEED, SEED + 3, OPERATIONS // 4))
    in_threads(lambda number: draw(SEED + number, OPERATIONS // 4))


# ------------------------------------------------------------------------------------------- PyTorch

def torch_test(function):
    function.wants_torch = True
    return test(function)


def on_each(run):
    """Runs it for each device of the data, with each device PyTorch's current one."""
    for current in (0, 1):
        with torch.cuda.device(current):
            for name in devices:
                run(name, torch.device(name))
                check(torch.cuda.current_device() == current, "PyTorch's current device is %d, was %d" % (torch.cuda.current_device(), current))


def test_on_each(function):
    def run():
        on_each(function)
    run.__name__ = function.__name__
    return torch_test(run)


@test_on_each
def tensors(name, device):
    x, y = torch.arange(N, dtype=torch.float32, device=device), torch.zeros(N, device=device)
    add_one[name](x, y, N)
    check(torch.equal(y, x + 1), "wrong results on %s" % name)
    its = torch.zeros(N, device=other(name))
    both = "expected memory of %s, found memory of %s" % (name, other(name))
    refused(TypeError, "argument 'x'.*" + both, add_one[name], its, y, N)
    refused(TypeError, "argument 'y'.*" + both, add_one[name], x, its, N)
    refused(TypeError, "argument 'x'.*expected memory of %s, found memory of host" % name, add_one[name], torch.zeros(N), y, N)
    check(not its.any(), "a refused launch ran")


@test_on_each
def streams_of_pytorch(name, device):
    """Launches go to PyTorch's current stream of the kernel's device, and to a stream that is given; one of the other device is refused."""
    x, y = torch.arange(N, dtype=torch.float32, device=device), torch.zeros(N, device=device)
    stream, its = torch.cuda.Stream(device=device), torch.cuda.Stream(device=other(name))
    stream.wait_stream(torch.cuda.current_stream(device))
    add_one[name](x, y, N, stream=stream)
    stream.synchronize()
    check(torch.equal(y, x + 1), "wrong results on %s" % name)
    both = "expected a stream of %s, found one of %s" % (name, other(name))
    prepared = add_one[name].prepare(x, y, N)
    y.zero_()
    for given in (its, torch.cuda.default_stream(other(name))):
        refused(TypeError, both, add_one[name], x, y, N, stream=given)
        refused(TypeError, both, prepared, stream=given)
    torch.cuda.synchronize(device)
    check(not y.any(), "a refused launch ran")
    with torch.cuda.stream(stream):  # makes its device current for PyTorch
        z = torch.zeros(N, device=device)
        torch.cuda._sleep(20_000_000)
        z.add_(x)
        add_one[name](z, z, N)
        z.add_(x)
    stream.synchronize()
    check(torch.equal(z, 2 * x + 1), "the launch did not go to the current stream of %s" % name)
    prepared()
    torch.cuda.synchronize(device)
    check(torch.equal(y, x + 1), "wrong results on %s" % name)


@torch_test
def the_current_stream_of_each():
    """Both devices have a current stream of their own at once."""
    streams = {name: torch.cuda.Stream(device=name) for name in devices}
    made = {name: torch.zeros(N, device=name) for name in devices}
    torch.cuda.synchronize(HERE), torch.cuda.synchronize(THERE)
    with torch.cuda.stream(streams[HERE]), torch.cuda.stream(streams[THERE]):
        for name in (HERE, THERE, THERE, HERE):
            with torch.cuda.device(name):
                torch.cuda._sleep(10_000_000)
                made[name].add_(1)
            add_one[name](made[name], made[name], N)
    for name in devices:
        streams[name].synchronize()
        check(torch.equal(made[name], torch.full_like(made[name], 4)), "wrong order on %s" % name)


@torch_test
def operations():
    """torch.ops on tensors of each device, derivatives too."""
    import kiln.torch
    ops = kiln.torch.register(BUNDLE, namespace="two_devices")

    def run(name, device):
        x = torch.arange(N, dtype=torch.float32, device=device)
        for _ in range(3):
            y = exactly(ops.scaled, 0.5, x, N)
            check(y.device == device and torch.equal(y, 0.5 * x), "scaled on %s" % name)
        z = torch.zeros(N, device=device)
        exactly(ops.add_one, x, z, N)
        check(torch.equal(z, x + 1), "add_one on %s" % name)
        leaf = x.clone().requires_grad_()
        ops.scaled(3.0, leaf, N).sum().backward()
        check(leaf.grad.device == device and torch.equal(leaf.grad, torch.full_like(x, 3)), "derivatives on %s" % name)
        refused(Exception, "argument 'y'.*expected memory of %s, found memory of %s" % (name, other(name)), ops.add_one, x, torch.zeros(N, device=other(name)), N)
        refused(Exception, "argument 'y'.*expected memory of %s, found memory of host" % name, ops.add_one, x, torch.zeros(N), N)
    on_each(run)


@test_on_each
def products(name, device):
    product = Watched(devices[name].kernel("product"))
    for m, n, k in ((256, 384, 512), (200, 96, 136), (64, 64, 50)):
        a = torch.randn(m, k, device=device, dtype=torch.bfloat16)
        b = torch.randn(n, k, device=device, dtype=torch.bfloat16)
        c = torch.full((m, n), float("nan"), device=device)
        product(a, b, c, m, n, k)
        torch.testing.assert_close(c, a.float() @ b.float().t(), rtol=1e-3, atol=1e-3 * k)


@torch_test
def graphs():
    """A graph captured on one device, replayed after a launch on the other."""
    for name in devices:
        device = torch.device(name)
        with torch.cuda.device(device):
            x, y = torch.zeros(N, device=device), torch.zeros(N, device=device)
            add_one[name].preload()
            stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                graph.capture_begin(capture_error_mode="thread_local")
                add_one[name](x, y, N)
                add_one[name](y, x, N)
                graph.capture_end()
            torch.cuda.current_stream().wait_stream(stream)
            check(not x.any() and not y.any(), "a captured launch ran")
        its = torch.zeros(N, device=other(name))
        add_one[other(name)](its, its, N)
        for _ in range(3):
            graph.replay()
        check(torch.equal(x, torch.full_like(x, 6)), "the graph on %s" % name)
        check(torch.equal(its, torch.ones_like(its)), "the launch on %s" % other(name))


@torch_test
def tensors_in_threads():
    """Threads with different current devices, each on both."""
    def work(number):
        torch.cuda.set_device(number % 2)
        for at in range(200):
            name = (HERE, THERE)[(at + number) % 2]
            x = torch.full((N,), float(at), device=name)
            y = torch.empty(N, device=name)
            add_one[name](x, y, N)
            check(torch.equal(y, x + 1), "launch %d on %s" % (at, name))
            refused(TypeError, "expected memory of %s, found memory of %s" % (other(name), name), add_one[other(name)], x, y, N)
            check(torch.cuda.current_device() == number % 2, "thread %d: the current device is %d" % (number, torch.cuda.current_device()))
    in_threads(work)


@torch_test
def functions_of_triton():
    """Where Kiln's compiler and Triton are: a launch goes to the device of its tensors, whatever is current."""
    try:
        import triton
        import kiln.triton
        from kiln import _compiler
    except ImportError as error:
        raise Skipped(str(error))
    if _compiler.program() is None:
        raise Skipped("Kiln's compiler is not installed")
    function = kiln.triton.jit(triton.jit(add_one_of_triton))

    def run(name, device):
        x, y = torch.arange(N, dtype=torch.float32, device=device), torch.zeros(N, device=device)
        for _ in range(3):
            y.zero_()
            exactly(function[(triton.cdiv(N, 1024),)], x, y, N, BLOCK=1024)
            check(torch.equal(y, x + 1), "wrong results on %s" % name)
        its = torch.zeros(N, device=other(name))
        refused(TypeError, "expected memory of %s, found memory of %s" % (name, other(name)), function[(triton.cdiv(N, 1024),)], x, its, N, BLOCK=1024)
        check(not its.any(), "a refused launch ran")
    on_each(run)


def add_one_of_triton(x, y, n, BLOCK: "tl.constexpr"):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, i < n) + 1, i < n)


@test
def one_that_is_broken():
    """The last: an access outside of all memory ends what cuda:1 can do in this process, and says so by that name. What becomes of cuda:0 is the driver's."""
    def use():
        add_one[THERE](1 << 20, 1 << 20, N)
        devices[THERE].sync()
    refused(kiln.Error, "CUDA_ERROR", use)
    refused(kiln.Error, "add_one' on cuda:1.*CUDA_ERROR", add_one[THERE], 1 << 20, 1 << 20, N)
    try:
        x = filled(HERE)
        add_one[HERE](x, x, N)
        devices[HERE].sync()
        is_added(x)
        print("    cuda:0 goes on")
    except kiln.Error as error:
        print("    cuda:0 is broken with it: %s" % error)


for one in tests:
    title = one.__name__.replace("_", " ")
    if getattr(one, "wants_torch", False) and (torch is None or not torch.cuda.is_available()):
        counts["skipped"] += 1
        print("%-40s skipped: PyTorch with CUDA is not installed" % title)
        continue
    try:
        one()
        counts["passed"] += 1
        print("%-40s passed" % title, flush=True)
    except Skipped as why:
        counts["skipped"] += 1
        print("%-40s skipped: %s" % (title, why), flush=True)
    except BaseException:
        counts["failed"] += 1
        print("%-40s FAILED\n%s" % (title, traceback.format_exc()), flush=True)
print("%d passed, %d failed, %d skipped" % (counts["passed"], counts["failed"], counts["skipped"]), flush=True)
os._exit(1 if counts["failed"] else 0)  # a device that is broken is not waited for
