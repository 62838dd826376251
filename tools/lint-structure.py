#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the structure of the C sources comes to, in numbers; docs/architecture.md has them under "Structure".

    tools/lint-structure.py [--all] [COMMIT]

Of the work tree, or of a commit. Fails when a number is above what LIMITS says, naming the places. --all names all places, and counts the files
that clang-format would change too (`make lint-quick` checks the format by itself)."""
import collections
import os
import re
import subprocess
import sys
import tempfile

PRODUCTS = ("base", "targets", "compiler", "cache", "tuner", "runtime", "tools", "python")
# Here each C file begins with a sentence that says what it is for.
HEADED = ("base", "bench", "cache", "compiler", "examples", "python", "runtime", "targets", "tests", "tools", "tuner")
# Longer ones say why in a comment that begins with "Long:", before the function or in it, or at the head of the file.
FILE_LINES, FUNCTION_LINES = 900, 100
COMMENT_COLUMNS = 132  # code has 110; a table may be wider
# What may be there; the others are told, not judged.
LIMITS = {"opcode ranges": 0, "family tests": 0, "cycles of folders": 0, "further analyses of provenance": 0, "own messages searched": 0,
          "operands by place": 0, "functions that nothing calls": 0, "long functions": 0, "long files": 0, "long files of tests": 0,
          "files that do not say what they are for": 0, "long lines of comments": 0,
          "writers of files past base/output.c": 1}  # what a program prints, in a folder that export_c.c has just made


def read_sources():
    sources = {}
    for top in PRODUCTS:
        for folder, _, names in os.walk(top):
            for name in names:
                if name.endswith((".c", ".h", ".cpp")):
                    path = os.path.join(folder, name)
                    sources[path] = open(path, encoding="utf-8").read()
    return sources


def without_comments(text):
    """Comments and texts as blanks, lines kept."""
    blank = lambda m: re.sub(r"[^\n]", " ", m.group()) if m.group()[0] == "/" else '""'
    return re.sub(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', blank, text, flags=re.S)


def functions(text):
    """(name, first line, lines, body) of each function that begins in the first column and ends with } there."""
    lines = text.split("\n")
    start, is_data = None, False
    for number, line in enumerate(lines):
        is_data = is_data or start is None and re.match(r"[A-Za-z_][^(){]*=", line) is not None
        if is_data:
            is_data = not line.endswith(";")
            continue
        if start is None and re.match(r"[A-Za-z_]", line) and not re.match(r"(typedef|enum|struct|union|extern)\b[^(]*$", line):
            start = number
        if start is not None and line.endswith(";") and "{" not in "".join(lines[start:number + 1]):
            start = None
        if line == "}" and start is not None:
            body = "\n".join(lines[start:number + 1])
            name = re.match(r"[^(]*?(\w+)\(", body)
            if name and "{" in body:
                yield name[1], start + 1, number + 1 - start, body
            start = None
        elif start is not None and line.endswith("}") and number == start:
            name = re.match(r"[^(]*?(\w+)\(.*\) \{", line)
            if name:
                yield name[1], number + 1, 1, line
            start = None
        elif start is not None and line.startswith("};"):
            start = None


def matches(sources, pattern, folders=PRODUCTS):
    for path, text in sorted(sources.items()):
        if path.startswith(tuple(f + "/" for f in folders)):
            for m in re.finditer(pattern, text):
                yield "%s:%d" % (path, text.count("\n", 0, m.start()) + 1)


def opcode_ranges(sources):
    rows = open("compiler/ir/ops.def" if os.path.exists("compiler/ir/ops.def") else "compiler/ops.def", encoding="utf-8").read()
    code = r"IR_(?:%s)\b" % "|".join(re.findall(r"^OP\((\w+)", rows, re.M))
    return matches(sources, r"(?:[^<>=\-][<>]=?|>=|<=)\s*(?:\([a-z_ ]+\))?%s|\b%s\s*(?:[<>]=?)\s" % (code, code), ("compiler",))


def cycles(sources):
    uses = collections.defaultdict(set)
    for path, text in sources.items():
        here = re.match(r"compiler/([a-z]+)/", path)
        for there in re.findall(r'#include "compiler/([a-z]+)/', text) if here else ():
            uses[here[1]].add(there)

    def reach(folder, seen):
        for f in uses[folder] - seen:
            seen.add(f)
            reach(f, seen)
        return seen
    reached = {f: reach(f, set()) for f in list(uses)}
    return sorted("compiler/%s <-> compiler/%s" % (a, b) for a in reached for b in reached[a] if a < b and a in reached.get(b, ()))


def provenance(sources):
    """Functions that follow a pointer through IR_PTRADD in a loop or by themselves, to say where it comes from."""
    for path, text in sorted(sources.items()):
        if not path.startswith("compiler/") or path.endswith("analysis/provenance.c"):
            continue
        for name, line, _, body in functions(text):
            inside = body[body.index("{"):]
            follows = re.search(r"\b(while|for)\b", inside) or re.search(r"\b%s\(" % name, inside)
            others = re.search(r"IR_MUL\b|LLVMBuild|\b(ir_emit|ir_binary|emit_\w+)\(", inside)
            if follows and not others and re.search(r"\bdef\b", inside) and re.search(r"IR_PTRADD|IR_PASSES", inside):
                yield "%s:%d: %s" % (path, line, name)


def uncalled(sources):
    """External functions whose name stands at their definition and declarations only, in all C of the tree, tests too."""
    names = collections.defaultdict(list)
    for path, text in sorted(sources.items()):
        for name, line, _, body in functions(text):
            if not re.match(r"(static|PyMODINIT_FUNC|LLD_)\b", body) and name != "main":
                names[name].append("%s:%d: %s" % (path, line, name))
    words, pasted = collections.Counter(), set()
    for folder, inner, files in os.walk("."):
        inner[:] = [d for d in inner if os.path.join(folder, d) not in ("./build", "./.git")]
        for f in files:
            if f.endswith((".c", ".h", ".cpp", ".inc", ".def", ".mk", ".map", ".py")):
                text = open(os.path.join(folder, f), encoding="utf-8").read()
                text = text if f.endswith((".py", ".map", ".mk")) else without_comments(text)
                words.update(re.findall(r"[A-Za-z_]\w+", text))
                pasted.update(re.findall(r"(\w{6,}) ?##", text))
                words.update(re.findall(r"(\w+)\([^;]*\) __asm__\(", text))  # called by another name
                # What begins in the first column declares or defines.
                words.subtract(re.findall(r"^[A-Za-z_][\w ]*[ *](\w+)\(", text, re.M))
    for name, places in sorted(names.items()):
        if words[name] <= 0 and not name.startswith(tuple(pasted)):
            yield from places


def says_why(path, first, last):
    """Whether a comment in these lines gives the reason for a length."""
    lines = open(path, encoding="utf-8").read().split("\n")
    return any(re.search(r"// Long: \w+ \w+", line) for line in lines[max(first, 0):last])


def long_functions(sources):
    for path, text in sorted(sources.items()):
        for name, line, count, _ in functions(text):
            if count > FUNCTION_LINES and not says_why(path, line - 8, line + count):
                yield "%s:%d: %s has %d lines" % (path, line, name, count)


def long_tests():
    for folder, _, names in sorted(os.walk("tests")):
        for name in sorted(names):
            if name.endswith((".c", ".h", ".inc", ".py")):
                path = os.path.join(folder, name)
                count = open(path, encoding="utf-8").read().count("\n")
                if count > FILE_LINES and not says_why(path, 0, 12):
                    yield "%s has %d lines" % (path, count)


def head_of(text):
    """The words of the comment at the head of a file, without the licence."""
    lines = []
    for line in text.split("\n"):
        if not line.startswith("//"):
            break
        if "SPDX-License-Identifier" not in line:
            lines.append(line[2:].strip())
    return " ".join(lines).strip()


def has_sentence(head):
    """Begins with a sentence of at least three words; its end may be a colon before a list."""
    words = head.split()
    end = next((i for i, w in enumerate(words) if w[-1] in ".?" or (i > 1 and w[-1] == ":")), 0)
    return end > 1


def silent():
    for top in HEADED:
        for folder, _, names in sorted(os.walk(top)):
            for path in sorted(os.path.join(folder, n) for n in names if n.endswith(".c")):
                if not has_sentence(head_of(open(path, encoding="utf-8").read())):
                    yield path + ": expected a comment that begins with a sentence after the licence"


def long_comments():
    """The formatter leaves comments alone, so it does not see these."""
    for top in PRODUCTS + ("bench", "examples", "tests"):
        for folder, _, names in sorted(os.walk(top)):
            for path in sorted(os.path.join(folder, n) for n in names if n.endswith((".c", ".h", ".cpp"))):
                for number, line in enumerate(open(path, encoding="utf-8"), 1):
                    if "//" in line and len(line.rstrip("\n")) > COMMENT_COLUMNS:
                        yield "%s:%d has %d columns" % (path, number, len(line) - 1)


def writers(sources):
    """Whoever writes a file for users does it by base/output.h; the cache has files of its own."""
    files = {p: t for p, t in sources.items() if not p.startswith(("cache/", "tools/house/")) and p not in ("base/output.c", "base/fs.c")}
    return matches(files, r'\bfopen\([^;"]*"[wa]|(?<!kiln_store_open_own\(store, "lock", O_RDWR \| )\bO_CREAT\b|\bcreat\(')


def unformatted():
    files = [f for f in subprocess.run(["git", "ls-files", "*.c", "*.h", "*.cpp"], capture_output=True, text=True).stdout.split()] or \
            [os.path.join(d, n)[2:] for d, _, names in os.walk(".") for n in names if n.endswith((".c", ".h", ".cpp"))]
    for f in files:
        if subprocess.run([os.environ.get("FORMAT", "clang-format-14"), "--dry-run", "-Werror", f], capture_output=True).returncode:
            yield f
    print("%6d  files of C" % len(files))


def count(want_all):
    sources = {path: without_comments(text) if path != "" else text for path, text in read_sources().items()}
    includes = {path: open(path, encoding="utf-8").read() for path in sources}
    found = {
        "opcode ranges": opcode_ranges(sources),
        "family tests": matches(sources, r"[=!]= *KILN_FAMILY_(?!COUNT)|KILN_FAMILY_(?!COUNT)\w+ *[=!]=|case KILN_FAMILY_"),
        "cycles of folders": cycles(includes),
        "further analyses of provenance": provenance(sources),
        # blame.c reads what LLVM and assemblers say, who name places in texts only
        "own messages searched": matches({p: t for p, t in includes.items() if not p.endswith("/blame.c")}, r"strstr\((?:\w+(?:->|\.))*err(?:or)?(?:->|\.)text"),
        "operands by place": matches(sources, r"(?:->|\.)operands\[[1-9] ?\+", ("compiler",)),
        "functions that nothing calls": uncalled(sources),
        "long functions": long_functions(sources),
        "long files": ("%s has %d lines" % (p, t.count("\n")) for p, t in sorted(sources.items())
                       if t.count("\n") > FILE_LINES and not says_why(p, 0, 12)),
        "long files of tests": long_tests(),
        "files that do not say what they are for": silent(),
        "long lines of comments": long_comments(),
        "writers of files past base/output.c": writers(includes),
    }
    if want_all:
        found["files that clang-format would change"] = unformatted()
    bad = False
    for name, places in found.items():
        places = list(places)
        is_over = len(places) > LIMITS.get(name, len(places))
        print("%6d  %s%s" % (len(places), name, " (at most %d)" % LIMITS[name] if is_over else ""))
        if is_over or want_all:
            print("".join("          %s\n" % p for p in places), end="")
        bad |= is_over
    return bad


def main():
    os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
    arguments = [a for a in sys.argv[1:] if a != "--all"]
    want_all = len(arguments) != len(sys.argv) - 1
    if not arguments:
        return count(want_all)
    with tempfile.TemporaryDirectory() as folder:
        archive = subprocess.run(["git", "archive", arguments[0]], stdout=subprocess.PIPE, check=True).stdout
        subprocess.run(["tar", "-x", "-C", folder], input=archive, check=True)
        if os.path.exists(".clang-format"):
            open(os.path.join(folder, ".clang-format"), "w").write(open(".clang-format").read())
        os.chdir(folder)
        return count(want_all)


if __name__ == "__main__":
    sys.exit(main())
