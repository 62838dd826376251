# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""One process of bench/torch_models.py: a model under torch.compile, by Kiln or by Triton. It prints what it measured as a line of JSON. Wishes are JSON as well:

python -c "import model_process; model_process.main()" WISHES      (bench/ is in PYTHONPATH: PyTorch's worker processes import this module too)
"""
import contextlib
import copy
import ctypes
import functools
import gc
import json
import os
import resource
import statistics
import sys
import threading
import time

TICKS = os.sysconf("SC_CLK_TCK")
PROFILED = 5  # steps


# ------------------------------------------------------------------------------------ CPU time

def living(with_workers):
    """Seconds of CPU of all processes below this one that have not been waited for, and of those that they have waited for."""
    below, times = {}, {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/stat" % pid) as file:
                fields = file.read().rpartition(")")[2].split()
            with open("/proc/%s/cmdline" % pid) as file:
                is_worker = "compile_worker" in file.read()
        except OSError:  # it has ended
            continue
        if with_workers or not is_worker:
            below.setdefault(int(fields[1]), []).append(int(pid))
            times[int(pid)] = sum(map(int, fields[11:15])) / TICKS
    total, waiting = 0.0, list(below.get(os.getpid(), ()))
    while waiting:
        pid = waiting.pop()
        total += times[pid]
        waiting += below.get(pid, ())
    return total


def own():
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + ended.ru_utime + ended.ru_stime


class Compiling:
    """Notes in a file what was spent in compiling or finding kernels: a line of JSON for each stretch of time in which any thread of a process is at that."""
    path = None
    _depth, _lock, _begin = 0, threading.Lock(), None

    @classmethod
    @contextlib.contextmanager
    def noted(cls):
        with cls._lock:
            cls._depth += 1
            if cls._depth == 1:
                before = living(False)
                cls._begin = before, own(), time.perf_counter()
        try:
            yield
        finally:
            with cls._lock:
                cls._depth -= 1
                if cls._depth == 0:
                    wall, used = time.perf_counter() - cls._begin[2], own() - cls._begin[1]
                    used += living(False) - cls._begin[0]
                    with open(cls.path, "ab", buffering=0) as file:
                        file.write((json.dumps({"process": os.getpid(), "wall": wall, "cpu": used}) + "\n").encode())


class InWorker:
    """In place of Inductor's function that its worker processes run."""

    def __init__(self, theirs, path):
        self.theirs, self.path = theirs, path

    def __call__(self, *arguments):
        Compiling.path = self.path
        with Compiling.noted():
            return self.theirs(*arguments)


def note_compiling(path):
    from torch._inductor import async_compile
    from torch._inductor.runtime.triton_heuristics import CachingAutotuner
    Compiling.path = path
    async_compile._worker_compile_triton = InWorker(async_compile._worker_compile_triton, path)
    for name in ("precompile", "_precompile_config"):
        def noted(self, *arguments, theirs=getattr(CachingAutotuner, name), **named):
            with Compiling.noted():
                return theirs(self, *arguments, **named)
        setattr(CachingAutotuner, name, functools.wraps(getattr(CachingAutotuner, name))(noted))


def compiling(path):
    if not os.path.exists(path):
        return {"cpu": 0.0, "wall": 0.0, "processes": 0}
    with open(path) as file:
        rows = [json.loads(line) for line in file]
    return {"cpu": sum(row["cpu"] for row in rows), "wall": sum(row["wall"] for row in rows), "processes": len({row["process"] for row in rows})}


# ------------------------------------------------------------------------------------ launches

class Driver:
    """What bench/launches.c counted, by the file that called; None where it is not loaded."""

    def __init__(self, path):
        self.library = ctypes.CDLL(path) if path else None

    def launches(self):
        if self.library is None:
            return None
        text, found = ctypes.create_string_buffer(1 << 16), {}
        self.library.launches_print(text, ctypes.c_size_t(len(text)))
        for line in text.value.decode().splitlines():
            count, _, path = line.partition(" ")
            found[os.path.basename(path)] = found.get(os.path.basename(path), 0) + int(count)
        return found

    def launched_by(self, call):
        before = self.launches()
        call()
        return None if before is None else {name: count - before.get(name, 0) for name, count in self.launches().items() if count > before.get(name, 0)}


# ------------------------------------------------------------------------------------ the model

def step(run, model, inputs):
    model.zero_grad(set_to_none=True)
    loss = run(*inputs)
    loss.backward()
    return loss


def gradients(model):
    import torch
    return torch.cat([one.grad.detach().double().flatten() for one in model.parameters() if one.grad is not None])


def apart(found, wanted):
    return ((found - wanted).norm() / wanted.norm()).item()


def compare(case, found):
    """For each shape, relative distances of the gradients: of what was compiled and of eager from the model in f32, and between both; with the losses."""
    import torch
    exact, rows = copy.deepcopy(case.model).float(), []
    for inputs, (loss, gradient) in zip(case.inputs, found):
        eager = step(case.model, case.model, inputs).item()
        of_eager = gradients(case.model)
        wide = tuple(one.float() if one.is_floating_point() and one.dtype != torch.float64 else one for one in inputs)
        reference = step(exact, exact, wide).item()
        of_reference = gradients(exact)
        rows.append({"from_f32": apart(gradient, of_reference), "eager_from_f32": apart(of_eager, of_reference), "from_eager": apart(gradient, of_eager),
                     "loss": loss, "loss_eager": eager, "loss_f32": reference})
    return rows


def profiled(call):
    """Time of kernels on the GPU for one step, in microseconds, and how many: those with Triton's names, those with Kiln's, and others; the first two by name too."""
    import torch
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA, torch.profiler.ProfilerActivity.CPU]) as seen:
        for _ in range(PROFILED):
            call()
        torch.cuda.synchronize()
    found, by_name = {kind: {"count": 0, "us": 0.0} for kind in ("kiln", "triton", "other")}, {}
    for event in seen.events():
        if event.device_type != torch.autograd.DeviceType.CUDA or getattr(event, "is_user_annotation", False):
            continue
        kind = "kiln" if event.name.startswith("kiln_") else "triton" if event.name.startswith("triton_") else "other"
        found[kind]["count"] += 1 / PROFILED
        found[kind]["us"] += event.time_range.elapsed_us() / PROFILED
        if kind != "other":
            before = by_name.get(event.name, (0, 0.0))
            by_name[event.name] = before[0] + 1 / PROFILED, before[1] + event.time_range.elapsed_us() / PROFILED
    return dict(found, kernels=by_name)


def chosen():
    """{kernel: the configs that Inductor launches it with}"""
    from torch._inductor.runtime.triton_heuristics import CachingAutotuner
    found = {}
    for one in gc.get_objects():
        if issubclass(type(one), CachingAutotuner) and len(one.launchers) == 1:  # isinstance asks proxies of what is gone
            config = one.launchers[0].config
            text = ", ".join(["%s %s" % item for item in config.kwargs.items()] + ["%d warps" % config.num_warps])
            name = one.inductor_meta.get("kernel_name", one.fn.__name__)
            found[name] = "; ".join(sorted({text, *filter(None, found.get(name, "").split("; "))}))
    return found


def run(wishes):
    start = time.perf_counter()
    if any(name.startswith("KILN_TRITON") for name in os.environ):
        import kiln._triton_startup  # noqa: F401  as kiln-triton.pth of an installed package does
    import torch
    import torch._dynamo
    import torch._inductor.compile_fx
    import torch._inductor.config
    import triton
    import ten_models
    found = {"versions": "PyTorch %s, Triton %s" % (torch.__version__, triton.__version__), "imports": time.perf_counter() - start}
    is_gpu, driver = wishes["device"] == "cuda", Driver(wishes["counter"])
    sync = torch.cuda.synchronize if is_gpu else lambda: None
    start = time.perf_counter()
    torch.zeros(1, device=wishes["device"]).add_(1)
    sync()
    found.update(driver=time.perf_counter() - start, device=torch.cuda.get_device_name() if is_gpu else "CPU")
    case = ten_models.make(wishes["model"], wishes["device"], wishes["small"])
    for name, value in {**case.settings, **({} if is_gpu else {"cpu_backend": "triton"})}.items():
        setattr(torch._inductor.config, name, value)
    note_compiling(wishes["compiles"])
    sync()
    programs = []
    sys.addaudithook(lambda event, arguments: programs.append(os.path.basename(os.fspath(arguments[0]))) if event == "subprocess.Popen" else None)

    start = time.perf_counter()
    compiled = torch.compile(case.model, **case.compiled)
    results = []
    for inputs in case.inputs:
        loss = step(compiled, case.model, inputs).item()
        if not results:
            found.update(first=time.perf_counter() - start, cpu_first=own() + living(True), parts=dict(torch._dynamo.utils.calculate_time_spent()))
        results.append((loss, gradients(case.model)))
    found.update(all_shapes=time.perf_counter() - start, compiling=compiling(wishes["compiles"]), programs=sorted(set(programs)))

    def again():
        step(compiled, case.model, case.inputs[0])
        sync()
    times = []
    for _ in range(3):
        again()
    for _ in range(wishes["steps"]):
        start = time.perf_counter()
        again()
        times.append(time.perf_counter() - start)
    found.update(step=statistics.median(times), launched_by_step=driver.launched_by(again), profile=profiled(again) if is_gpu else None, configs=chosen())
    sync()
    found["launched"] = driver.launches()
    if "kiln.triton" in sys.modules:
        now = json.loads(sys.modules["kiln.triton"].monitor().json())
        found["monitor"] = now["launches"]
    found["apart"] = compare(case, results)
    return found


def eager(wishes):
    """Whether the model can be made and run: its losses, and whether every parameter gets a gradient."""
    import torch
    import ten_models
    case = ten_models.make(wishes["model"], wishes["device"], wishes["small"])
    losses = [step(case.model, case.model, inputs).item() for inputs in case.inputs]
    good = all(one.grad is not None and torch.isfinite(one.grad).all().item() for one in case.model.parameters())
    return {"losses": losses, "gradients": good, "parameters": sum(one.numel() for one in case.model.parameters())}


def main():
    wishes = json.loads(sys.argv[1])
    found = eager(wishes) if wishes["who"] == "eager" else run(wishes)
    print(json.dumps(found), flush=True)
