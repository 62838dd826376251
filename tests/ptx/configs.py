#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Every config of the kernel library in the interpreter of PTX, one at a time.

    tests/ptx/configs.py [--target sm_90a] [--seed N] [--list] [--part K/N] [KERNEL | KERNEL:NUMBER]...

For each config that the target may use, a copy of the kernel's source keeps that one only, and runs: products (RUNS) with shapes that no tile
divides and rows that are further apart than they are long, compared with the code for the host; the others by the cases of kernel-check, which
have small, ragged and strided shapes, less the launches that the config may not be used for. A line per config: `clean`, with the count of
launches; `refused`, with the reason why no launch could use it; `FOUND` what the interpreter found, a wrong result, or a config that may be used
and that nothing launched. Configs are numbered in the order of the source. A second kernel of the same name has its file before it."""
import argparse
import fnmatch
import glob
import os
import re
import subprocess
import sys
import tempfile

BUILD = os.path.abspath(os.environ.get("KILN_BUILD", "build/release"))
# Cases of kernel-check that launch a kernel, where they have other names; the next is tried where a config was launched by none before it.
BACKWARD_CASES = ["attention_backward", "attention_backward_shares"]
CASES = {
    "add_parts": ["parts.add"], "add_rmsnorm": ["add_rmsnorm", "lengths.residual-norms"], 
    "align_operands": ["parts.align"], "argmax": ["argmax", "lengths.searches"], "argmax_join": ["parts.argmax"], "argmax_parts": ["parts.argmax"],
    "argsort_rows": ["sort_rows"], "attention_backward_begin": BACKWARD_CASES, "attention_backward_end": BACKWARD_CASES,
    "attention_backward_rows": BACKWARD_CASES, "attention_general": ["attention_general", "attention_few_queries"],
    "attention_join": ["attention_parts"], "bincount": ["histogram"], "clear": ["parts.histogram"],
    "cross_entropy": ["cross_entropy", "lengths.entropies"], "cross_entropy_join": ["parts.cross_entropy"], "cumsum": ["cumsum", "lengths.searches"],
    "cumsum_from": ["parts.cumsum"], "cumsum_parts": ["parts.cumsum"], "dequantise_fp8": ["quantise_fp8", "lengths.bytes"],
    "dequantise_i8": ["quantise_i8", "lengths.bytes"], "gemm_fp8": ["gemm_fp8", "gemm_fp8_fast"],
    "gemm_parts": ["parts.gemm", "parts.gemm_wide"], "gemv_parts": ["parts.gemv"], "histogram_copies": ["parts.histogram"],
    "histogram_join": ["parts.histogram"], "largest_parts": ["parts.quantise"], "layer_norm": ["layer_norm", "lengths.norms"],
    "layer_norm_backward": ["layer_norm_backward", "lengths.layer-gradients"], "log_softmax": ["log_softmax", "lengths.probabilities"],
    "mean_var": ["mean_var", "lengths.norms"], "mean_var_join": ["parts.norms"], "mean_var_parts": ["parts.norms"],
    "norm_from": ["parts.norms", "parts.residual_norms"], "norms.add_parts": ["parts.residual_norms"],
    "paged_attention_join": ["paged_attention_parts"], "quantise_fp8": ["quantise_fp8", "lengths.bytes"], "quantise_from": ["parts.quantise"],
    "quantise_i8": ["quantise_i8", "lengths.bytes"], "rms_norm": ["rms_norm", "lengths.norms"],
    "rms_norm_backward": ["rms_norm_backward", "lengths.mean-square-gradients"], "softmax": ["softmax", "lengths.probabilities"],
    "softmax_from": ["parts.softmax"], "softmax_looped": ["softmax_looped", "lengths.probabilities"], "softmax_parts": ["parts.softmax"],
}
# Kernels that run once an instance: instances, arguments, what is compared with the host's. Sizes are expressions in Python. Of several rows the
# next is tried where the config may not be used for those before it.
LAYOUTS = [(a, b) for a in ("false", "true") for b in ("false", "true")]
STRIDES = " ".join("%s_batch=heads*%s*D+8 %s_row=D %s_head=%s*D" % (x, n, x, x, n) for x, n in (("q", "rows"), ("k", "keys"), ("v", "keys"), ("g", "rows")))
BACKWARD = ("batch=2 heads=2 kv_heads=1 rows=70 keys=90 %s left=-1 right=-1 scale=0.125 q=random:batch*heads*rows*D+16 k=random:batch*heads*keys*D+16:1 "
            "v=random:batch*heads*keys*D+16:2 g=random:batch*heads*rows*D+16:3 " % STRIDES)
KEYS = " dk=zeros:batch*heads*keys*D dv=zeros:batch*heads*keys*D"
HEADS = ["T=bf16,D=64", "T=bf16,D=128"]
ANY_ROWS = "M=BM+28 N=BN+20 K=266"
RUNS = {
    "gemm": [
        (["T=bf16,ACT=0,BIAS=false", "T=f32,ACT=0,BIAS=false"], "M=BM+28 N=72 K=200 lda=K+8 ldb=K+24 ldc=N+8 bias=null a=random:M*lda b=random:N*ldb:1 "
                                                                "c=zeros:M*ldc", "c"),
        (["T=bf16,ACT=0,BIAS=false"], ANY_ROWS + " lda=K+3 ldb=K+5 ldc=N+3 bias=null a=random:M*lda b=random:N*ldb:1 c=zeros:M*ldc", "c")],
    "gemm_batched": [
        (["T=bf16", "T=f32"], "M=BM+28 N=72 K=200 batch=2 stride_a=M*K+8 stride_b=N*K+24 stride_c=M*N+40 a=random:2*stride_a b=random:2*stride_b:1 "
                              "c=zeros:2*stride_c", "c"),
        (["T=bf16"], ANY_ROWS.replace("K=", "K=3+") + " batch=1 stride_a=M*K+8-M*K%8 stride_b=N*K+8-N*K%8 stride_c=M*N+8-M*N%8 a=random:stride_a "
                     "b=random:stride_b:1 c=zeros:stride_c", "c")],
    "gemm_split_k": [(["T=bf16", "T=f32"], "M=BM+28 N=72 K=200 parts=3 a=random:M*K b=random:N*K:1 c=zeros:M*N", "c")],
    "gemm_general": [
        (["T=bf16,TA=%s,TB=%s,BETA=%s" % (a, b, beta) for beta in ("false", "true") for a, b in LAYOUTS] +
         ["T=f32,TA=%s,TB=%s,BETA=true" % t for t in LAYOUTS],
         "M=BM+28 N=BN+20 K=200 lda=(K,M+4)[TA]+8 ldb=(N+4,K)[TB]+24 ldc=N+4 ldd=N+12 beta=0.5 a=random:(M,K)[TA]*lda "
         "b=random:(K,N)[TB]*ldb:1 c=random:M*ldc:2 d=zeros:M*ldd", "d"),
        (["T=bf16,TA=%s,TB=%s,BETA=false" % t for t in LAYOUTS],
         ANY_ROWS + " lda=(K,M)[TA]+3 ldb=(N,K)[TB]+5 ldc=N ldd=N+3 beta=0 a=random:(M,K)[TA]*lda b=random:(K,N)[TB]*ldb:1 c=zeros:M*ldc "
         "d=zeros:M*ldd", "d")],
    "gemm_grouped": [(["T=bf16,ACT=0", "T=f32,ACT=0"], "rows=150 experts=2 N=72 K=200 lda=K+8 ldc=N+8 a=random:rows*lda weights=random:2*N*K:1 ends=fill:2:rows "
                                                      "c=zeros:rows*ldc", "c")],
    "attention_backward": [(HEADS, BACKWARD + "stats=fill:4*batch*heads*rows:9 sums=zeros:2*batch*heads*rows*D" + KEYS, "dk dv sums")],
    "attention_backward_shares": [(HEADS, BACKWARD + "span=1 stats=fill:4*batch*heads*rows:9 sums=zeros:2*batch*heads*rows*D" + KEYS, "dk dv sums")],
    "attention_backward_join": [(HEADS, "batch=2 kv_heads=1 keys=90 parts=3 keys_of=random:batch*parts*keys*D values_of=random:batch*parts*keys*D:1 dk=zeros:batch*keys*D dv=zeros:batch*keys*D", "dk dv")],
    "attention_backward_keys": [(HEADS, BACKWARD + "lse=fill:batch*heads*rows:9 delta=zeros:batch*heads*rows" + KEYS, "dk dv")],
    "attention_backward_queries": [(HEADS, BACKWARD + "lse=fill:batch*heads*rows:9 delta=zeros:batch*heads*rows dq=zeros:batch*heads*rows*D", "dq")],
}


def is_for(config, target):
    """Whether a config's targets, if it names any, have this one."""
    names = re.search(r'targets = "([^"]*)"', config)
    return not names or any(fnmatch.fnmatch(target, n.strip()) for n in names.group(1).split(","))


def read_kernels(target):
    """Key to (file, name, its configs for the target, the kernel whose configs it takes); the key is the name, of a second one with its file."""
    kernels = {}
    for path in sorted(glob.glob("kernels/*.kiln")):
        key = None
        for line in open(path):
            head = re.match(r"kernel (\w+)", line)
            if head:
                key = head.group(1) if head.group(1) not in kernels else "%s.%s" % (os.path.basename(path)[:-5], head.group(1))
                kernels[key] = [path, head.group(1), [], None]
            if key:
                kernels[key][2] += re.findall(r"@config\([^)]*\)", line)
            other = re.search(r"@configs\((\w+)\)", line)
            if other:
                kernels[key][3] = other.group(1)
    for kernel in kernels.values():
        kernel[2] = [c for c in (kernels[kernel[3]][2] if kernel[3] else kernel[2]) if is_for(c, target)]
    return {key: kernel for key, kernel in kernels.items() if kernel[2]}


def source_with(path, name, config):
    """The file's text with this config as the only one of the kernel. Kernels that take its configs keep all; products are never too few for
    large tiles."""
    text, out, here = open(path).read(), [], None
    own = re.search(r"^kernel %s\b.*?^{" % name, text, re.M | re.S).group(0)
    every = "\n  ".join(re.findall(r"@config\([^)]*\)", own))
    for line in text.splitlines(keepends=True):
        head = re.match(r"kernel (\w+)", line)
        if head:
            here = head.group(1)
        if here == name:
            line = re.sub(r"@config\([^)]*\)", lambda found: config if found.group(0) == config else "", line)
            line = re.sub(r"@configs\(\w+\)", lambda found: config, line)
        else:
            line = line.replace("@configs(%s)" % name, every)
        out.append(re.sub(r"^const ENOUGH = \d+", "const ENOUGH = 1", line))
    return "".join(out)


def instances_of(path, name, target):
    """All that a build of the file has, those too that other kernels launch."""
    code, text = run([BUILD + "/bin/kiln", "key", path, "-q", "-t", target, "-k", name])
    return sorted(set(re.findall(r"^\w{64}  (%s(?:\[[^]]*\])?) " % name, text, re.M)))


def alone(text, name, instances):
    """The text with this kernel only, in these instances, and nothing that it launches in its place."""
    out, here, in_launches = [], None, False
    for line in text.splitlines(keepends=True):
        head = re.match(r"kernel (\w+)", line)
        here = head.group(1) if head else here
        in_launches = in_launches or bool(here and line.startswith("  launches {"))
        if here in (None, name) and not in_launches:
            line = re.sub(r"@instance\([^)]*\)", "", line) if here else line
            out.append(line.replace("@grid(", " ".join(instances) + " @grid(", 1) if here else line)
        in_launches = in_launches and line.rstrip() != "  }"
        here = None if line.rstrip() == "}" else here
    return "".join(out)


def build(path, name, config, options, folder):
    """Makes folder/one.kbundle of the file's kernels, some of which cases launch before this one; where not all instances may use the config, and
    of the many products, of this kernel alone. Returns the first error where no instance may."""
    def attempt(text):
        with open(folder + "/one.kiln", "w") as file:
            file.write(text)
        return run([BUILD + "/bin/kiln", "build", folder + "/one.kiln", "-q", "-t", options.target, "--emit=ptx", "--configs-all", "-o",
                    folder + "/one.kbundle"])
    source = source_with(path, name, config)
    if not path.endswith("/gemm.kiln") and not attempt(source)[0]:
        return None
    some, first = [], None
    for instance in instances_of(path, name, options.target):
        found = re.search(r"\[(.*)\]", instance)
        words = ["@instance(%s)" % found.group(1)] if found else []
        code, text = attempt(alone(source, name, words))
        some += [] if code else words
        if not code and not words:
            return None
        first = first or code and text.strip().split("\n")[0]
    if not some:
        return first
    code, text = attempt(alone(source, name, some))
    return text.strip() if code else None


def number(config, name):
    found = re.search(r"\b%s *= *(\d+)" % name, config)
    return int(found.group(1)) if found else 64


def arguments(row, config, instance):
    """The words of a row of RUNS with numbers."""
    known = {"BM": number(config, "BM"), "BN": number(config, "BN"), "D": number(instance, "D"), "TA": ",TA=true" in instance, "TB": ",TB=true" in instance}
    words = []
    for word in row[1].split():
        name, value = word.split("=")
        parts = value.split(":")
        for i, part in enumerate(parts):
            if part not in ("random", "zeros", "fill", "null") and not re.fullmatch(r"[-0-9.]+", part):
                parts[i] = str(eval(part, {}, known))
        if len(parts) == 1 and re.fullmatch(r"-?\d+", parts[0]):
            known[name] = int(parts[0])
        words += ["-a", name + "=" + ":".join(parts)]
    return words


def run(command, **more):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **more)
    return done.returncode, done.stdout


def run_once(name, row, config, path, device, environment, folder):
    """On the host, then on the device; results are compared."""
    host, bundle = folder + "/host.kbundle", folder + "/one.kbundle"
    code, text = run([BUILD + "/bin/kiln-tool", "inspect", bundle])
    there = ["%s[%s]" % (name, i) for i in row[0] if "%s[%s]" % (name, i) in text]
    last = 1, "no kernel for it among " + ", ".join(row[0])
    for instance in there:
        words, outputs = arguments(row, config, instance), row[2].split()
        code, text = run([BUILD + "/bin/kiln", "build", path, "-q", "-t", "host", "-k", instance, "-o", host])
        saves = [w for o in outputs for w in ("--save", "%s=%s/%s" % (o, folder, o))]
        if not code:
            code, text = run([BUILD + "/bin/kiln", "run", host, instance] + words + saves)
        if code:
            return code, "%s on the host: %s" % (instance, text)
        compares = [w for o in outputs for w in ("--compare", "%s=%s/%s" % (o, folder, o))]
        code, text = run(device + [BUILD + "/bin/kiln", "run", "-d", "cuda:0", bundle, instance] + words + compares + ["--tolerance", "0.02"], env=environment)
        last = code, instance + ": " + text
        if code and "no config allows" not in text:
            return last
    return last


def read_log(log, name):
    """(launches of the kernel, whether something was found)"""
    launches = [line.split() for line in open(log)] if os.path.exists(log) else []
    own = sum(1 for at, _ in launches if (at + "_").startswith("kiln_" + name + "_"))
    return own, any(verdict == "found" for _, verdict in launches)


def judge(key, kernel, config, options, folder):
    """(verdict, text)"""
    path, name, log, reasons, own = kernel[0], kernel[1], folder + "/log", [], 0
    error = build(path, name, config, options, folder)
    if error:
        can_hold = "no config whose @require can hold" in error
        return "refused" if can_hold else "FOUND", "%s: %s" % ("of no instance" if can_hold else "does not compile", error.split(": ", 2)[-1])
    environment = dict(os.environ, KILN_BUILD=BUILD, KILN_PTX_LOG=log, KILN_PTX_SEED=str(options.seed))
    device = ["tests/emulation/interpreted.sh", options.target[3:5]]
    for attempt in RUNS.get(key) or CASES.get(key, [key]):
        if key in RUNS:
            code, text = run_once(name, attempt, config, path, device, environment, folder)
        else:
            code, text = run(device + [BUILD + "/bin/kernel-check", "--leave-out", folder + "/one.kbundle", "cuda:0", "=" + attempt], env=environment)
        own, found = read_log(log, name)
        lines = [line for line in text.split("\n") if re.search("fail|error|differ|ptx:|module|left out|no config|no kernel", line)]
        if found or code and not (key in RUNS and re.search("no config allows|no kernel", text)):
            return "FOUND", "; ".join(lines) or text.strip()
        reasons += lines
        if own:
            return "clean", "%d launches" % own
    return "FOUND", "nothing launches it: " + ("; ".join(reasons) or "no case")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kernels", nargs="*")
    parser.add_argument("--target", default="sm_90a")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--part", default="0/1", help="each Nth config from the Kth on")
    options = parser.parse_args()
    (part, parts), number = map(int, options.part.split("/")), 0
    kernels, sums = read_kernels(options.target), {"clean": 0, "refused": 0, "FOUND": 0}
    for kernel, about in kernels.items():
        for i, config in enumerate(about[2]):
            if options.kernels and kernel not in options.kernels and "%s:%d" % (kernel, i) not in options.kernels:
                continue
            number += 1
            if (number - 1) % parts != part:
                continue
            if options.list:
                print("%s:%d %s" % (kernel, i, config))
                continue
            with tempfile.TemporaryDirectory() as folder:
                verdict, text = judge(kernel, about, config, options, folder)
            sums[verdict] += 1
            print("%s %s:%d %s: %s" % (verdict, kernel, i, config, text), flush=True)
    if not options.list:
        print("%(clean)d clean, %(refused)d refused, %(FOUND)d found" % sums)
    return 1 if sums["FOUND"] or not (options.list or sums["clean"]) else 0


if __name__ == "__main__":
    sys.exit(main())
