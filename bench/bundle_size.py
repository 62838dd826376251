#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Sizes of the same code objects packed in several ways, in one run.
   bench/bundle_size.py [--build build/release] [--suffix .co] CORPUS
CORPUS is a folder of AMD code objects or a bundle (its codes are unpacked first). Each line names a way, its bytes, and raw bytes / bytes:
xz (preset 6) for each object and for each family as one block, clang's compressed offload bundles for AMD objects, CUDA's fatbinary with
--compress-all for cubins and PTX, and Kiln's bundles by level and dictionary with their decoding times. Tools that are absent are named and left out.
Needs `make B=BUILD BUILD/bench/bench_runtime_corpus`."""
import argparse, concurrent.futures, lzma, os, re, shutil, subprocess, sys, tempfile

AMD = re.compile(r'gfx')


def tool(*names):
    for name in names:
        found = shutil.which(name) or shutil.which(name, path='/usr/local/cuda/bin:/usr/lib/llvm-22/bin')
        if found:
            return found
    return None


def show(way, objects, raw, packed):
    print(f'{way:44} {objects:6} objects {raw:11,} -> {packed:11,} bytes  {raw / packed:5.1f}x', flush=True)


def gather(folder, suffix):
    """{family: [(path, bytes)]} in order of path; equal objects once."""
    families, seen = {}, set()
    for at, _, names in sorted(os.walk(folder)):
        for name in sorted(names):
            if suffix and not name.endswith(suffix):
                continue
            path = os.path.join(at, name)
            with open(path, 'rb') as f:
                data = f.read()
            if data in seen:
                continue
            seen.add(data)
            families.setdefault('gfx9' if suffix else name.split('.')[-1], []).append((path, data))
    return families


def offload_bundle(bundler, path, out):
    """One AMD object as a compressed offload bundle; the entry for the host is empty, as in hip fat binaries."""
    subprocess.run([bundler, '-type=o', '-compress', '-bundle-align=4096', '-targets=host-x86_64-unknown-linux,hipv4-amdgcn-amd-amdhsa--gfx942',
                    '-input=/dev/null', f'-input={path}', f'-output={out}'], check=True, capture_output=True)
    return os.path.getsize(out)


def fatbin(fatbinary, path, out, kind):
    with open(path, 'rb') as f:
        data = f.read()
    if kind == 'ptx':
        arch = re.search(rb'\.target sm_(\d+a?)', data).group(1).decode()
    else:  # the processor is in the flags of the ELF header; where, depends on the cubin's ABI
        flags = int.from_bytes(data[48:52], 'little')
        arch = next((n for n in (flags & 0xff, flags >> 8 & 0xff) if 50 <= n <= 129), 0)
    subprocess.run([fatbinary, '-64', '--compress-all', f'--create={out}', f'--image3=kind={"ptx" if kind == "ptx" else "elf"},sm={arch},file={path}'],
                   check=True, capture_output=True)
    return os.path.getsize(out)


def pack_each(way, objects, pack):
    """Runs `pack(path, out)` for each object and sums the sizes; objects a tool refuses are counted and left out of both sums."""
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        def one(item):
            number, (path, data) = item
            try:
                return len(data), pack(path, os.path.join(folder, str(number)))
            except subprocess.CalledProcessError as failure:
                return failure.stderr.decode(errors='replace').strip().split('\n')[0]
        results = list(pool.map(one, enumerate(objects)))
    sizes = [r for r in results if not isinstance(r, str)]
    refused = [r for r in results if isinstance(r, str)]
    if sizes:
        show(way, len(sizes), sum(s[0] for s in sizes), sum(s[1] for s in sizes))
    if refused:
        print(f'  {len(refused)} refused, the first: {refused[0]}')


def xz_sizes(families):
    every = [o for objects in families.values() for o in objects]
    raw = sum(len(d) for _, d in every)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        show('xz, each object', len(every), raw, sum(pool.map(lambda o: len(lzma.compress(o[1], preset=6)), every)))
        solid = pool.map(lambda objects: len(lzma.compress(b''.join(d for _, d in objects), preset=6)), families.values())
        show('xz, one block a family (no random access)', len(every), raw, sum(solid))


def vendor_sizes(families):
    bundler, fatbinary = tool('clang-offload-bundler-22', 'clang-offload-bundler'), tool('fatbinary')
    amd = [o for family, objects in families.items() if AMD.match(family) for o in objects]
    if amd and bundler:
        pack_each('offload bundle, compressed (clang)', amd, lambda path, out: offload_bundle(bundler, path, out))
    elif amd:
        print('offload bundle: no clang-offload-bundler here')
    for kind in ('cubin', 'ptx'):
        if kind in families and fatbinary:
            pack_each(f'fatbinary --compress-all, {kind}', families[kind], lambda path, out, kind=kind: fatbin(fatbinary, path, out, kind))
        elif kind in families:
            print(f'fatbinary, {kind}: not installed here')


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('corpus')
    parser.add_argument('--build', default='build/release')
    parser.add_argument('--suffix', default='.co', help='names of the objects in a folder end so')
    a = parser.parse_args()
    bench = os.path.join(a.build, 'bench', 'bench_runtime_corpus')
    is_bundle = a.corpus.endswith('.kbundle')
    with tempfile.TemporaryDirectory() as unpacked:
        if is_bundle:
            subprocess.run([bench, '--unpack', a.corpus, unpacked], check=True)
        families = gather(unpacked if is_bundle else a.corpus, '' if is_bundle else a.suffix)
        if not families:
            sys.exit(f'{a.corpus}: no objects')
        for family, objects in sorted(families.items()):
            print(f'{family}: {len(objects)} objects, {sum(len(d) for _, d in objects):,} bytes')
        xz_sizes(families)
        vendor_sizes(families)
    sys.stdout.flush()
    subprocess.run([bench, a.corpus] + ([] if is_bundle else [a.suffix]), check=True)


main()
