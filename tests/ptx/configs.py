#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Every config of the kernel library in the interpreter of PTX, one at a time.

    tests/ptx/configs.py [--target sm_90a] [--seed N] [--list] [KERNEL | KERNEL:NUMBER]...

For each config that the target may use, a copy of the kernel's source keeps that one only, and runs: gemm and gemm_batched with a shape that no
tile divides and rows that are further apart than they are long, compared with the code for the host; the others by the cases of kernel-check,
which have small, ragged and strided shapes. A line per config: `clean`, with the count of launches; `refused`, with the reason why no launch
could use it; `FOUND` what the interpreter found, or a wrong result. Configs are numbered in the order of the source."""
import argparse
import fnmatch
import glob
import os
import re
import subprocess
import sys
import tempfile

BUILD = os.path.abspath(os.environ.get("KILN_BUILD", "build/release"))
# Cases of kernel-check with other names than their kernels.
CASES = {"dequantise_i8": "quantise_i8", "dequantise_fp8": "quantise_fp8", "argsort_rows": "sort_rows", "attention_backward_begin": "attention_backward",
         "attention_backward_end": "attention_backward", "attention_backward_rows": "attention_backward", "attention_backward_keys": "attention_backward",
         "attention_backward_queries": "attention_backward", "paged_attention_join": "paged_attention_parts"}
# Kernels that run once an instance: instances (those that may use the config), arguments, what is compared with the host's. Sizes are expressions in Python.
LAYOUTS = [(a, b) for a in ("false", "true") for b in ("false", "true")]
STRIDES = " ".join("%s_batch=heads*%s*D+8 %s_row=D %s_head=%s*D" % (x, n, x, x, n) for x, n in (("q", "rows"), ("k", "keys"), ("v", "keys"), ("g", "rows")))
BACKWARD = ("batch=2 heads=2 kv_heads=1 rows=70 keys=90 %s left=-1 right=-1 scale=0.125 q=random:batch*heads*rows*D+16 k=random:batch*heads*keys*D+16:1 "
            "v=random:batch*heads*keys*D+16:2 g=random:batch*heads*rows*D+16:3 " % STRIDES)
KEYS = " dk=zeros:batch*heads*keys*D dv=zeros:batch*heads*keys*D"
HEADS = ["T=bf16,D=64", "T=bf16,D=128"]
RUNS = {
    "gemm": (["T=bf16,ACT=0,BIAS=false"], "M=BM+28 N=72 K=200 lda=K+8 ldb=K+24 ldc=N+8 bias=null a=random:M*lda b=random:N*ldb:1 c=zeros:M*ldc", "c"),
    "gemm_batched": (["T=bf16"], "M=BM+28 N=72 K=200 batch=2 stride_a=M*K+8 stride_b=N*K+24 stride_c=M*N+40 a=random:2*stride_a b=random:2*stride_b:1 "
                                 "c=zeros:2*stride_c", "c"),
    "gemm_split_k": (["T=bf16", "T=f32"], "M=BM+28 N=72 K=200 parts=3 a=random:M*K b=random:N*K:1 c=zeros:M*N", "c"),
    "gemm_general": (["T=bf16,TA=%s,TB=%s,BETA=false" % t for t in LAYOUTS] + ["T=bf16,TA=%s,TB=%s,BETA=true" % t for t in LAYOUTS],
                     "M=BM+28 N=BN+20 K=200 lda=(K,M+4)[TA]+8 ldb=(N+4,K)[TB]+24 ldc=N+4 ldd=N+12 beta=0.5 a=random:(M,K)[TA]*lda b=random:(K,N)[TB]*ldb:1 "
                     "c=random:M*ldc:2 d=zeros:M*ldd", "d"),
    "gemm_grouped": (["T=bf16,ACT=0", "T=f32,ACT=0"], "rows=150 experts=2 N=72 K=200 lda=K+8 ldc=N+8 a=random:rows*lda weights=random:2*N*K:1 ends=fill:2:rows "
                                                      "c=zeros:rows*ldc", "c"),
    "attention_backward": (HEADS, BACKWARD + "stats=fill:4*batch*heads*rows:9 sums=zeros:2*batch*heads*rows*D" + KEYS, "dk dv sums"),
    "attention_backward_shares": (HEADS, BACKWARD + "span=1 stats=fill:4*batch*heads*rows:9 sums=zeros:2*batch*heads*rows*D" + KEYS, "dk dv sums"),
    "attention_backward_join": (HEADS, "batch=2 kv_heads=1 keys=90 parts=3 keys_of=random:batch*parts*keys*D values_of=random:batch*parts*keys*D:1 dk=zeros:batch*keys*D dv=zeros:batch*keys*D", "dk dv"),
    "attention_backward_keys": (HEADS, BACKWARD + "lse=fill:batch*heads*rows:9 delta=zeros:batch*heads*rows" + KEYS, "dk dv"),
    "attention_backward_queries": (HEADS, BACKWARD + "lse=fill:batch*heads*rows:9 delta=zeros:batch*heads*rows dq=zeros:batch*heads*rows*D", "dq"),
}


def is_for(config, target):
    """Whether a config's targets, if it names any, have this one."""
    names = re.search(r'targets = "([^"]*)"', config)
    return not names or any(fnmatch.fnmatch(target, n.strip()) for n in names.group(1).split(","))


def read_kernels(target):
    """Name to (file, its configs for the target); a kernel that takes another's configs has these."""
    kernels, borrowed = {}, {}
    for path in sorted(glob.glob("kernels/*.kiln")):
        name = None
        for line in open(path):
            head = re.match(r"kernel (\w+)", line)
            if head:
                name = head.group(1)
            for config in re.findall(r"@config\([^)]*\)", line):
                kernels.setdefault(name, (path, []))[1].append(config)
            other = re.search(r"@configs\((\w+)\)", line)
            if other:
                borrowed[name] = (path, other.group(1))
    for name, (path, other) in borrowed.items():
        kernels[name] = (path, kernels[other][1])
    return {name: (path, [c for c in configs if is_for(c, target)]) for name, (path, configs) in kernels.items()}


def instances_of(path, name):
    text = re.search(r"^kernel %s\b.*?^{" % name, open(path).read(), re.M | re.S).group(0)
    return re.findall(r"@instance\([^)]*\)", text)


def source_with(path, owner, config, instances):
    """The file's text with this config and these instances as the only ones of the kernel; products are never too few for large tiles."""
    out, here = [], None
    for line in open(path):
        head = re.match(r"kernel (\w+)", line)
        if head:
            here = head.group(1)
        if here in owner and "@config(" in line:
            if config in line:
                out.append("  " + config + "\n")
            continue
        if here in owner and "@instance(" in line:
            line = re.sub(r"@instance\([^)]*\)", lambda found: found.group(0) if found.group(0) in instances else "", line)
        out.append(re.sub(r"^const ENOUGH = \d+", "const ENOUGH = 1", line))
    return "".join(out)


def owners(path, kernel):
    """The kernels that have the same configs: the one that states them, and those that take them."""
    takes = {name: other for name, other in re.findall(r"^kernel (\w+)(?:(?!^kernel ).)*?@configs\((\w+)\)", open(path).read(), re.M | re.S)}
    states = takes.get(kernel, kernel)
    return {states} | {name for name, other in takes.items() if other == states}


def build(path, kernel, config, options, folder):
    """Makes folder/one.kbundle of the instances that may use the config. Returns the first error where none may."""
    def attempt(instances):
        open(folder + "/one.kiln", "w").write(source_with(path, owners(path, kernel), config, instances))
        return run([BUILD + "/bin/kiln", "build", folder + "/one.kiln", "-q", "-t", options.target, "--emit=ptx", "--configs-all", "-o", folder + "/one.kbundle"])
    every = ["@instance(T = bf16)"] if kernel in ("gemm", "gemm_batched") else [i for i in instances_of(path, kernel) if kernel != "gemm_general" or "bf16" in i]
    code, text = attempt(every)
    if not code:
        return None
    some = [i for i in every if not attempt([i])[0]]
    return None if some and not attempt(some)[0] else text.strip().split("\n")[0]


def number(config, name):
    found = re.search(r"\b%s *= *(\d+)" % name, config)
    return int(found.group(1)) if found else 64


def arguments(kernel, config, instance):
    """The words of RUNS with numbers."""
    known = {"BM": number(config, "BM"), "BN": number(config, "BN"), "D": number(instance, "D"), "TA": "TA=true" in instance, "TB": "TB=true" in instance}
    words = []
    for word in RUNS[kernel][1].split():
        name, value = word.split("=")
        parts = value.split(":")
        for i, part in enumerate(parts):
            if part not in ("random", "zeros", "fill", "null") and not re.fullmatch(r"[-0-9.]+", part):
                parts[i] = str(eval(part, {"max": max}, known))
        if len(parts) == 1 and re.fullmatch(r"-?\d+", parts[0]):
            known[name] = int(parts[0])
        words += ["-a", name + "=" + ":".join(parts)]
    return words


def run(command, **more):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **more)
    return done.returncode, done.stdout


def run_once(kernel, config, path, device, environment, folder):
    """On the host, then on the device; results are compared."""
    host, bundle = folder + "/host.kbundle", folder + "/one.kbundle"
    code, text = run([BUILD + "/bin/kiln-tool", "inspect", bundle])
    there = [i for i in RUNS[kernel][0] if "%s[%s]" % (kernel, i) in text]
    if not there:
        return 1, "no kernel for it among " + ", ".join(RUNS[kernel][0])
    for instance in there:
        instance = "%s[%s]" % (kernel, instance)
        words, outputs = arguments(kernel, config, instance), RUNS[kernel][2].split()
        code, text = run([BUILD + "/bin/kiln", "build", path, "-q", "-t", "host", "-k", instance, "-o", host])
        saves = [w for o in outputs for w in ("--save", "%s=%s/%s" % (o, folder, o))]
        if not code:
            code, text = run([BUILD + "/bin/kiln", "run", host, instance] + words + saves)
        if code:
            return code, "%s on the host: %s" % (instance, text)
        compares = [w for o in outputs for w in ("--compare", "%s=%s/%s" % (o, folder, o))]
        code, text = run(device + [BUILD + "/bin/kiln", "run", "-d", "cuda:0", bundle, instance] + words + compares + ["--tolerance", "0.02"], env=environment)
        if code:
            return code, instance + ": " + text
    return code, text


def judge(kernel, kernels, config, options, folder):
    """(verdict, text)"""
    path, bundle, log = kernels[kernel][0], folder + "/one.kbundle", folder + "/log"
    error = build(path, kernel, config, options, folder)
    if error:
        return "refused", "does not compile: " + error
    environment = dict(os.environ, KILN_BUILD=BUILD, KILN_PTX_LOG=log, KILN_PTX_SEED=str(options.seed))
    device = ["tests/emulation/interpreted.sh", options.target[3:5]]
    if kernel in RUNS:
        code, text = run_once(kernel, config, path, device, environment, folder)
    else:
        code, text = run(device + [BUILD + "/bin/kernel-check", bundle, "cuda:0", "=" + CASES.get(kernel, kernel)], env=environment)
    launches = [line.split() for line in open(log)] if os.path.exists(log) else []
    own = sum(1 for name, _ in launches if (name + "_").startswith("kiln_" + kernel + "_"))
    reasons = [line for line in text.split("\n") if "fail" in line or "error" in line or "differ" in line or "ptx:" in line or "module" in line]
    is_refusal = "no config allows" in text or "no kernel" in text
    if any(verdict == "found" for _, verdict in launches):
        return "FOUND", "; ".join(reasons) or text.strip()
    if code and not is_refusal:
        return "FOUND", "; ".join(reasons) or text.strip()
    if not own:
        return "refused", "; ".join(reasons) or "no launch"
    return "clean", "%d launches" % own


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kernels", nargs="*")
    parser.add_argument("--target", default="sm_90a")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    kernels, sums = read_kernels(options.target), {"clean": 0, "refused": 0, "FOUND": 0}
    for kernel, (path, configs) in kernels.items():
        for i, config in enumerate(configs):
            if options.kernels and kernel not in options.kernels and "%s:%d" % (kernel, i) not in options.kernels:
                continue
            if options.list:
                print("%s:%d %s" % (kernel, i, config))
                continue
            with tempfile.TemporaryDirectory() as folder:
                verdict, text = judge(kernel, kernels, config, options, folder)
            sums[verdict] += 1
            print("%s %s:%d %s: %s" % (verdict, kernel, i, config, text), flush=True)
    if not options.list:
        print("%(clean)d clean, %(refused)d refused, %(FOUND)d found" % sums)
    return 1 if sums["FOUND"] or not (options.list or sums["clean"]) else 0


if __name__ == "__main__":
    sys.exit(main())
