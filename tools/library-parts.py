#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What each part of a file of libkiln costs, from the linker's map: tools/library-parts.py build/release/lib/libkiln.so.0.map

A row is a part, its code and constants, data that the loader relocates, unwind tables, and the sum. An object that no part names is an error, so that
a new file is put where it belongs."""
import collections
import re
import sys

PARTS = (
    ("opening bundles", "open bytes reader blob library checksum stream fs"),
    ("kernels and launches", "kernel launch launch_extras prepare prepared choose load handles device closed null record expr expr_code types refusal"),
    ("host: loader, threads", "host host_loader host_memory host_pool native_cpu"),
    ("CUDA and HIP", "cuda hip driver_library"),
    ("hooks", "hook"),
    ("targets and their ranks", "processors target_name target_rank target_list occupancy nearest"),
    ("errors, memory", "status arena buffer control_characters"),
    ("calls of the other file", "more open_more start_more"),
    ("checks of whole bundles, statements", "bundle_check"),
    ("lists of kernels", "listing"),
    ("tensor maps", "tensor_map"),
    ("tuned choices", "tuned_choice tuned"),
    ("launches with scratch memory", "launches"),
    ("sizes of buffers", "sizes"),
    ("lines that host kernels print", "printing printed"),
    ("shape records", "shape_record output"),
    ("reports, reasons of choices and refusals", "report reason refusals assertion"),
    ("zstd's decoder", "zstd zstd_legacy"),
    ("of the compiler and the C library", "crti crtn crtbeginS crtendS pthread_atfork"),
)
COLUMNS = {".text": 0, ".rodata": 0, ".data.rel.ro": 1, ".data": 1, ".eh_frame": 2}


def contributions(path):
    """(section, object, bytes) of everything that the linker kept. Of strings, which it merges, the map has only what each object brought: what is left
    of a section is shared out by that."""
    text = open(path).read()
    lines = text[text.index("Linker script and memory map"):].split("\n")
    section, sizes, strings, own = "", {}, [], []
    for line, after in zip(lines, lines[1:] + [""]):
        begins = re.match(r"(\.[\w.]+)(?:\s+0x[0-9a-f]+\s+(0x[0-9a-f]+))?", line)
        if begins:
            section = begins.group(1)
            if begins.group(2):
                sizes[section] = int(begins.group(2), 16)
        found = re.match(r" (?:\S+\s+)?\s*0x[0-9a-f]+\s+(0x[0-9a-f]+) (\S.*)$", line)
        if not found or section not in COLUMNS:
            continue
        member = re.search(r"(\w[\w-]*)\.a\(([^)]*)\)", found.group(2))
        name = member.group(2) if member else found.group(2).split("/")[-1]
        name = "zstd" if member and member.group(1) == "libzstd" else name.split(".")[0]
        before = re.match(r"\s+(0x[0-9a-f]+) \(size before relaxing\)", after)
        if before and section == ".rodata":
            strings.append((name, int(before.group(1), 16)))
        else:
            own.append((section, name, int(found.group(1), 16)))
    yield from own
    left = sizes[".rodata"] - sum(size for section, _, size in own if section == ".rodata")
    for name, weight in strings:
        yield ".rodata", name, left * weight / sum(weight for _, weight in strings)


def main():
    part_of = {name: part for part, names in PARTS for name in names.split()}
    sums = collections.defaultdict(lambda: [0.0, 0.0, 0.0])
    for section, name, size in contributions(sys.argv[1]):
        if size and name not in part_of:
            sys.exit("%s: no part has the object %s: tools/library-parts.py" % (sys.argv[1], name))
        if size:
            sums[part_of[name]][COLUMNS[section]] += size
    print("%-42s %9s %9s %9s %9s" % ("part", "code", "data", "unwind", "sum"))
    for part, _ in PARTS:
        if part in sums:
            print("%-42s %9.0f %9.0f %9.0f %9.0f" % (part, *sums[part], sum(sums[part])))
    columns = [sum(row[i] for row in sums.values()) for i in range(3)]
    print("%-42s %9.0f %9.0f %9.0f %9.0f" % ("together", *columns, sum(columns)))


main()
