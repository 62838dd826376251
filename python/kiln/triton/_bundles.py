# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Bundles that launches take their code from: found by key, so no Triton IR is built and nothing is compiled. What a launch does that finds none is said by
`load`: it fails with the fact that differs, or Kiln compiles, or Triton does."""
import os
import sys
import tempfile
import typing

from triton.compiler.errors import CompileTimeAssertionFailure
from triton.runtime.errors import OutOfResources, PTXASError

from . import _compilation, _index, _monitor, _torch_results
from .._core import Library
from .._errors import Error, NotFound
from .._suggest import did_you_mean

REFUSALS = (OutOfResources, CompileTimeAssertionFailure, PTXASError)  # what tuners pass over
POLICIES = ("error", "compile", "triton")


class Code(typing.NamedTuple):
    """Where the code of a kernel is, and how that came about. `library` is opened in the process that launches."""
    library: object  # the bytes of a bundle, or a path with `trust`
    kernel: str
    origin: str
    seconds: float
    reason: str

    def open(self, device):
        return _opened(self.library).device(device).kernel(self.kernel)


class _Bundle:
    def __init__(self, path, trust):
        self.path, self.trust = path, trust
        self.library = Library(path, trust=trust) if trust else Library(path)
        self.entries, self.refused, notes = _index.read(path)
        self.results = {key: text for key, text in notes.items() if key.startswith(_torch_results.NOTE)}
        self.modules = {}
        for key, text in sorted(notes.items()):
            if key.startswith(_index.HELION):
                self.modules.setdefault(key[len(_index.HELION):].partition(".")[0], []).append(text)
        self.names = set(self.library.kernels)
        self.by_name = {}
        for key, (_, facts) in sorted(self.entries.items()):
            self.by_name.setdefault(facts["kernel"], []).append((key, facts))


class _State:
    bundles, miss = [], "compile"
    refused = {}  # key: (its facts, why Kiln does not compile it)


_state = _State()


def load(*paths, miss="error", trust=None):
    """From now on launches take their code from these bundles, which KILN_TRITON_SAVE or save() wrote, in order. `miss` says what a launch does that finds
    none: "error" (NotFound, which names the facts that differ from the nearest entry), "compile" (by Kiln), "triton" (by Triton). `trust` are files with
    public keys, one of which has to have signed each bundle. Without paths nothing is loaded any more. It puts Kiln behind every @triton.jit function."""
    from . import _patch
    if miss not in POLICIES:
        raise ValueError("miss: expected %s, found %r%s" % (", ".join(map(repr, POLICIES)), miss, did_you_mean(miss, POLICIES)))
    trust = [os.fspath(path) for path in trust] if trust else None
    bundles = [_Bundle(os.fspath(path), trust) for path in paths]
    empty = next((one.path for one in bundles if not one.entries), None)
    if empty:
        raise Error("%s: has no kernels of Triton that are found by key: kiln.triton.save(), export(), capture() and KILN_TRITON_SAVE write such bundles" % empty)
    _state.bundles, _state.miss = bundles, miss if bundles else "compile"
    _patch.enable()


def settings():
    """What another process hands to `apply`."""
    return [one.path for one in _state.bundles], _state.miss, _state.bundles[0].trust if _state.bundles else None


def apply(given):
    paths, miss, trust = given
    if given != settings():
        load(*paths, miss=miss, trust=trust)


def is_closed():
    """Whether nothing is compiled: then no process has to be started for that."""
    return bool(_state.bundles) and _state.miss != "compile"


def paths():
    return [one.path for one in _state.bundles]


def _opened(library):
    if isinstance(library, bytes):
        return Library(library)
    path, trust = library
    known = next((one.library for one in _state.bundles if one.path == path), None)
    return known or (Library(path, trust=trust) if trust else Library(path))


def _has_code(bundle, kernel, target):
    """Why it has no code for the target; None: it has. A device that runs nothing says so without a GPU."""
    if kernel not in bundle.names:
        return "its entry in %s leads to '%s', a kernel that is not in the bundle: it was removed after the bundle was saved" % (bundle.path, kernel)
    if target == "host":
        return None
    try:
        kernel = bundle.library.device("null:" + target).kernel(kernel)
        if not any(param.rank for param in kernel.params):
            kernel.choose(*[0] * len(kernel.params), grid=1)
    except Error as error:
        return str(error)
    return None


def _nearest(facts):
    """(key, facts, bundle) of the entry that differs in the fewest fields; of kernels of that name where there are any."""
    named = [(key, there, one) for one in _state.bundles for key, there in one.by_name.get(facts["kernel"], ())]
    every = named or [(key, there, one) for one in _state.bundles for key, (_, there) in one.entries.items()]
    return min(every, key=lambda found: (len(_index.differences(facts, found[1])), found[0]))


def _why(facts):
    key, there, bundle = _nearest(facts)
    lines = _index.differences(facts, there)
    if there["kernel"] != facts["kernel"]:
        return "no entry of a kernel '%s' in %s" % (facts["kernel"], ", ".join(paths()))
    return "no entry of its key in %s; nearest entry %s, %d field%s:\n  %s" % (
        bundle.path, key, len(lines), " differs" if len(lines) == 1 else "s differ", "\n  ".join(lines))


def find(facts, target):
    """(the code, "") of a kernel, or (None, why no bundle has it); (None, "") where no bundle is loaded."""
    if not _state.bundles:
        return None, ""
    if _index.UNCLEAR in facts:
        return None, "no bundle has it, because no key says all that its code depends on: " + facts[_index.UNCLEAR]
    key, why = _index.key_of(facts), None
    for bundle in _state.bundles:
        if key in bundle.refused:
            raise _compilation.NotCompiled(bundle.refused[key][1])
        entry = bundle.entries.get(key)
        if entry is None:
            continue
        why = _has_code(bundle, entry[0], target)
        if why is None:
            return Code((bundle.path, bundle.trust), entry[0], _monitor.BUNDLE, 0.0, ""), ""
    return None, why or _why(facts)


def is_triton(facts, reason, target):
    """What becomes of a launch that no bundle has code for: True, Triton compiles it; False, Kiln does. NotFound where neither is wanted."""
    if not reason or _state.miss == "compile":
        return False
    if _state.miss == "triton":
        return True
    _monitor.count(_monitor.MISSING, facts["kernel"], _index.key_of(facts)[:16], target, reason)
    raise NotFound("kernel '%s': %s" % (facts["kernel"], reason))


def find_or_compile(source, options, read_for, target, begun=None):
    """(code, facts of its key, Triton's IR or None, facts of the launch or None) of a kernel; None where Triton is to compile it. `begun` are the IR, the facts
    and a function that returns what a compile gave which was begun before."""
    keys = _index.facts_of(source, options, read_for)
    code, reason = find(keys, target)
    if code is not None:
        return code, keys, None, None
    if is_triton(keys, reason, target):
        return None
    try:
        text, launch = begun[:2] if begun else _compilation.triton_ir(source, options, read_for)
        built = begun[2]() if begun else _compilation.compile_ir(text, launch, (target,))
    except REFUSALS as error:
        _state.refused[_index.key_of(keys)] = keys, str(error)
        raise
    return Code(built.code, source.fn.__name__, built.origin, built.seconds, reason), keys, text, launch


def take_refused():
    """What a tuner passes over, which a bundle has to know: {key: (its facts, why)}; it is known here no more."""
    found, _state.refused = _state.refused, {}
    return found


def add_refused(found):
    _state.refused.update(found)


def fill_torch_caches():
    """Before torch.compile looks there. Once for each bundle."""
    for one in _state.bundles:
        found, one.results = one.results, {}
        if found:
            _torch_results.fill(_torch_results.unpack(found, one.path))


def has_modules_of_helion():
    return any(one.modules for one in _state.bundles)


def modules_of_helion(key):
    """The notes of modules that Helion wrote for a key."""
    return [text for one in _state.bundles for text in one.modules.get(key, ())]


def identity_of(code):
    """Of code from a bundle: what its name there has in brackets, or the name."""
    return code.kernel.rpartition("[")[2].rstrip("]")


# ------------------------------------------------------------------------------------------- saving

def targets_wanted():
    """What bundles that are written without being asked for have code for; none: what was compiled for."""
    return [name for name in os.environ.get("KILN_TRITON_TARGETS", "").split(",") if name]


def save(found, targets, output, is_joined=False):
    """As `write`, with what the process knows besides its kernels: what Kiln does not compile, what torch.compile found out, what Helion wrote, and what loaded
    bundles have. With `is_joined` what `output` has already stays."""
    others = [output] if is_joined and os.path.exists(output) else []
    others += [path for path in paths() if path not in others]
    before = {key: text for path in others for key, text in _index.read(path)[2].items()}
    helion = sys.modules.get(__package__ + "._helion")  # which is imported where Helion is
    written = helion.notes() if helion else {}
    write(found, targets, output, is_joined, _state.refused, {**written, **_torch_results.notes(_torch_results.recorded(), {**before, **written})}, others)
    return Library(output)


def write(found, targets, output, is_joined=False, refused={}, results={}, others=()):
    """Writes one bundle of kernels with the notes that lead to them: (name, text, facts of the launch, [facts of keys]), and what bundles at the paths `others`
    have. With `is_joined` every kernel has its identity in its name."""
    from .._compiler import build, run, warn
    counts = {}
    for name, *_ in found:
        counts[name] = counts.get(name, 0) + 1
    entries = {}
    with tempfile.TemporaryDirectory(prefix="kiln-") as folder:
        sources, parts = {}, []
        for name, text, launch, keys in found:
            identity = _compilation.identity(text, launch)
            title = name if counts[name] == 1 and not is_joined else "%s[%s]" % (name, identity[:12])
            text = _compilation.renamed(text, title)
            sources[_compilation.write(folder, identity, text, launch)] = text
            entries.update((_index.key_of(facts), (title, facts)) for facts in keys if _index.UNCLEAR not in facts)
            for why in {facts[_index.UNCLEAR] for facts in keys if _index.UNCLEAR in facts}:
                warn("%s: no launch finds kernel '%s' in it, because no key says all that its code depends on: %s" % (output, name, why))
        if sources:
            parts.append(os.path.join(folder, "kernels.kbundle"))
            try:
                build(sources, targets, parts[-1])
            except Error as error:
                raise _compilation.refusal(error, sources) from None
        manifest, notes = os.path.join(folder, "notes"), os.path.join(folder, "notes.kbundle")
        with open(manifest, "wb") as file:
            file.write(_index.manifest(entries, {key: one for key, one in refused.items() if _index.UNCLEAR not in one[0]}, results))
        run("bundle-write", "-q", "-o", notes, manifest)
        merged = os.path.join(folder, "merged.kbundle")
        run("merge", "-o", merged, *parts, notes, *others)
        with open(merged, "rb") as file:
            put(file.read(), output)


def bytes_of(code):
    """A bundle that has this kernel and no other."""
    from .._compiler import run
    if isinstance(code.library, bytes):
        return code.library
    others = [name for name in _opened(code.library).kernels if name != code.kernel]
    with tempfile.TemporaryDirectory(prefix="kiln-") as folder:
        output = os.path.join(folder, "one.kbundle")
        run("prune", "-o", output, *("--drop-kernel=" + name for name in others), code.library[0])
        with open(output, "rb") as file:
            return file.read()


def put(data, to):
    """Whole or not at all."""
    beside = "%s.%d" % (to, os.getpid())
    try:
        with open(beside, "wb") as out:
            out.write(data)
        os.replace(beside, to)
    except OSError:
        if os.path.exists(beside):
            os.unlink(beside)
        raise
