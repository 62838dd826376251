# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A plugin of pytest for the suites of others: puts Kiln behind their kernels, takes the tests that a list names, and writes for each what became of it,
how many launches ran Kiln's code and how many Triton's, and which kernels they were. run.py sets the environment that it reads."""
import functools
import json
import os
import random
import time

import pytest
from run import as_on_a_gpu

WISH = json.loads(os.environ["KILN_PEERS"])  # mode, ids, shard, out, target, suite, orders, rows, configs, brief
IS_OURS = WISH["mode"] != "triton"
_seen = {"triton": 0}


def _flaggems_on_the_cpu(folder):
    """Tells FlagGems, which looks for a GPU when it is imported, that NVIDIA's device is called cpu."""
    import importlib.util
    import sys
    path = os.path.join(folder, "src", "flag_gems", "runtime", "backend", "backend_utils.py")
    spec = importlib.util.spec_from_file_location("backend_utils", path)
    module = sys.modules["backend_utils"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    import torch
    torch.cuda.get_device_name = lambda *_: "CPU"
    torch.cuda.get_device_capability = lambda *_: (9, 0)
    theirs = module.VendorInfoBase
    module.VendorInfoBase = lambda **its: theirs(**dict(its, device_name="cpu", dispatch_key="CPU", triton_extra_name="cuda"))


def _cpu_as_a_gpu():
    """What suites ask of a device."""
    import contextlib
    import types

    import torch
    torch.cpu.get_device_properties = lambda *_: types.SimpleNamespace(total_memory=80 << 30, name="CPU")
    torch.cpu.device = lambda *_: contextlib.nullcontext()
    torch.cpu.current_device = lambda: 0
    torch.cuda.device_count = lambda: 1
    torch.cpu.default_generators = [torch.default_generator]


def _flaggems_with_todays_triton():
    """FlagGems knows how Triton 3.3 to 3.5 want their arguments, which is how 3.6 does; for later ones it takes another way, that none has."""
    import triton
    version, triton.__version__ = triton.__version__, "3.5.0"
    import flag_gems  # noqa: F401
    triton.__version__ = version


WITHOUT_A_GPU = WISH["mode"] in ("ids", "dry", "trace")
IS_FLAGGEMS = os.path.isdir(os.path.join(WISH["suite"], "src", "flag_gems"))
if WITHOUT_A_GPU:
    _cpu_as_a_gpu()
if WITHOUT_A_GPU and IS_FLAGGEMS:
    _flaggems_on_the_cpu(WISH["suite"])
if IS_OURS:
    import kiln.triton
    kiln.triton.enable()
if WISH["mode"] in ("ids", "trace") and not IS_FLAGGEMS:
    import tracing
    tracing.pretend()
if WISH["mode"] == "trace":
    import tracing
    tracing.agree()
    tracing.record(WISH["folder"])


def _tune_briefly():
    """Where tests share a GPU and a lease, tuners take what a few launches show: each config is compiled and run all the same."""
    import triton.testing
    theirs = triton.testing.do_bench

    @functools.wraps(theirs)
    def brief(fn, warmup=25, rep=100, **named):
        return theirs(fn, warmup=1, rep=2, **named)
    triton.testing.do_bench = brief
    if IS_OURS:
        from kiln.triton import _autotune
        _autotune.BUDGET_S = 0.05


def _tune_among(most):
    """Of a tuner's configs so many, drawn by the kernel's name, the types and the whole numbers of its arguments: the same ones in every process."""
    from triton.runtime import Autotuner
    theirs = Autotuner.prune_configs

    def some(tuner, named):
        configs = list(theirs(tuner, named))
        given = {**tuner.nargs, **named}
        words = [tuner.base_fn.__name__] + ["%s=%s" % (name, getattr(value, "dtype", value)) for name, value in given.items()
                                            if hasattr(value, "dtype") or type(value) is int]
        return configs if len(configs) <= most else random.Random(" ".join(words)).sample(configs, most)
    Autotuner.prune_configs = some


if WISH["brief"]:
    _tune_briefly()
if WISH["configs"] is not None:
    _tune_among(WISH["configs"])
if IS_FLAGGEMS:
    _flaggems_with_todays_triton()


def _count_tritons():
    from triton.compiler import CompiledKernel
    theirs = CompiledKernel.run

    def run(self):
        _seen["triton"] += 1
        return theirs.fget(self)
    CompiledKernel.run = property(run)


def _count_ninetootheds():
    """What NineToothed builds ahead of time is Triton's code, too, which its own library in C++ launches."""
    import importlib
    aot, build = map(importlib.import_module, ("ninetoothed.aot", "ninetoothed.build"))  # ninetoothed.build is a function, too
    theirs = aot._load_launch_func

    def load(*arguments, **named):
        launch = theirs(*arguments, **named)

        def counted(*tensors):
            result = launch(*tensors)
            _seen["triton"] += 1
            return result
        return counted
    aot._load_launch_func = build._load_launch_func = load


if not IS_OURS:
    _count_tritons()
if not IS_OURS and os.path.isdir(os.path.join(WISH["suite"], "src", "ninetoothed")):
    _count_ninetootheds()


def launches():
    return kiln.triton.launches() if IS_OURS else {"kiln": 0, "triton": _seen["triton"]}


def kernels():
    return {"%s[%s]" % (one.name, one.identity): one.launches for one in kiln.triton.compiled()} if IS_OURS else {}


@pytest.hookimpl(trylast=True)
def pytest_configure(config):
    """Where FlagGems' device is the CPU, its tests skip what its references on the CPU cannot do, which a trace does not ask them."""
    for plugin in config.pluginmanager.get_plugins():
        if WISH["mode"] == "trace" and hasattr(plugin, "TO_CPU"):
            plugin.TO_CPU = False


_seed_of_python = random.seed


@pytest.hookimpl(hookwrapper=True)
def pytest_collection():
    """A file of FlagGems draws parameters by the time of day."""
    if IS_FLAGGEMS:
        random.seed = lambda *_: None
    yield
    random.seed = _seed_of_python


def pytest_collectstart(collector):
    """Parameters that a suite draws are the same in every process."""
    if isinstance(collector, pytest.Module):
        _seed_of_python(0)


def name_of(item):
    """The id of a test on a GPU; without one FlagGems' device has another name."""
    return as_on_a_gpu(item.nodeid) if IS_FLAGGEMS and WITHOUT_A_GPU else item.nodeid


def pytest_collection_modifyitems(config, items):
    if WISH["ids"] is None:
        return
    with open(WISH["ids"]) as file:
        mine = {line.rstrip("\n") for line in file}
    kept = [item for item in items if name_of(item) in mine]
    absent = mine - set(map(name_of, kept))
    _write({"shard": WISH["shard"], "wanted": len(mine), "absent": sorted(absent)})
    config.hook.pytest_deselected(items=[item for item in items if name_of(item) not in mine])
    items[:] = sorted(kept, key=lambda item: "test_libcache" in item.nodeid)  # those of FlagGems that delete the files of their process come last


def pytest_collectreport(report):
    if report.failed and WISH["ids"] is not None:
        _write({"uncollected": report.nodeid, "error": str(report.longrepr)[-600:]})


def _write(row):
    line = json.dumps(row, sort_keys=True) + "\n"
    if WISH["rows"] is not None:
        os.write(WISH["rows"], line.encode())
        return
    with open(WISH["out"], "a") as file:
        file.write(line)


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session):
    """One test after another, as lease.py says."""
    if WISH["orders"] is None or session.config.option.collectonly:
        return None
    items = {name_of(item): item for item in session.items}
    _write({"ready": len(items)})
    with os.fdopen(WISH["orders"]) as orders:
        for line in orders:
            name = line.rstrip("\n")
            if name in items:
                session.config.hook.pytest_runtest_protocol(item=items[name], nextitem=None)
                _give_memory_back()
            else:
                _write({"id": name, "outcome": "absent", "error": "", "kiln": 0, "triton": 0, "kernels": [], "seconds": 0})
    return True


def _give_memory_back():
    """Other processes want some, too."""
    import torch
    if torch.cuda.is_initialized() and torch.cuda.memory_reserved() > 2 << 30:
        torch.cuda.empty_cache()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item):
    if WISH["mode"] in ("run", "triton") and WISH["orders"] is None:
        _write({"started": name_of(item)})  # of tests that end their process
    _seed(name_of(item))
    before, kernels_before, start = launches(), kernels(), time.monotonic()
    item.user_properties = []
    item.kiln_outcome = {}
    yield
    after, used = launches(), [name for name, count in kernels().items() if count != kernels_before.get(name, 0)]
    ends = WISH["mode"] in ("run", "triton") and item.kiln_outcome.get("outcome") not in ("passed", "skipped") and _is_broken()
    _write({"id": name_of(item), "outcome": item.kiln_outcome.get("outcome", "error"), "error": item.kiln_outcome.get("error", ""),
            "kiln": after["kiln"] - before["kiln"], "triton": after["triton"] - before["triton"], "kernels": used,
            "seconds": round(time.monotonic() - start, 3), "ends": ends})
    if WISH["mode"] == "run" and item.kiln_outcome.get("outcome") != "passed":
        _keep(set(used) | set(kernels()) - set(kernels_before))
    if ends:
        os._exit(1)


def _seed(name):
    """What a test draws without a seed of its own is the same in both modes."""
    import torch
    random.seed(name)
    torch.manual_seed(random.getrandbits(31))


def _is_broken():
    """After a fault of a kernel nothing runs in this process any more: another one goes on."""
    import torch
    try:
        torch.cuda.synchronize()
    except RuntimeError:
        return True
    return False


def _keep(names):
    """The IR of the kernels of a test that failed."""
    from kiln.triton import _compilation
    os.makedirs(WISH["folder"], exist_ok=True)
    for one in kiln.triton.compiled():
        if "%s[%s]" % (one.name, one.identity) in names:
            _compilation.write(WISH["folder"], "%s-%s" % (one.name, one.identity), one.text, one.facts)


def _keep_what_does_not_compile():
    from kiln.triton import _compilation
    compile_ir = _compilation.compile_ir

    def kept(text, facts, targets, *more, **named):
        try:
            return compile_ir(text, facts, targets, *more, **named)
        except _compilation.NotCompiled:
            os.makedirs(WISH["folder"], exist_ok=True)
            _compilation.write(WISH["folder"], "refused-%s" % _compilation.identity(text, facts), text, facts)
            raise
    _compilation.compile_ir = kept


if WISH["mode"] == "run":
    _keep_what_does_not_compile()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    report = (yield).get_result()
    if report.when == "call" or report.outcome != "passed":
        if item.kiln_outcome.get("outcome") != "failed":
            item.kiln_outcome["outcome"] = report.outcome
            item.kiln_outcome["error"] = "%s: %s" % (call.excinfo.typename, str(call.excinfo.value)[-3000:]) if call.excinfo and report.outcome == "failed" else ""


def pytest_sessionfinish():
    """In a dry run what was seen is compiled for a GPU as well."""
    if WISH["mode"] != "dry":
        return
    from kiln.triton import _compilation
    for one in kiln.triton.compiled():
        row = {"kernel": "%s[%s]" % (one.name, one.identity), "target": WISH["target"], "error": ""}
        try:
            _compilation.compile_ir(one.text, one.facts, (WISH["target"],))
        except _compilation.NotCompiled as error:
            row["error"] = str(error)[-600:]
        _write(row)
