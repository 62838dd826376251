#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checks that docs/behaviours.md has a row for each number that a test cites, and no row that none cites."""
import glob
import re
import sys

SECTIONS = {"### Axes of the key": "axis", "### Behaviours": "behaviour", "### Fault tests of the cache": "fault test"}
NUMBER = r"(?:[ABC]?\d+[a-d]?)"
LIST = rf"{NUMBER}(?:(?: to |, | and ){NUMBER})*"


def rows():
    found, kind = set(), None
    for line in open("docs/behaviours.md", encoding="utf-8"):
        kind = SECTIONS.get(line.strip(), kind)
        row = re.match(rf"\| ({NUMBER}) \|", line)
        if row:
            found.add((kind, row[1]))
    return found


def spread(text):
    """'1 to 3, 7' as 1, 2, 3, 7; 'A1 to A3' likewise."""
    for item in re.split(r", | and ", text):
        first, _, last = item.partition(" to ")
        letter = first[0] if first[0].isalpha() else ""
        if last:
            yield from (letter + str(n) for n in range(int(first.lstrip("ABC")), int(last.lstrip("ABC")) + 1))
        else:
            yield first


def cited(path, text):
    text = re.sub(r"\n\s*(//|#) ?", " ", text)
    for kind, words in (("axis", r"ax[ie]s"), ("behaviour", "behaviours?"), ("fault test", "fault tests?")):
        for match in re.finditer(rf"\b{words} ({LIST})", text):
            if kind == "axis" and not match[1][0].isalpha():
                continue  # an axis of a tile
            yield from ((kind, number) for number in spread(match[1]))
    if path.startswith("tests/runtime/"):
        text = open(path, encoding="utf-8").read()
        for match in re.finditer(r"// (\d\d): |; (\d\d): (?=.*[a-z])", text):
            yield "behaviour", match[1] or match[2]


def main():
    known, used, bad = rows(), set(), 0
    for path in sorted(glob.glob("tests/**/*.c", recursive=True) + glob.glob("tests/text/commands/*.test")):
        for citation in cited(path, open(path, encoding="utf-8").read()):
            used.add(citation)
            if citation not in known:
                print("%s: docs/behaviours.md has no row for %s %s" % (path, *citation))
                bad += 1
    for kind, number in sorted(known - used):
        print("docs/behaviours.md: no test cites %s %s" % (kind, number))
        bad += 1
    if not bad:
        print("numbers that tests cite: %d, each has its row" % len(used))
    return bad != 0


if __name__ == "__main__":
    sys.exit(main())
