# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the sources say to tools/count-house.py: lines, functions, heads of files, tables by operation."""
import collections
import functools
import importlib.util
import os
import re
import subprocess

FOLDERS = ("base", "cache", "compiler", "kernels", "runtime", "targets", "tools", "tuner", "python")
OUTSIDE = "tools/ptx/"  # judges the product and is no part of it
SHORT = 6  # lines between the braces

Definition = collections.namedtuple("Definition", "path name line is_static head body calls is_value")


@functools.cache
def lint():
    """tools/lint-structure.py, which finds functions in C."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lint-structure.py")
    spec = importlib.util.spec_from_file_location("lint_structure", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def product_files():
    """What git knows in the product's folders."""
    listed = subprocess.run(["git", "ls-files", "-z", "--"] + list(FOLDERS), capture_output=True, text=True, check=True)
    return [p for p in listed.stdout.split("\0") if p and os.path.exists(p)]


def line_count(paths):
    return sum(open(p, "rb").read().count(b"\n") for p in paths if not p.startswith(OUTSIDE))


def has_head(path):
    with open(path, encoding="utf-8") as file:
        return lint().has_sentence(lint().head_of(file.read()))


def definitions(texts):
    """Every function of these texts (without comments), with the number of other places that name it, and whether they all take it as a value: a row of a
    table, a callback. A static function of a header is everybody's."""
    functions = lint().functions
    words = {path: collections.Counter(re.findall(r"[A-Za-z_]\w*", text)) for path, text in texts.items()}
    declared = {path: collections.Counter(re.findall(r"^[A-Za-z_][\w ]*[ *](\w+)\([^{};]*;", text, re.M)) for path, text in texts.items()}
    everywhere, declared_anywhere, found = collections.Counter(), collections.Counter(), []
    for path in texts:
        everywhere.update(words[path])
        declared_anywhere.update(declared[path])
    for path, text in sorted(texts.items()):
        for name, line, _, whole in functions(text) if path.endswith((".c", ".h", ".cpp")) else ():
            head, _, body = whole.partition("{")
            is_static = re.match(r"static\b", head) is not None
            is_local = is_static and not path.endswith(".h")
            used = words[path][name] - declared[path][name] if is_local else everywhere[name] - declared_anywhere[name]
            seen = [texts[path]] if is_local else texts.values()
            calls = used == 2 and sum(len(re.findall(r"\b%s\(" % name, t)) for t in seen) - (declared[path] if is_local else declared_anywhere)[name]
            found.append(Definition(path, name, line, is_static, head, body[:body.rindex("}")], used - 1, calls == 1))
    return found


def is_short_and_used_once(d):
    return d.calls == 1 and d.name != "main" and len(d.body.strip().split("\n")) <= SHORT


ARGUMENT = re.compile(r"\s*(?:\([\w *]+\))?[&*]?(?:\w+(?:(?:->|\.)\w+)*|-\d+|\"\")\s*")


def only_changes_a_signature(d):
    """One statement: a call whose arguments are names, fields and constants."""
    call = re.match(r"\s*(?:return\s+)?(?:\([\w *]+\)\s*)?\w+\(([^()]*(?:\([\w *]+\)[^()]*)*)\);\s*$", d.body)
    return bool(call) and all(ARGUMENT.fullmatch(a) for a in call[1].split(","))


def file_calls(texts, found):
    """Pairs of C files of which the first calls an external function of the second by name."""
    home = {d.name: d.path for d in found if not d.is_static and d.path.endswith((".c", ".cpp"))}
    own = {(d.path, d.name) for d in found}
    for path, text in texts.items():
        if path.endswith((".c", ".cpp")) and not path.startswith(OUTSIDE):
            for name in set(re.findall(r"[A-Za-z_]\w*(?=\()", text)):
                if name in home and (path, name) not in own:
                    yield path, home[name]


def circles(calls):
    """The strongly connected groups of a set of (caller, callee), each of two at least."""
    after = collections.defaultdict(set)
    for a, b in calls:
        after[a].add(b)

    def reach(start):
        seen, left = set(), [start]
        while left:
            for f in after[left.pop()] - seen:
                seen.add(f)
                left.append(f)
        return seen
    reached = {f: reach(f) for f in list(after)}
    return sorted({tuple(sorted({f} | {g for g in reached[f] if f in reached.get(g, ())})) for f in reached if f in reached[f]})


# What a row of a table has: a name, a number, a record, or one of two names.
CONSTANT = r"return (?:\(\w+\)\{|[^();]*;)"


def switches_by_operation(text, operation):
    """(line, name of the function) of switches with constants for an operation, which are tables in another form."""
    for name, line, _, whole in lint().functions(text):
        for m in re.finditer(r"\n( *)switch \([^;{]*\) \{\n(.*?)\n\1\}", whole, re.S):
            if len(re.findall(r"(?:case %s:\s*)+%s" % (operation, CONSTANT), m[2])) >= 3:
                yield line, name


def tables_by_operation(texts, operations):
    """Arrays, switches and .def files with a row per operation, outside ops.def (and the array made of it) and outside of the lowerings, which are
    the files in a folder `codegen`: (place, name)."""
    operation = r"IR_(?:%s)\b" % "|".join(operations)
    for path, text in sorted(texts.items()):
        if "/codegen/" in path or path.endswith("/ops.def"):
            continue
        if path.endswith(".def"):
            if len(re.findall(r"^\w+\(.*\b%s" % operation, text, re.M)) >= 3:
                yield path, os.path.basename(path)
            continue
        for line, name in switches_by_operation(text, operation):
            yield "%s:%d" % (path, line), name
        for m in re.finditer(r"(\w+)\[([^\]\n]*)\]\)?(?:\([^;{]*?\))? = \{", text):
            rows, depth = m.end(), 1
            while depth and rows < len(text):
                depth += {"{": 1, "}": -1}.get(text[rows], 0)
                rows += 1
            inside = text[m.end():rows]
            is_by_code = m[2] == "IR_OPCODE_COUNT" or len(re.findall(r"\[%s *\] *=" % operation, inside)) >= 3
            has_rows = len(re.findall(r"\{[^{}]*\b%s[^{}]*\}" % operation, inside)) >= 3
            if (is_by_code or has_rows) and m[1] != "ir_ops":
                yield "%s:%d" % (path, text.count("\n", 0, m.start()) + 1), m[1]
