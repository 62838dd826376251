#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compares what the compiler makes now with what it made before.

A set is a folder: items.tsv has one line per item (source, kernel, config, target, stage, value, digest of a text), texts/ the texts,
compressed, by their SHA-256. Stages:

  source      the text of a kernel source
  canonical   size and digest of the canonical bytes, as the key has them
  key         all other fields of the key but the compiler's own
  messages    what was printed while compiling, and why a source has no keys
  ptx, hsaco, object   the code, or the error where there is none

The quick form compiles the first config of every kernel of the library and 60 recorded texts for 8 processors; the full form every config
and every recorded text for every processor. Both compare canonical bytes and keys of every source in the tree and of every recorded text.
"""
import argparse
import collections
import concurrent.futures
import difflib
import gzip
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import threading

import code_costs

ROOT = os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
QUICK_TARGETS = ["sm_80", "sm_90a", "sm_120a", "gfx90a", "gfx942", "gfx1100", "x86-64-v3", "aarch64"]
QUICK_TEXTS = 60
ONE_TARGET = ["x86-64-v3"]  # of the recorded texts that the quick form does not compile
STAGES = ["source", "canonical", "key", "messages", "ptx", "hsaco", "object"]
CASES = "../shared/triton-cases"
Item = collections.namedtuple("Item", "source kernel config target stage")


class Complaint(Exception):
    """What the user is told instead of a result."""


def complain(text):
    raise Complaint(text)


# ------------------------------------------------------------------------------------------------------------------- sets
class Set:
    """Items with their values, and texts by digest. Threads add to it."""

    def __init__(self, folder):
        self.folder, self.items, self.lock = folder, {}, threading.Lock()

    def path(self, digest):
        return os.path.join(self.folder, "texts", digest[:2], digest + ".gz")

    def keep(self, content):
        digest = hashlib.sha256(content).hexdigest()
        path = self.path(digest)
        if not os.path.exists(path):
            os.makedirs(os.path.dirname(path), exist_ok=True)
            handle, name = tempfile.mkstemp(dir=os.path.dirname(path))
            with os.fdopen(handle, "wb") as raw, gzip.GzipFile("", "wb", 6, raw, mtime=0) as out:
                out.write(content)
            os.replace(name, path)
        return digest

    def add(self, item, content, value=None):
        """`value` is compared; without it the digest of the content is."""
        digest = self.keep(content) if content is not None else "-"
        with self.lock:
            self.items[item] = (value or digest, digest)

    def content(self, digest):
        with gzip.open(self.path(digest)) as f:
            return f.read()

    def save(self, about):
        lines = ["\t".join([*item, *value]) + "\n" for item, value in sorted(self.items.items())]
        with open(os.path.join(self.folder, "items.tsv"), "w", encoding="utf-8") as out:
            out.writelines(lines)
        with open(os.path.join(self.folder, "about.json"), "w", encoding="utf-8") as out:
            json.dump(about, out, indent=1, sort_keys=True)

    @staticmethod
    def load(folder):
        loaded = Set(folder)
        with open(os.path.join(folder, "items.tsv"), encoding="utf-8") as lines:
            for line in lines:
                fields = line.rstrip("\n").split("\t")
                loaded.items[Item(*fields[:5])] = (fields[5], fields[6])
        with open(os.path.join(folder, "about.json"), encoding="utf-8") as about:
            return loaded, json.load(about)


# ----------------------------------------------------------------------------------------------------------------- compiling
class Maker:
    """Makes the set of one tree with one compiler."""

    def __init__(self, tree, kiln, into, options):
        self.tree, self.kiln, self.set, self.options = tree, kiln, into, options
        self.scratch = tempfile.mkdtemp(prefix="same-code.")
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith("KILN_")}
        self.environment["LC_ALL"] = "C"
        self.environment["KILN_CACHE_DIR"] = os.path.join(self.scratch, "cache")
        self.is_full = options.form == "full"

    def run(self, folder, *words):
        """Exit code, standard output, standard error."""
        done = subprocess.run([self.kiln, *words], cwd=folder, env=self.environment, stdin=subprocess.DEVNULL, capture_output=True, check=False)
        return done.returncode, done.stdout, done.stderr.replace(self.scratch.encode() + b"/", b"")

    @staticmethod
    def parse(out, source, target):
        try:
            return json.loads(out)
        except ValueError:
            complain("%s %s: expected JSON, found %r" % (source, target, out[:200]))

    def targets(self):
        if self.options.targets:
            return self.options.targets.split(",")
        if not self.is_full:
            return QUICK_TARGETS
        code, out, errors = self.run(self.tree, "targets")
        if code:
            complain("`kiln targets` failed: " + errors.decode())
        return [line.split()[0] for line in out.decode().splitlines() if not line.startswith("native")]

    # Canonical bytes and keys.
    def keys(self, folder, source, words, target):
        """[(kernel, config, canonical)] in the order of `kiln key`."""
        code, out, errors = self.run(folder, "key", "--json", "--ptx-assembler=none", "-t", target, *words, source)
        if errors:
            self.set.add(Item(source, "", "", target, "messages"), errors)
        found = []
        for row in self.parse(out, source, target) if not code else []:
            kernel, _, config = row["title"].rpartition(" for ")[0].partition(" ")
            fields = {name: value for name, value in row["fields"].items() if name not in ("compiler", "ir")}
            self.set.add(Item(source, kernel, config, target, "key"), "".join("%s: %s\n" % f for f in fields.items()).encode())
            self.set.add(Item(source, kernel, config, target, "canonical"), None, row["fields"]["ir"])
            found.append((kernel, config, row["fields"]["ir"]))
        return found

    def keys_of(self, folder, source, words, targets):
        """Adds keys for all targets, with the text of each canonical form of a kernel's first config, and returns for each target the
        first config of each kernel: kernel to its name with the last variant."""
        firsts, texts = {}, {}
        with open(os.path.join(folder, source), "rb") as text:
            self.set.add(Item(source, "", "", "", "source"), text.read())
        for target in targets:
            firsts[target] = {}
            for kernel, config, canonical in self.keys(folder, source, words, target):
                first = firsts[target].setdefault(kernel, (config, canonical))
                if first[0].split(" (")[0] == config.split(" (")[0]:
                    firsts[target][kernel] = (config, canonical)
            for kernel, (config, canonical) in firsts[target].items():
                if (kernel, canonical) not in texts:
                    _, out, _ = self.run(folder, "compile", "--emit=ir", "-o", "-", "-t", target, "-k", kernel, *words, source)
                    texts[kernel, canonical] = out
                self.set.add(Item(source, kernel, config, target, "canonical"), texts[kernel, canonical], canonical)
        return {target: {kernel: first[0] for kernel, first in kernels.items()} for target, kernels in firsts.items()}

    # Code.
    @staticmethod
    def stage(target):
        return "ptx" if target.startswith("sm_") else "hsaco" if target.startswith("gfx") else "object"

    def compile_first(self, source, kernel, config, target):
        code, out, errors = self.run(self.tree, "compile", "--ptx-assembler=none", "-j1", "-o", "-", "-t", target, "-k", kernel, source)
        if errors and not code:
            self.set.add(Item(source, kernel, config, target, "messages"), errors)
        self.set.add(Item(source, kernel, config, target, self.stage(target)), errors if code else out)

    def build_all(self, folder, source, words, targets):
        """Every config of every kernel of a source, through the cache."""
        cache = tempfile.mkdtemp(dir=self.scratch)
        bundle = os.path.join(cache, "bundle")
        code, out, errors = self.run(folder, "build", "--json", "--no-tuned", "--ptx-assembler=none", "-j1", "-q", "--max-objects=1000000",
                                     "--cache-dir=" + cache, "-o", bundle, "-t", ",".join(targets), *words, source)
        errors = errors.replace(cache.encode(), b"")
        if errors:
            self.set.add(Item(source, "", "", ",".join(targets), "messages"), errors)
        for job in self.parse(out, source, "")["jobs"] if out.startswith(b"{") else []:
            config = job["config"] + (" (%s)" % job["variant"] if job["variant"] else "")
            payload = b"failed\n"
            if job["state"] != "failed":
                _, payload, _ = self.run(folder, "cache", "extract", "--cache-dir=" + cache, job["key"])
            self.set.add(Item(source, job["kernel"], config, job["target"], self.stage(job["target"])), payload)
        shutil.rmtree(cache)
        return code

    # What there is to do.
    def sources(self):
        """Kernel sources of the tree. Those in front/ are parts of the compiler."""
        found = []
        for folder, folders, files in os.walk(self.tree):
            folders[:] = sorted(f for f in folders if not f.startswith(".") and f not in ("build", "front"))
            found += [os.path.relpath(os.path.join(folder, f), self.tree) for f in files if f.endswith((".kiln", ".ttir"))]
        return sorted(f for f in found if not self.options.only or re.search(self.options.only, f))

    def recorded(self):
        """Unpacks the recorded texts: [(source, words)]."""
        found = []
        archives = [os.path.join(self.options.cases, name) for name in ("cases.tar.xz", "cases-2.tar.xz")]
        if self.options.only or not all(map(os.path.exists, archives)):
            if not self.options.only:
                print("same-code: %s is not there: no recorded text is compared" % self.options.cases, file=sys.stderr)
            return []
        for archive in archives:
            with tarfile.open(archive) as members:
                cases = {}
                for member in members:
                    name, _, part = member.name.rpartition("/")
                    if part in ("kernel.ttir", "case.json"):
                        cases.setdefault(os.path.basename(name), {})[part] = members.extractfile(member).read()
            for name, parts in sorted(cases.items()):
                facts = json.loads(parts["case.json"])
                with open(os.path.join(self.scratch, name + ".ttir"), "wb") as out:
                    out.write(parts["kernel.ttir"])
                found.append((name + ".ttir", ["--warps=%s" % facts["num_warps"], "--stages=%s" % facts["num_stages"]]))
        return found

    def recorded_text(self, source, words, targets, is_compiled):
        self.keys_of(self.scratch, source, words, targets if is_compiled else ONE_TARGET)
        if is_compiled:
            self.build_all(self.scratch, source, words, targets)

    def library_source(self, source, targets, later):
        firsts = self.keys_of(self.tree, source, [], targets)
        if self.is_full:
            return [later(self.build_all, self.tree, source, [], [target]) for target in targets]
        if not source.startswith("kernels/"):
            return []
        return [later(self.compile_first, source, kernel, config, target) for target, kernels in firsts.items() for kernel, config in kernels.items()]

    def make(self):
        targets, recorded = self.targets(), self.recorded()
        step = 1 if self.is_full else max(1, len(recorded) // QUICK_TEXTS)
        chosen = set(source for source, _ in recorded[::step][: None if self.is_full else QUICK_TEXTS])
        try:
            self.run(self.tree, "targets")
            with concurrent.futures.ThreadPoolExecutor(self.options.jobs) as pool:
                waiting = [pool.submit(self.library_source, source, targets, pool.submit) for source in self.sources()]
                waiting += [pool.submit(self.recorded_text, source, words, targets, source in chosen) for source, words in recorded]
                progress = Progress()
                while waiting:
                    first = waiting.pop(0)
                    waiting += first.result() or []
                    progress.step(len(waiting))
        finally:
            shutil.rmtree(self.scratch)
        self.set.save({"form": self.options.form, "targets": targets, "recorded": len(recorded)})


class Progress:
    """One line on standard error that is written over; a line now and then where that is no terminal."""

    def __init__(self):
        self.done, self.told = 0, 0

    def step(self, left):
        self.done += 1
        share = 100 * self.done // (self.done + left)
        if sys.stderr.isatty():
            print("\rsame-code: %d of %d" % (self.done, self.done + left), end="" if left else "\n", file=sys.stderr, flush=True)
        elif share >= self.told + 20 or not left:
            self.told = share
            print("same-code: %d of %d" % (self.done, self.done + left), file=sys.stderr, flush=True)


# ---------------------------------------------------------------------------------------------------------------- comparing
def llvm_version():
    return re.search(r"^LLVM_VERSION \?= (\d+)", open(os.path.join(ROOT, "Makefile"), encoding="utf-8").read(), re.M).group(1)


def disassembled(content, *words):
    """What LLVM's tools show of an object: lines; none where they are absent."""
    tool = code_costs.tool(words[0], llvm_version())
    if not tool:
        return []
    with tempfile.NamedTemporaryFile() as f:
        f.write(content)
        f.flush()
        out = subprocess.run([tool, *words[1:], f.name], capture_output=True, check=False).stdout.decode("utf-8", "replace")
    return [line for line in out.splitlines() if f.name not in line]


def lines_of(before, now):
    """Both contents as lines that differ where the contents do, as far as that can be shown."""
    if not before.startswith(b"\x7fELF") or not now.startswith(b"\x7fELF"):
        return [c.decode("utf-8", "replace").splitlines() if not c.startswith(b"\x7fELF") else ["an object"] for c in (before, now)]
    for words in (("llvm-objdump", "-d", "--no-show-raw-insn", "--no-leading-addr"), ("llvm-objdump", "-s"), ("llvm-readobj", "-a")):
        both = [disassembled(c, *words) for c in (before, now)]
        if both[0] != both[1]:
            return both
    return [["object of %d bytes, SHA-256 %s" % (len(c), hashlib.sha256(c).hexdigest())] for c in (before, now)]


def show(before, now, most):
    """A short difference."""
    both = lines_of(before, now)
    changed = list(difflib.unified_diff(*both, "before", "now", n=1, lineterm=""))[2:] if max(map(len, both)) < 20000 else []
    if not changed:  # too long for a good difference: the first lines that are not the same
        at = next((i for i, (a, b) in enumerate(zip(*both)) if a != b), min(map(len, both)))
        changed = ["@@ line %d @@" % (at + 1)] + ["%s%s" % (sign, lines[i]) for sign, lines in zip("-+", both) for i in range(at, min(at + 3, len(lines)))]
    for line in changed[:most]:
        print("    " + line[:200])
    if len(changed) > most:
        print("    and %d more lines" % (len(changed) - most))


def show_one_sided(items, before, sources_of_both):
    """Items of one source that one set lacks: in a line where it lacks the source."""
    side = lambda item: "only before" if item in before.items else "only now"
    if items[0].source not in sources_of_both:
        print("%s: %s (%d items)" % (side(items[0]), items[0].source, len(items)))
        return
    for item in items:
        print("%s: %s: %s" % (side(item), " ".join(filter(None, item[:4])), item.stage))


def in_order(item):
    return (item.source, item.kernel, item.config, item.target, STAGES.index(item.stage))


def compare(before, now, options):
    """Prints what differs; returns the exit code."""
    both = sorted(before.items.keys() & now.items.keys(), key=in_order)
    one_sided = sorted(before.items.keys() ^ now.items.keys(), key=in_order)
    differ = [item for item in both if before.items[item][0] != now.items[item][0]]
    changed_sources = set(item.source for item in differ if item.stage == "source")
    shown = set()
    for item in differ:
        texts = before.items[item][1], now.items[item][1]
        mark = " (its source differs)" if item.source in changed_sources and item.stage != "source" else ""
        print("differs: " + " ".join(filter(None, item[:4])) + ": " + item.stage + mark)
        if "-" in texts:
            print("    before: %s\n    now: %s" % (before.items[item][0], now.items[item][0]))
        elif texts in shown:
            print("    the same difference as above")
        elif options.all or len(shown) < options.most_shown:
            show(before.content(texts[0]), now.content(texts[1]), options.lines)
            shown.add(texts)
    if options.costs:
        codes = [(i, before.items[i][1], now.items[i][1]) for i in differ if i.stage in ("ptx", "hsaco")]
        code_costs.compare([(" ".join(filter(None, i[:4])), i.stage, i.target, before.content(a), now.content(b)) for i, a, b in codes if "-" not in (a, b)],
                           llvm_version(), options.jobs)
    for source in sorted(set(item.source for item in one_sided)):
        show_one_sided([item for item in one_sided if item.source == source], before, set(item.source for item in both))
    print("%d compared, %d differ, %d missing" % (len(both), len(differ), len(one_sided)))
    return 1 if differ or one_sided or not both else 0


# ----------------------------------------------------------------------------------------------------------------- commands
def git(*words):
    done = subprocess.run(["git", "-C", ROOT_OF_SOURCES, *words], capture_output=True, text=True, check=False)
    if done.returncode:
        complain("git %s: %s" % (words[0], done.stderr.strip()))
    return done.stdout.strip()


def make_set(tree, build, folder, options):
    """A set is complete or not there."""
    kiln = os.path.realpath(os.path.join(build, "bin", "kiln"))
    if not os.path.exists(kiln):
        complain("%s is not there: run make first" % kiln)
    os.makedirs(os.path.dirname(os.path.abspath(folder)), exist_ok=True)
    unfinished = tempfile.mkdtemp(prefix=".unfinished.", dir=os.path.dirname(os.path.abspath(folder)))
    try:
        made = Set(unfinished)
        Maker(tree, kiln, made, options).make()
        shutil.rmtree(folder, ignore_errors=True)
        os.rename(unfinished, folder)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    made.folder = folder
    return made


def set_of_revision(revision, options):
    """The folder of a commit's set, made by its own compiler of its own sources in a work tree that is removed again."""
    commit = git("rev-parse", "--verify", revision + "^{commit}")
    folder = os.path.join(options.store, "%s.%s" % (commit, options.form))
    if os.path.exists(folder):
        return folder
    os.makedirs(options.store, exist_ok=True)
    tree = tempfile.mkdtemp(prefix="tree.", dir=options.store)
    try:
        git("worktree", "add", "--detach", "--force", tree, commit)
        print("same-code: building the compiler of %s" % commit[:12], file=sys.stderr, flush=True)
        programs = ["build/release/bin/" + name for name in ("kiln", "kiln-codegen", "kiln-tool")]
        environment = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL", "BASE", "B", "CONFIG")}
        done = subprocess.run(["make", "-j%d" % options.jobs, *programs], cwd=tree, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        if done.returncode:
            complain("%s does not build:\n%s" % (commit[:12], done.stdout[-2000:]))
        make_set(tree, os.path.join(tree, "build/release"), folder, options)
    finally:
        subprocess.run(["git", "-C", ROOT_OF_SOURCES, "worktree", "remove", "--force", tree], capture_output=True, check=False)
        shutil.rmtree(tree, ignore_errors=True)
    return folder


def parse_words():
    p = argparse.ArgumentParser(prog="same-code.py", description="Compares what the compiler makes now with a saved set.")
    p.add_argument("verb", choices=("save", "compare"))
    p.add_argument("folder", nargs="?", help="of the saved set (default: in the store)")
    p.add_argument("--base", help="compare with, or save, the set of this commit")
    p.add_argument("--form", choices=("quick", "full"), default="quick")
    p.add_argument("--tree", default=ROOT, help="whose sources are compiled, and whose commits --base names")
    p.add_argument("--build", help="with bin/kiln (default: build/release of the tree)")
    p.add_argument("--store", help="folder of sets (default: build/same-code of the tree)")
    p.add_argument("--cases", help="folder of the recorded texts (default: %s beside the tree)" % CASES)
    p.add_argument("--targets", help="these processors only, with commas")
    p.add_argument("--only", metavar="PATTERN", help="only sources of the tree whose path has this in it, and no recorded text")
    p.add_argument("--jobs", type=int, default=os.cpu_count())
    p.add_argument("--lines", type=int, default=12, help="lines of a difference that are shown")
    p.add_argument("--most-shown", type=int, default=30, help="differences that are shown with their lines")
    p.add_argument("--costs", action="store_true", help="registers, spills, shared memory and instructions of GPU code that differs, before and now")
    p.add_argument("--all", action="store_true", help="show the lines of every difference")
    return p.parse_args()


def main():
    global ROOT_OF_SOURCES
    options = parse_words()
    tree = ROOT_OF_SOURCES = os.path.realpath(options.tree)
    options.build = options.build or os.path.join(tree, "build/release")
    options.store = options.store or os.path.join(tree, "build/same-code")
    options.cases = options.cases or os.path.join(tree, CASES)
    folder = options.folder or os.path.join(options.store, options.form)
    if options.base:
        folder = set_of_revision(options.base, options)
    if options.verb == "save":
        if not options.base:
            made = make_set(tree, options.build, folder, options)
            print("%d items saved" % len(made.items))
        return 0
    if not os.path.exists(os.path.join(folder, "items.tsv")):
        complain("no set is saved in %s; `make same-code-save` saves one, SINCE=<commit> takes that of a commit" % folder)
    before, about = Set.load(folder)
    with tempfile.TemporaryDirectory(prefix="now.", dir=os.path.dirname(os.path.abspath(folder))) as now_folder:
        now = make_set(tree, options.build, os.path.join(now_folder, "set"), options)
        _, about_now = Set.load(now.folder)
        if about != about_now:
            print("the saved set is of %s, this one of %s" % (json.dumps(about, sort_keys=True), json.dumps(about_now, sort_keys=True)))
        return compare(before, now, options)


try:
    sys.exit(main())
except Complaint as complaint:
    print("same-code: error: %s" % complaint, file=sys.stderr)
    sys.exit(2)
