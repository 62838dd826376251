# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""@triton.autotune by Kiln. It looks in a table of tuned choices first (docs/tuning.md); missing choices are measured, all configs in turn, until the confidence
intervals of the medians separate. Pruning, hooks, reset_to_zero and restore_value are Triton's own. Nothing is measured while a graph is captured."""
import math
import os
import shlex
import tempfile
import time

from triton import knobs
from triton.runtime import JITFunction, driver

from .. import _compiler
from . import _devices, _parallel_compile, _versions
from ._bundles import REFUSALS
from ._devices import is_capturing as _is_capturing

BUDGET_S, MOST_ROUNDS, LEAST_ROUNDS, TIMES = 2.0, 100, 3, 3
_DTYPES = {"float32": "f32", "float64": "f64", "float16": "f16", "bfloat16": "bf16", "float8_e4m3fn": "e4m3", "float8_e5m2": "e5m2", "bool": "i1",
           "uint8": "i8", "uint16": "i16", "uint32": "i32", "uint64": "i64"}


# ------------------------------------------------------------------------------------------ tables

class _Table:
    """A file of choices, read anew when it has changed."""

    def __init__(self, path):
        self.path, self.mark, self.choices = path, None, {}

    def find(self, identity):
        """The config for the device itself, or for any."""
        try:
            stat = os.stat(self.path)
        except FileNotFoundError:
            return None
        if self.mark != (stat.st_ino, stat.st_size, stat.st_mtime_ns):
            self.mark = stat.st_ino, stat.st_size, stat.st_mtime_ns
            self.choices = dict(_read(self.path))
        anywhere = dict(identity, product="*", processor="*", units="0")
        return self.choices.get(_frozen(identity)) or self.choices.get(_frozen(anywhere))

    def add(self, identity, config, default, times):
        """By `kiln tune --merge`, which takes care of what others add at the same time."""
        words = ["%s=%s" % (name, _quoted(value)) for name, value in identity.items()]
        words += ["config=%s" % _quoted(config), "default=%s" % _quoted(default)]
        words += ["ns=%d" % round(times[config]), "default_ns=%d" % round(times[default])] if default in times else ["ns=%d" % round(times[config])]
        words.append("date=%s" % time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()))
        with tempfile.TemporaryDirectory(prefix="kiln-") as folder:
            path = os.path.join(folder, "found")
            with open(path, "w") as file:
                file.write("kiln tuned 1\n%s\n" % " ".join(words))
            _compiler.run("tune", "--merge", "-o", self.path, path)


_tables = []


def use_table(*paths):
    """Files of tuned choices for @triton.autotune: asked in order; what none has is measured and added to the first, which need not exist yet. Without
    any, what is measured is known to the process only."""
    _tables[:] = [_Table(os.fspath(path)) for path in paths]


def _quoted(value):
    return '"%s"' % value.replace("\\", "\\\\").replace('"', '\\"') if not value or any(c in value for c in ' "\\') else value


def _is_of_identity(name):
    return name in ("kernel", "types", "product", "processor", "units") or name.startswith(("bin.", "aligned."))


def _frozen(words):
    return tuple(sorted((name, value) for name, value in words.items() if _is_of_identity(name)))


def _read(path):
    with open(path) as file:
        for line in file:
            lexer = shlex.shlex(line, posix=True, punctuation_chars=False)
            lexer.whitespace_split, lexer.commenters = True, "#"
            words = dict(word.partition("=")[::2] for word in lexer)
            if "config" in words:
                yield _frozen(words), words["config"]


def bin_of(value):
    """The least number of a value's bin: four to an octave."""
    if value < 8:
        return max(value, 0)
    below = value.bit_length() - 3
    return value >> below << below


def config_text(config):
    """As `kiln inspect -c` names configs."""
    words = ["%s=%s" % (name, str(config.kwargs[name]).replace(",", ";")) for name in sorted(config.kwargs)]
    words += ["warps=%d" % config.num_warps, "stages=%d" % config.num_stages]
    return ",".join(words + (["registers=%d" % config.maxnreg] if config.maxnreg else []))


def _type_text(value):
    if hasattr(value, "data_ptr") and hasattr(value, "dtype"):
        name = str(value.dtype).rpartition(".")[2]
        return "*" + _DTYPES.get(name, name.replace("int", "i"))
    if isinstance(value, bool):
        return "i1"
    if isinstance(value, int):
        return "i32" if -1 << 31 <= value < 1 << 31 else "i64"
    return "f32" if isinstance(value, float) else None


def _product():
    device = driver.active.get_active_torch_device()
    if device.type == "cpu":
        return {"product": "host", "processor": "host", "units": "0"}
    properties = _devices.torch.cuda.get_device_properties(device)
    target = driver.active.get_current_target()
    processor = target.arch if isinstance(target.arch, str) else "sm_%d" % target.arch
    return {"product": properties.name, "processor": processor, "units": str(properties.multi_processor_count)}


def identity_of(tuner, arguments):
    """What a choice is for: the types, the bins of the integers of the key, and as constants of the kernel's name whatever else the key names and the
    launch gives that no config does."""
    tuned = {name for config in tuner.configs for name in config.kwargs}
    types, bins, constants = [], {}, []
    for name in tuner.arg_names:
        if name not in arguments or name in tuned:
            continue
        value = arguments[name]
        text = _type_text(value)
        is_integer = isinstance(value, int) and not isinstance(value, bool)
        if text and not (name in tuner.keys and not is_integer and not text.startswith("*")):
            types.append(text)
        if name in tuner.keys and is_integer:
            bins["bin." + name] = str(bin_of(value))
        elif name in tuner.keys and not (text or "").startswith("*") or text is None:
            constants.append("%s=%s" % (name, "".join(c if c.isalnum() or c in "._-" else "_" for c in str(value))))
    name = tuner.base_fn.__name__ + ("[%s]" % ",".join(constants) if constants else "")
    return {"kernel": name, "types": " ".join(types), **_product(), **bins}


# --------------------------------------------------------------------------------------- measuring

def estimate(times):
    """(median, low, high): an interval that holds the true median with at least 95 %, from the order of the samples; fewer than 6 have none."""
    times = sorted(times)
    count = len(times)
    median = times[count // 2] if count % 2 else (times[count // 2 - 1] + times[count // 2]) / 2
    below, outside = -1, 0.0
    while outside + math.comb(count, below + 1) / 2 ** count <= 0.025:
        below += 1
        outside += math.comb(count, below) / 2 ** count
    return (median, 0.0, math.inf) if below < 0 else (median, times[below], times[count - 1 - below])


def narrowed(estimates):
    """Those whose interval does not lie wholly above that of another one."""
    least = min(high for _, _, high in estimates.values())
    return {config for config, (_, low, _) in estimates.items() if low <= least}


def winner(estimates, usual):
    """The lowest median, unless the interval of `usual` meets that one's."""
    best = min(estimates, key=lambda config: estimates[config][0])
    return usual if usual in estimates and estimates[usual][1] <= estimates[best][2] else best


class _Clock:
    """Times one launch in nanoseconds: by events with the L2 emptied on a GPU, by the clock on the CPU."""

    def __init__(self):
        self.is_gpu = driver.active.get_active_torch_device().type != "cpu"
        self.cache = driver.active.get_empty_cache_for_benchmark() if self.is_gpu else None

    def time(self, launch):
        if not self.is_gpu:
            start = time.perf_counter_ns()
            launch()
            return time.perf_counter_ns() - start
        start, end = (_devices.torch.cuda.Event(enable_timing=True) for _ in range(2))
        driver.active.clear_cache(self.cache)
        start.record()
        launch()
        end.record()
        end.synchronize()
        return start.elapsed_time(end) * 1e6


def _launch(tuner, config, arguments, named, timed):
    """One launch between the hooks, which are not timed; what `timed` gives of it."""
    conflicts = named.keys() & config.kwargs.keys()
    if conflicts:
        raise ValueError("Conflicting meta-parameters: %s. Make sure that you don't re-define auto-tuned symbols." % ", ".join(sorted(conflicts)))
    current = dict(named, **config.all_kwargs())
    whole = {**tuner.nargs, **current}
    if config.pre_hook:
        config.pre_hook(whole)
    tuner.pre_hook(whole)
    try:
        found = timed(lambda: tuner.fn.run(*arguments, **current))
    except Exception as error:
        tuner.post_hook(whole, exception=error)
        raise
    tuner.post_hook(whole, exception=None)
    return found


def _compile_all(tuner, configs, arguments, named):
    """Each is compiled and launched once; those that can run, in order, and why the others cannot. A hook that may keep something from being compiled has
    to be asked before."""
    able, refused = set(), {}
    turns = (True, False) if knobs.runtime.jit_cache_hook is None else (False,)
    with _parallel_compile.ParallelCompile() as ahead:
        for ahead.is_reading in turns:
            for config in configs:
                if config in able or config in refused:
                    continue
                ahead.has_begun = False
                try:
                    _launch(tuner, config, arguments, named, lambda launch: launch())
                except REFUSALS as error:
                    refused[config] = "%s: %s" % (config, error)
                else:
                    if not ahead.has_begun:
                        able.add(config)
    return [config for config in configs if config in able], list(refused.values())


def _contest(tuner, configs, arguments, named):
    """{config: (median, low, high)} of those that run; in nanoseconds."""
    able, refused = _compile_all(tuner, configs, arguments, named)
    times = {config: [] for config in able}
    if not times:
        raise REFUSALS[-1]("%s: no config can run:\n%s" % (tuner.base_fn.__name__, "\n".join(refused)))
    clock, end, inside = _Clock(), time.monotonic() + BUDGET_S, set(times)
    for count in range(MOST_ROUNDS):
        if len(inside) < 2 or count >= LEAST_ROUNDS and time.monotonic() >= end:
            break
        for config in [config for config in times if config in inside]:
            times[config] += [_launch(tuner, config, arguments, named, clock.time) for _ in range(TIMES)]
        inside &= narrowed({config: estimate(times[config]) for config in inside})
    return {config: estimate(its) if its else (0.0, 0.0, 0.0) for config, its in times.items() if config in inside}


def _by_their_clock(tuner, configs, arguments, named):
    """With the program's own do_bench, by Triton's rule: the least of what it gives."""
    timings = {config: tuner._bench(*arguments, config=config, **named) for config in configs}
    tuner.configs_timings = timings
    return min(timings, key=timings.get)


def _measure(tuner, configs, arguments, named, identity):
    if tuner._do_bench is not None:
        return _by_their_clock(tuner, configs, arguments, named)
    start = time.monotonic()
    estimates = _contest(tuner, configs, arguments, named)
    tuner.bench_time = time.monotonic() - start
    chosen = winner(estimates, configs[0])
    tuner.configs_timings = {config: [median / 1e6, low / 1e6, high / 1e6] for config, (median, low, high) in estimates.items()}
    tuner.pre_hook({**tuner.nargs, **named, **chosen.all_kwargs()}, reset_only=True)
    if identity and estimates[chosen][0]:
        _tables[0].add(identity, config_text(chosen), config_text(configs[0]), {config_text(config): its[0] for config, its in estimates.items()})
    return chosen


def _choose(tuner, arguments, named):
    """(the config, where it is from: "only", "table", "measured", or "captured", which is not kept)."""
    configs = tuner.prune_configs(named)
    if len(configs) < 2:
        return configs[0], "only"
    identity = identity_of(tuner, {**tuner.nargs, **named}) if _tables else None
    by_text = {config_text(config): config for config in configs}
    for table in _tables:
        found = by_text.get(table.find(identity))
        if found is not None:
            return found, "table"
    if _is_capturing():
        return configs[0], "captured"
    return _measure(tuner, list(configs), arguments, named, identity), "measured"


def _tell_listener(tuner, key, origin):
    """Of Triton's: what was chosen, for the first time."""
    listener = knobs.autotuning.listener if _versions.HERE.tuner_has_listener else None
    if listener is None or origin == "only":
        return
    fn, is_measured = tuner.fn, origin == "measured"
    while not isinstance(fn, JITFunction):
        fn = fn.fn
    listener(fn=fn, key=key, best_config=tuner.cache[key], configs_timings=tuner.configs_timings if is_measured else {},
             duration=getattr(tuner, "bench_time", None) if is_measured else None, cache_hit=not is_measured)


def run(tuner, *arguments, **named):
    """In place of Autotuner.run."""
    tuner.nargs = dict(zip(tuner.arg_names, arguments))
    config = tuner.configs[0]
    if len(tuner.configs) > 1:
        given = {name: value for name, value in {**tuner.nargs, **named}.items() if name in tuner.arg_names}
        key = (*[given[name] for name in tuner.keys if name in given], *[str(value.dtype) for value in given.values() if hasattr(value, "dtype")])
        config = tuner.cache.get(key)
        if config is None:
            config, origin = _choose(tuner, arguments, named)
            if origin != "captured":
                tuner.cache[key] = config
                _tell_listener(tuner, key, origin)
    tuner.best_config = config
    if config.pre_hook is not None:
        config.pre_hook({**tuner.nargs, **named, **config.all_kwargs()})
    done = tuner.fn.run(*arguments, **named, **config.all_kwargs())
    tuner.nargs = None
    return done
