#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Packages of AOTInductor by Kiln and by Triton beside torch.compile with warm caches, on a GPU: aot_inductor.py PACKAGE FOLDER [MODEL...] [--runs N] [--together] [--limit N] [--seconds N]

PACKAGE is the folder that has Kiln's Python package `kiln`, with the program kiln in ../bin of it or in PATH. FOLDER gets caches and packages. The models are a small MLP (`mlp`)
and a block of a transformer (`block`), in bf16 with random weights. Each package is built, loaded and run in processes of its own; what starts is timed alone, and with
--together what is built before is built at the same time. The process that runs Kiln's has PyTorch and nothing of Kiln. Printed for each, when it ends: what is in it, the
distance of its results from the model in f32, seconds from the start of loading to the first result (imports, the driver's start and, for torch.compile, the making of the
model apart), and the median time of a step. Kiln's package, Triton's and torch.compile start in turn, and after --seconds no more, so a run that is cut has each of them. Packages are loaded as C++ applications do it;
at the end Kiln's once more by PyTorch's function for Python, which compiles C++.
A process that is not done after --limit says where it is. Wanted are g++ and CUDA's headers, which AOTInductor needs: CUDA_HOME, /usr/local/cuda, or the wheel of the CUDA runtime that PyTorch came with.

The compiler is CXX, or g++. A package has to share libstdc++ with PyTorch: with a copy of its own it ends by a segmentation fault while it is loaded, whoever made its
kernels. So a library with std::regex is linked and run first. If it has a copy or crashes, Kiln and Triton both get FOLDER/cxx/g++ (of the compiler's name) in place of
the compiler: a script that leaves -static-libstdc++ and -static-libgcc out, and where a command links, puts the libstdc++.so.6 that PyTorch has loaded first.
"""
import argparse
import concurrent.futures
import ctypes
import faulthandler
import glob
import json
import os
import shlex
import shutil
import signal
import statistics
import subprocess
import sys
import time
import zipfile

import bytecode

STEPS = 200
BEGIN = time.perf_counter()
TARGETS = "sm_80,sm_90a"
LOADS = ("load", "load by Python")


# ------------------------------------------------------------------------------------ in processes of their own

def make_model(name):
    import torch
    from torch import nn

    class Block(nn.Module):
        def __init__(self, width=1024, heads=16):
            super().__init__()
            self.heads, self.before, self.after = heads, nn.RMSNorm(width), nn.RMSNorm(width)
            self.all, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
            self.gate, self.up, self.down = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, 3 * width, bias=False), nn.Linear(3 * width, width, bias=False)

        def forward(self, x):
            batch, rows, width = x.shape
            q, k, v = self.all(self.before(x)).view(batch, rows, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
            x = x + self.out(nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(x.shape))
            y = self.after(x)
            return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))

    torch.manual_seed(1)
    mlp = nn.Sequential(nn.Linear(512, 2048), nn.GELU(), nn.LayerNorm(2048), nn.Linear(2048, 2048), nn.GELU(), nn.LayerNorm(2048), nn.Linear(2048, 64), nn.Softmax(-1))
    model, shape = (mlp, (256, 512)) if name == "mlp" else (Block(), (4, 512, 1024))
    return model.bfloat16().cuda().eval(), torch.randn(shape).bfloat16().cuda()


def timed(begin, **parts):
    """Runs it for the first time, then again and again; parts and times in a line of JSON."""
    import torch
    start = time.perf_counter()
    run = begin()
    found = run()
    torch.cuda.synchronize()
    first, steps = time.perf_counter() - start, []
    for _ in range(STEPS):
        start = time.perf_counter()
        run()
        torch.cuda.synchronize()
        steps.append(time.perf_counter() - start)
    torch.save(found.float().cpu(), parts.pop("to"))
    print(json.dumps(dict(parts, first=first, step=statistics.median(steps))))


def loaded(path):
    """A package by the loader that C++ applications use. torch._inductor.aoti_load_package is the same, but first compiles C++ for each kind of vectors that a processor may
    have and starts a Python with PyTorch to load it, only to compare the processor with that of the package: 17 to 26 s."""
    import torch
    from torch.export.pt2_archive._package import AOTICompiledModel
    return AOTICompiledModel(torch._C._aoti.AOTIModelPackageLoader(path, "model", False, 1, -1))


def child(what, name, path, to):
    faulthandler.register(signal.SIGUSR1)  # of a process that takes too long: where each thread is
    start = time.perf_counter()
    if what.endswith(" kiln"):
        import kiln.triton.auto  # noqa: F401
    import torch
    import torch._inductor
    imports = time.perf_counter() - start
    torch.zeros(1, device="cuda").add_(1)
    torch.cuda.synchronize()
    driver = time.perf_counter() - start - imports
    if what.startswith("build"):
        model, x = make_model(name)
        start = time.perf_counter()
        with torch.no_grad():
            torch._inductor.aoti_compile_and_package(torch.export.export(model, (x,)), package_path=path)
        print(json.dumps({"seconds": time.perf_counter() - start}))
        return
    torch.set_grad_enabled(False)
    if what in LOADS:
        x, load = torch.load(path + ".input").cuda(), loaded if what == "load" else torch._inductor.aoti_load_package
        timed(lambda: lambda package=load(path): package(x), imports=imports, driver=driver, to=to)
        return
    model, x = make_model(name)
    if what == "eager":
        torch.save(x.cpu(), path)
        torch.save(model.float()(x.float()).cpu(), to)
        print("{}")
        return
    torch._inductor.config.cpp_wrapper = what.startswith("wrapper")
    torch.cuda.synchronize()
    timed(lambda: lambda compiled=torch.compile(model): compiled(x), imports=imports, driver=driver, to=to)


# ------------------------------------------------------------------------------------ here

TRIAL = """
#include <regex>
#include <stdexcept>
#include <string>
extern "C" int matches(const char *text) {
  try {
    return std::stoi(text);
  } catch (const std::invalid_argument &) {
    return std::regex_match(text, std::regex("cuda:[0-9]+"));
  }
}
"""

SCRIPT = """#!/bin/sh
# Of bench/aot_inductor.py: a compiler that links libstdc++ shared.
links=yes inputs=no
for one do
  shift
  case $one in
  -static-libstdc++ | -static-libgcc) continue ;;
  -c | -S | -E | -M | -MM | -fsyntax-only | *c++-header*) links=no ;;
  -*) ;;
  *.o | *.a | *.cpp | *.cc | *.cxx | *.c) inputs=yes ;;
  esac
  set -- "$@" "$one"
done
if [ $links$inputs = yesyes ]; then set -- %s "$@"; fi
exec %s "$@"
"""


def in_python(text, *arguments):
    """What a process with PyTorch prints; None where it ends by a signal or an error."""
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", "import ctypes, sys, torch\n" + text, *arguments], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    return None if done.returncode else done.stdout.decode().strip()


def trial(compiler, folder):
    """Why a library that this compiler links does not share libstdc++ with PyTorch; None: it does."""
    source, library = os.path.join(folder, "trial.cpp"), os.path.join(folder, "trial.so")
    with open(source, "w") as file:
        file.write(TRIAL)
    done = subprocess.run([*shlex.split(compiler), "-std=c++17", "-O1", "-fPIC", "-shared", source, "-o", library], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode:
        return "exit %d: %s" % (done.returncode, done.stdout.decode(errors="replace")[-1000:])
    with open(library, "rb") as file:
        if b"libstdc++.so" not in file.read():
            return "it has its own copy of libstdc++"
    return None if in_python("print(ctypes.CDLL(sys.argv[1]).matches(b'cuda:0'))", library) == "1" else "std::regex fails or crashes in a process with PyTorch"


def sharing_compiler(compiler, folder):
    """The compiler, or a script in the folder that has it link libstdc++ shared."""
    if shutil.which(shlex.split(compiler)[0]) is None:
        sys.exit("%s: this compiler is not there: CXX names one for C++" % compiler)
    os.makedirs(folder, exist_ok=True)
    why = trial(compiler, folder)
    if why is None:
        return compiler
    shared = in_python("print(next(line.split(None, 5)[5].strip() for line in open('/proc/self/maps') if '/libstdc++.so.6' in line))")
    if not shared:
        sys.exit("%s: %s, and PyTorch has loaded no libstdc++.so.6" % (compiler, why))
    script = os.path.join(folder, os.path.basename(shlex.split(compiler)[0]))  # PyTorch tells compilers apart by their names
    reasons = ["%s: %s" % (compiler, why)]
    for flags in (["-shared-libgcc"], []):
        with open(script, "w") as file:
            file.write(SCRIPT % (" ".join(map(shlex.quote, [*flags, "-Wl,--push-state,--no-as-needed", shared, "-Wl,--pop-state"])), compiler))
        os.chmod(script, 0o755)
        why = trial(script, folder)
        if why is None:
            return script
        reasons.append("with %s: %s" % (" ".join([*flags, shared]), why))
    sys.exit("no compiler that links libstdc++ shared:\n" + "\n".join(reasons))


class Machine:
    def __init__(self, package, folder, limit):
        self.package, self.folder, self.limit = os.path.abspath(package), os.path.abspath(folder), limit
        links = os.path.join(self.folder, "link")  # a machine that runs programs may have no libcuda.so, which the linker wants
        os.makedirs(links, exist_ok=True)
        driver = os.path.join(links, "libcuda.so")
        if not os.path.lexists(driver):
            os.symlink(self.driver(), driver)
        self.environment = bytecode.found_in({name: value for name, value in os.environ.items() if not name.startswith(("KILN_", "PYTHONPATH"))}, self.folder)
        compiler = sharing_compiler(os.environ.get("CXX", "g++"), os.path.join(self.folder, "cxx"))
        say("compiler: %s" % compiler)
        self.environment.update(CXX=compiler, CUDA_HOME=self.toolkit(), LIBRARY_PATH=os.pathsep.join([links, *filter(None, [os.environ.get("LIBRARY_PATH")])]),
                                TRITON_CACHE_DIR=os.path.join(self.folder, "triton"))

    @staticmethod
    def driver():
        """The file that the loader takes."""
        try:
            ctypes.CDLL("libcuda.so.1")
        except OSError as error:
            sys.exit("no driver of CUDA: %s" % error)
        with open("/proc/self/maps") as maps:
            return next(line.split()[-1] for line in maps if "/libcuda.so" in line)

    @staticmethod
    def toolkit():
        packages = [folder for path in sys.path for folder in glob.glob(os.path.join(path, "nvidia", "cu*"))]
        found = [folder for folder in (os.environ.get("CUDA_HOME"), "/usr/local/cuda", *packages)
                 if folder and os.path.exists(os.path.join(folder, "include", "cuda_runtime.h"))]
        if not found:
            sys.exit("CUDA's headers are not on this machine: CUDA_HOME names a folder that has include/cuda_runtime.h")
        return found[0]

    def run(self, what, name, path, to, **environment):
        cache = what if what.startswith("build") else what + " " + name  # compiled headers are in it too
        environment.setdefault("TORCHINDUCTOR_CACHE_DIR", os.path.join(self.folder, "cache " + cache).replace(" ", "-"))
        start = time.perf_counter()
        with subprocess.Popen([sys.executable, os.path.abspath(__file__), "child", what, name, path, to], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              env={**self.environment, **environment}, start_new_session=True) as process:
            try:
                output, errors = process.communicate(timeout=self.limit)
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGUSR1)
                time.sleep(1)
                os.killpg(process.pid, signal.SIGKILL)  # compilers that it started hold its output open
                raise Failed("%s %s: not done after %.0f s\n%s" % (what, name, self.limit, process.communicate()[1].decode(errors="replace")[-6000:]))
        if process.returncode:
            raise Failed("%s %s: exit %d\n%s" % (what, name, process.returncode, errors.decode(errors="replace")[-6000:]))
        return dict(json.loads(output.decode().splitlines()[-1]), process=time.perf_counter() - start)


class Failed(Exception):
    """Of a process."""


def say(text):
    print("[%3.0f s] %s" % (time.perf_counter() - BEGIN, text), flush=True)


def contents(path):
    """What the package has of each kind: {suffix: (count, bytes)}."""
    found = {}
    with zipfile.ZipFile(path) as archive:
        for one in archive.infolist():
            kind = "libkiln" if "libkiln.so" in one.filename else os.path.splitext(one.filename)[1]
            if kind == ".so" and b"libstdc++.so" not in archive.read(one):
                raise Failed("%s has its own copy of libstdc++, with which PyTorch's loader crashes (in std::regex): expected a package that was linked by CXX" % one.filename)
            if kind in (".kbundle", ".cubin", ".so", "libkiln"):
                found[kind] = found.get(kind, (0, 0))[0] + 1, found.get(kind, (0, 0))[1] + one.file_size
    return found


def median_of(rows):
    return {name: statistics.median(row[name] for row in rows) for name in rows[0]}


def parts_of(row):
    return "%.2f s of imports, %.2f of driver, %.2f to the first result; step %.3f ms; whole process %.1f s" % (row["imports"], row["driver"], row["first"], 1e3 * row["step"], row["process"])


def far_from(reference, path):
    import torch
    return (torch.load(path) - reference).abs().max().item()


class Model:
    def __init__(self, machine, name):
        self.machine, self.name, self.good, self.ready = machine, name, True, set()
        self.package = {who: self.path("-%s.pt2" % who) for who in ("kiln", "triton")}
        self.with_kiln = {"PYTHONPATH": machine.package, "KILN_TRITON_TARGETS": TARGETS, "KILN_CACHE_DIR": self.path("-kiln")}
        for path in self.package.values():
            if not os.path.lexists(path + ".input"):
                os.symlink(self.path(".input"), path + ".input")

    def path(self, ending):
        return os.path.join(self.machine.folder, self.name + ending)

    def prepare(self, who):
        """Makes the result in f32, a package, or the caches of torch.compile."""
        try:
            if who == "eager":
                self.machine.run("eager", self.name, self.path(".input"), self.path("-eager.result"))
            elif who == "compile":
                say("%s: torch.compile, empty caches: %s" % (self.name, parts_of(self.machine.run("compile", self.name, "", self.path("-compile.result")))))
            else:
                self.build(who)
            self.ready.add(who)
        except Failed as error:
            self.good = False
            say(str(error))

    def build(self, who):
        path = self.package[who]
        built = self.machine.run("build " + who, self.name, path, "", **(self.with_kiln if who == "kiln" else {}))
        found = contents(path)
        say("%s: package by %s: built in %.1f s; %s" % (self.name, who, built["seconds"], ", ".join("%d %s, %d bytes" % (count, kind, size) for kind, (count, size) in sorted(found.items()))))
        expected = {"kiln": (1, 1, 0), "triton": (0, 0, None)}[who]
        counts = tuple(found.get(kind, (0, 0))[0] for kind in (".kbundle", "libkiln", ".cubin"))
        self.good &= all(want is None or want == there for want, there in zip(expected, counts))

    def far(self, who):
        return far_from(self.reference, self.path("-%s.result" % who))

    def start(self, runs, until):
        """Starts what there is, in turn, and prints a row for each, then medians."""
        import torch
        titles, rows = {"kiln": "package by Kiln", "triton": "package by Triton", "compile": "torch.compile, warm caches"}, {}
        todo = runs * list(filter(self.ready.__contains__, titles))
        for who in todo + ["kiln"] * ("kiln" in self.ready):
            if time.perf_counter() - BEGIN > until:
                break
            last = sum(map(len, rows.values())) == len(todo)
            what = "compile" if who == "compile" else LOADS[last]
            try:
                row = self.machine.run(what, self.name, self.package.get(who, ""), self.path("-%s.result" % who))
                if last:
                    say("%s: by torch._inductor.aoti_load_package: %s" % (self.name, parts_of(row)))
                    break
                rows.setdefault(who, []).append(row)
                say("%s: %s: %s" % (self.name, titles[who], parts_of(rows[who][-1])))
            except Failed as error:
                self.good = False
                say(str(error))
        rows = {who: some for who, some in rows.items() if some}
        if not rows or "eager" not in self.ready:
            return
        self.reference = torch.load(self.path("-eager.result"))
        self.most = 1.5 * max((self.far(who) for who in ("triton", "compile") if who in rows), default=0.0) + 1e-6
        say("%-8s %-34s %10s %10s %10s %10s %10s %10s" % ("model", "seconds, medians", "processes", "imports", "driver", "first", "of all", "step, ms"))
        medians = {who: median_of(some) for who, some in rows.items()}
        for who, row in medians.items():
            spread = "%.2f..%.2f" % (min(one["first"] for one in rows[who]), max(one["first"] for one in rows[who]))
            say("%-8s %-34s %10d %10.2f %10.2f %10.2f %10s %10.3f   distance from f32 %.2g" % (
                self.name, titles[who], len(rows[who]), row["imports"], row["driver"], row["first"], spread, 1e3 * row["step"], self.far(who)))
        if len(medians) == len(titles):
            say("%-8s first result: Kiln's package %.1f x sooner than torch.compile with warm caches, %.2f x as long as Triton's package; a step %.3f x Triton's" % (
                self.name, medians["compile"]["first"] / medians["kiln"]["first"], medians["kiln"]["first"] / medians["triton"]["first"], medians["kiln"]["step"] / medians["triton"]["step"]))
        self.good &= "kiln" in rows and self.far("kiln") <= self.most

    def wrap(self, until):
        """torch.compile with cpp_wrapper by Kiln."""
        if not hasattr(self, "reference") or time.perf_counter() - BEGIN > until:
            return
        try:
            wrapped = self.machine.run("wrapper kiln", self.name, "", self.path("-wrapper.result"), **self.with_kiln)
        except Failed as error:
            self.good = False
            say(str(error))
            return
        say("%-8s torch.compile with cpp_wrapper by Kiln: a step %.3f ms, distance from f32 %.2g" % (self.name, 1e3 * wrapped["step"], self.far("wrapper")))
        self.good &= self.far("wrapper") <= self.most


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("package", metavar="PACKAGE")
    parser.add_argument("folder", metavar="FOLDER")
    parser.add_argument("models", nargs="*", metavar="MODEL")
    parser.add_argument("--runs", type=int, default=5, help="processes of each kind that are timed (5)")
    parser.add_argument("--together", action="store_true", help="all packages are built at the same time")
    parser.add_argument("--limit", type=float, default=600, metavar="N", help="seconds after which a process is ended (600)")
    parser.add_argument("--seconds", type=float, default=float("inf"), metavar="N", help="seconds after which no more is started")
    options = parser.parse_args()
    if not os.path.exists(os.path.join(options.package, "kiln", "__init__.py")):
        sys.exit("%s: has no package kiln" % options.package)
    machine = Machine(options.package, options.folder, options.limit)
    models = [Model(machine, name) for name in options.models or ("mlp", "block")]
    with concurrent.futures.ThreadPoolExecutor(16 if options.together else 1) as pool:
        list(pool.map(lambda work: work[0].prepare(work[1]), [(model, who) for model in models for who in ("eager", "kiln", "triton", "compile")]))
    for model in models:
        model.start(options.runs, options.seconds)
    for model in models:
        model.wrap(options.seconds)
    good = all(model.good for model in models)
    say("results and contents: %s" % ("as expected" if good else "NOT as expected"))
    return 0 if good else 1


if __name__ == "__main__":
    if sys.argv[1:2] == ["child"]:
        child(*sys.argv[2:])
    else:
        sys.exit(main())
