# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Rules for kernels. kiln_bundle compiles sources into one bundle, a file; kiln_library makes of it what C and C++ programs link.

An action's inputs are its sources, Kiln's programs and, if there is one, the assembler; it reads no cache, no environment and no kiln.conf, and its paths are
relative: other machines may run it.
"""

load("@rules_cc//cc:defs.bzl", "cc_library")

TOOLCHAIN = "@rules_kiln//:toolchain_type"

# What a machine sets for Kiln is not for these builds.
ENVIRONMENT = {"KILN_CONFIG": ""}

def _kiln_toolchain(ctx):
    return [platform_common.ToolchainInfo(
        kiln = ctx.file.kiln,
        ptxas = ctx.file.ptxas,
        workers = ctx.files.workers,
    )]

kiln_toolchain = rule(
    implementation = _kiln_toolchain,
    attrs = {
        "kiln": attr.label(allow_single_file = True, mandatory = True),
        "ptxas": attr.label(allow_single_file = True),
        "workers": attr.label_list(allow_files = True, mandatory = True),
    },
)

def _run(ctx, arguments, inputs, outputs, mnemonic, text):
    toolchain = ctx.toolchains[TOOLCHAIN]
    ctx.actions.run(
        executable = toolchain.kiln,
        arguments = [arguments],
        inputs = inputs,
        outputs = outputs,
        tools = toolchain.workers,
        env = ENVIRONMENT,
        mnemonic = mnemonic,
        progress_message = text,
    )

def _kiln_bundle(ctx):
    ptxas = ctx.toolchains[TOOLCHAIN].ptxas
    out = ctx.actions.declare_file(ctx.label.name + ".kbundle")
    arguments = ctx.actions.args()
    arguments.add_all(["build", "--no-cache", "--quiet"])
    arguments.add_joined("--target", ctx.attr.targets, join_with = ",")
    arguments.add("--level", ctx.attr.level)
    arguments.add("--jobs", ctx.attr.jobs)
    arguments.add("--ptx-assembler", "ptxas" if ptxas else "none")
    if ptxas:
        arguments.add("--assembler-path", ptxas)
    arguments.add_all(ctx.attr.kernels, before_each = "--kernel")
    if ctx.files.tuned:
        arguments.add_all(ctx.files.tuned, before_each = "--tuned")
    else:
        arguments.add("--no-tuned")
    arguments.add_all(ctx.attr.options)
    arguments.add("--output", out)
    arguments.add_all(ctx.files.srcs)
    inputs = ctx.files.srcs + ctx.files.tuned + ([ptxas] if ptxas else [])
    _run(ctx, arguments, inputs, [out], "KilnBuild", "Compiling kernels into " + out.short_path)
    return [DefaultInfo(files = depset([out]), runfiles = ctx.runfiles(files = [out]))]

kiln_bundle = rule(
    implementation = _kiln_bundle,
    attrs = {
        "jobs": attr.int(default = 1, doc = "workers of the action, which Bazel counts as one processor"),
        "kernels": attr.string_list(doc = "only these kernels or instances"),
        "level": attr.int(default = 3, doc = "zstd level of the bundle, 1 to 19"),
        "options": attr.string_list(doc = "more options of `kiln build`"),
        "srcs": attr.label_list(allow_files = [".kiln", ".ttir"], mandatory = True),
        "targets": attr.string_list(mandatory = True, doc = "GPU architectures and CPUs; `kiln targets` lists them"),
        "tuned": attr.label_list(allow_files = True, doc = "tables of `kiln tune`"),
    },
    toolchains = [TOOLCHAIN],
)

def _derive(ctx, command, options, out):
    arguments = ctx.actions.args()
    arguments.add(command)
    arguments.add_all(options)
    arguments.add("--out", out)
    arguments.add(ctx.file.bundle)
    _run(ctx, arguments, [ctx.file.bundle], [out], "Kiln" + command.capitalize(), "Writing " + out.short_path)

def _carried(ctx):
    name = ctx.attr.c_name
    _derive(ctx, "embed", ["--symbol", name + "_bundle"], ctx.outputs.assembly)
    _derive(ctx, "header", ["--prefix", name + "_"], ctx.outputs.header)
    ctx.actions.expand_template(
        template = ctx.file._opener,
        output = ctx.outputs.opener,
        substitutions = {"@kiln_name@": name, "@target@": ctx.attr.target},
    )

carried = rule(
    implementation = _carried,
    attrs = {
        "assembly": attr.output(mandatory = True),
        "bundle": attr.label(allow_single_file = True, mandatory = True),
        "c_name": attr.string(mandatory = True),
        "header": attr.output(mandatory = True),
        "opener": attr.output(mandatory = True),
        "target": attr.string(mandatory = True),
        "_opener": attr.label(allow_single_file = True, default = "@rules_kiln//:kilnOpen.h.in"),
    },
    toolchains = [TOOLCHAIN],
)

def _c_name(name):
    return "".join([c if c.isalnum() else "_" for c in name.elems()])

def kiln_library(name, srcs, targets, runtime = "@kiln//:runtime", visibility = None, **bundle):
    """A library to link, which has its bundle inside.

    NAME.h has a typed function for each kernel, and NAME_open(&library, &err) of NAME_open.h opens the bundle. In these names characters that C does not allow are _ .

    Args:
      name: the library; the bundle is NAME_bundle
      srcs: as in kiln_bundle
      targets: as in kiln_bundle
      runtime: libkiln, for the machine that the program is for
      visibility: of the library
      **bundle: more attributes of kiln_bundle
    """
    c_name = _c_name(name)
    kiln_bundle(name = name + "_bundle", srcs = srcs, targets = targets, **bundle)
    carried(
        name = name + "_files",
        assembly = c_name + ".S",
        bundle = name + "_bundle",
        c_name = c_name,
        header = c_name + ".h",
        opener = c_name + "_open.h",
        target = name,
    )
    cc_library(
        name = name,
        srcs = [c_name + ".S"],
        hdrs = [c_name + ".h", c_name + "_open.h"],
        textual_hdrs = [name + "_bundle"],  # the assembler includes it
        visibility = visibility,
        deps = [runtime],
    )
