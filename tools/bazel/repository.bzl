# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A repository of an installation of Kiln: @kiln//:toolchain, to be registered, and @kiln//:runtime, to be linked."""

BUILD = """
load("@rules_cc//cc:defs.bzl", "cc_library")
load("@rules_kiln//:defs.bzl", "kiln_toolchain")

package(default_visibility = ["//visibility:public"])

cc_library(
    name = "runtime",
    srcs = ["lib/libkiln.so.0"],
    data = ["lib/libkiln-more.so.0"],
    hdrs = glob(["include/**"]),
    includes = ["include"],
)

kiln_toolchain(
    name = "programs",
    kiln = "bin/kiln",
    ptxas = {ptxas},
    workers = [
        "libexec/kiln/kiln-codegen",
        "libexec/kiln/kiln-tool",
    ],
)

toolchain(
    name = "toolchain",
    exec_compatible_with = [
        "@platforms//os:linux",
        "@platforms//cpu:x86_64",
    ],
    toolchain = ":programs",
    toolchain_type = "@rules_kiln//:toolchain_type",
)
"""

LIBRARY_FOLDERS = ["lib", "lib64", "lib/x86_64-linux-gnu", "lib/aarch64-linux-gnu"]

def _find_library(ctx, prefix):
    for folder in LIBRARY_FOLDERS:
        path = ctx.path("%s/%s/libkiln.so.0" % (prefix, folder))
        if path.exists:
            return path
    fail("kiln_repository: there is no libkiln.so.0 in %s/%s" % (prefix, "|".join(LIBRARY_FOLDERS)))

def _kiln_repository(ctx):
    prefix = ctx.attr.prefix or ctx.os.environ.get("KILN_PREFIX", "/usr/local")
    runtime = ctx.attr.runtime_prefix or prefix
    for program in ["bin/kiln", "libexec/kiln/kiln-codegen", "libexec/kiln/kiln-tool"]:
        if not ctx.path(prefix + "/" + program).exists:
            fail("kiln_repository: there is no %s in %s; give `prefix`, or --repo_env=KILN_PREFIX" % (program, prefix))
        ctx.symlink(prefix + "/" + program, program)
    ctx.symlink(runtime + "/include/kiln", "include/kiln")
    library = _find_library(ctx, runtime)
    ctx.symlink(library, "lib/libkiln.so.0")
    ctx.symlink(library.dirname.get_child("libkiln-more.so.0"), "lib/libkiln-more.so.0")
    if ctx.attr.ptxas:
        ctx.symlink(ctx.attr.ptxas, "bin/ptxas")
    ctx.file("BUILD.bazel", BUILD.format(ptxas = repr("bin/ptxas" if ctx.attr.ptxas else None)))

kiln_repository = repository_rule(
    implementation = _kiln_repository,
    attrs = {
        "prefix": attr.string(doc = "where Kiln is installed; without it KILN_PREFIX, or /usr/local"),
        "ptxas": attr.string(doc = "NVIDIA's assembler; without it bundles have PTX in place of cubins"),
        "runtime_prefix": attr.string(doc = "where the runtime for the target's machine is, if not in `prefix`"),
    },
    environ = ["KILN_PREFIX"],
    local = True,
)
