# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# The only build file. `make help` lists what it can do. Output goes to build/<config>/, so configurations do not mix.
#
# A folder is an archive, and a program links only what the rule of docs/architecture.md allows it: a wrong call does not link.

comma := ,
CONFIG  ?= release
B       ?= build/$(CONFIG)
PREFIX  ?= /usr/local
# Libraries, pkg-config's and CMake's files: below PREFIX, as /usr/lib/x86_64-linux-gnu is below /usr.
LIBDIR  ?= $(PREFIX)/lib
DESTDIR ?=
# The one place that names the version of LLVM; tools/install-packages.sh reads it.
LLVM_VERSION ?= 22
LLVM_CONFIG ?= llvm-config-$(LLVM_VERSION)
CC      := gcc
CXX     := g++
AR      := ar
VERSION := 0.1.0

OPT_release := -O2
OPT_debug   := -O0 -g
OPT_asan    := -O1 -g -fsanitize=address,undefined -fno-omit-frame-pointer -fno-sanitize-recover=undefined -Wno-clobbered
OPT_tsan    := -O1 -g -fsanitize=thread
# The compiler checks its own invariants and every pass, whatever that costs (base/check.h, compiler/ir/pass.h).
CHECKED := $(if $(filter release,$(CONFIG)),,-DKILN_CHECKED)
# A sanitizer brings its own loader. The relocations of `kiln` stand in one packed table: a hit pays for each page of them.
STATIC := $(if $(filter asan tsan,$(CONFIG)),-pie,-static-pie -Wl,-z,pack-relative-relocs)
OPT_fuzz    := -O1 -g -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=undefined
# Hardening, as distributions build what they ship; what the compiler does not know is left out. A sanitizer watches the same itself, and
# its configurations stay without. Without optimisation there is nothing that _FORTIFY_SOURCE could see.
HARDENED := $(filter release debug,$(CONFIG))
# A compiler that fails for another reason (no room, no memory) must not change the flags: it is asked twice.
probe = $(shell for i in 1 2; do echo | $(CC) -Werror -O2 $(1) -include stdio.h -S -x c - -o - >/dev/null 2>&1 && { echo $(1); break; }; done)
FORTIFY := $(if $(filter release,$(CONFIG)),$(or $(call probe,-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3),$(call probe,-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2)))
# Calls and returns that only go where they may: CET on x86-64, BTI and signed returns on aarch64.
BRANCHES := $(or $(call probe,-fcf-protection=full),$(call probe,-mbranch-protection=standard))
# gcc 14.2, which Debian 13 has, takes the wrong side of a choice by a bit test: where s is known to be small, `s == 1 || s == 8 ? s : 3` is 3 for 1. It
# makes the conditional move of the other sense (cmovnc); without this pass it makes a branch, which is right. A compiler that has the move and is right
# loses the pass and nothing else; test_compiler runs the choice.
SOUND := $(if $(shell printf '%s\n' 'int get(void); static __attribute__((noinline)) int ask(void) {int s = get(); return s < 1 || s > 8 ? 3 : s;}' \
  'int put(void) {int s = ask(); return s == 1 || s == 8 ? s : 3;}' | $(CC) -O2 -S -x c - -o - 2>/dev/null | grep cmovnc),-fno-if-conversion)
HARDEN  := $(if $(HARDENED),-fstack-protector-strong $(call probe,-fstack-clash-protection) $(BRANCHES) $(FORTIFY))
HARDEN_LINK := $(if $(HARDENED),-Wl$(comma)-z$(comma)relro$(comma)-z$(comma)now$(comma)-z$(comma)noexecstack)
WARN    := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wno-missing-field-initializers -Werror
CFLAGS  := -std=c11 -D_GNU_SOURCE -DKILN_VERSION='"$(VERSION)"' $(OPT_$(CONFIG)) $(SOUND) $(CHECKED) $(HARDEN) $(WARN) -fPIC -fvisibility=hidden -ffunction-sections -fdata-sections -ffp-contract=off -fmacro-prefix-map=$(CURDIR)/= -I. -I$(B)/gen -MMD -MP $(EXTRA_CFLAGS)
LDFLAGS := $(OPT_$(CONFIG)) $(HARDEN_LINK) -Wl,--gc-sections -Wl,--build-id=sha1 $(EXTRA_LDFLAGS)

.DEFAULT_GOAL := all
# `make V=1` prints the commands.
say = $(if $(V),,@printf '  %-5s %s\n' $(1) $(2))
Q := $(if $(V),,@)
PACKAGES = LLVM_VERSION=$(LLVM_VERSION) tools/install-packages.sh
# `make demo` and `make check` use all processors unless -j says otherwise; to be expanded in recipes only.
JOBS = $(if $(findstring -j,$(MAKEFLAGS)),,-j$(shell nproc))
.DELETE_ON_ERROR:
.SECONDARY:

# ---------------------------------------------------------------------------------------------------------------- sources
sources = $(sort $(wildcard $(addsuffix /*.c,$(1))))
BASE     := $(call sources,base)
TARGETS  := $(call sources,targets)
# What is known of each family without LLVM, which passes read too.
INFO     := $(sort $(wildcard compiler/codegen/*/*_info.c))
COMPILER := $(INFO) $(call sources,compiler $(addprefix compiler/,ir layout analysis interpreter unit front ttir) compiler/passes $(addprefix compiler/passes/,canonical lower gpu gpu/layouts gpu/recover gpu/roles))
CODEGEN  := $(filter-out $(INFO),$(call sources,compiler/codegen $(addprefix compiler/codegen/,llvm gpu nvptx amdgpu host finish))) $(sort $(wildcard compiler/codegen/llvm/*.cpp compiler/codegen/finish/*.cpp))
CACHE    := $(call sources,cache)
TUNER    := $(call sources,tuner)
REMOTE   := $(call sources,cache/remote)
BUNDLE   := $(call sources,cache/bundle)
RUNTIME  := $(call sources,runtime runtime/bundle runtime/device)
# What libkiln opens as a file of its own when it is first wanted (runtime/more/more.h); archives have it inside.
MORE     := $(call sources,runtime/more)
VERIFY   := $(call sources,runtime/verify)
OBSERVE  := $(call sources,runtime/observe)
# What libkiln-observe takes of base, for itself: it uses nothing of libkiln's inside.
OBSERVE_BASE := $(addprefix base/,buffer.c checksum.c control_characters.c fs.c output.c status.c stream.c)
# What libkiln takes of base: no other library than zstd's decoder, so that a C compiler and two headers build it (docs/runtime.md).
OF_BASE  := $(addprefix base/,arena.c buffer.c checksum.c control_characters.c expr.c expr_code.c fs.c launches.c nearest.c output.c printed.c record.c status.c stream.c tuned.c types.c)
EXTENSION := $(call sources,python/extension)
# What the programs link of tools/, by folder. The folders have what is in common first; each may use those before it (tools/lint-folders.sh).
OF_KILN  := $(call sources,$(addprefix tools/,common kiln cache build))
OF_TOOL  := $(call sources,$(addprefix tools/,common kiln-tool bundle ptx-device case run tune))
PTX      := $(filter-out tools/ptx/main.c tools/ptx/driver.c,$(call sources,tools/ptx))

objects  = $(patsubst %,$(B)/obj/%.o,$(1))
archive  = $(B)/lib/lib$(1).a

A_BASE     := $(call archive,base)
A_TARGETS  := $(call archive,targets)
A_COMPILER := $(call archive,compiler)
A_CODEGEN  := $(call archive,codegen)
A_CACHE    := $(call archive,cache)
A_TUNER    := $(call archive,tuner)
A_REMOTE   := $(call archive,remote)
A_BUNDLE   := $(call archive,bundle)
A_RUNTIME  := $(call archive,runtime)
A_CORE     := $(call archive,runtime-core)
A_MORE     := $(call archive,runtime-more)
A_VERIFY   := $(call archive,kiln-verify)
A_OBSERVE  := $(call archive,kiln-observe)
A_OF_BASE  := $(call archive,runtime-base)
A_KILN     := $(call archive,kiln)
A_PTX      := $(call archive,ptx)

$(A_BASE):     $(call objects,$(BASE))
$(A_TARGETS):  $(call objects,$(TARGETS))
$(A_COMPILER): $(call objects,$(COMPILER))
$(A_CODEGEN):  $(call objects,$(CODEGEN))
$(A_CACHE):    $(call objects,$(CACHE))
$(A_TUNER):    $(call objects,$(TUNER))
$(A_REMOTE):   $(call objects,$(REMOTE))
$(A_BUNDLE):   $(call objects,$(BUNDLE))
$(A_RUNTIME):  $(call objects,$(RUNTIME) $(MORE))
# The two files of the shared library: what calls from one into the other is compiled for that.
APART_CORE := $(call objects,$(addprefix apart/,runtime/more.c runtime/apart/open_more.c))
APART_MORE := $(call objects,$(addprefix apart/,$(MORE) runtime/apart/start_more.c))
$(A_CORE):     $(call objects,$(filter-out runtime/more.c,$(RUNTIME))) $(APART_CORE)
$(A_MORE):     $(APART_MORE)
$(A_VERIFY):   $(call objects,$(VERIFY))
$(A_OBSERVE):  $(call objects,$(OBSERVE) $(OBSERVE_BASE))
$(A_OF_BASE):  $(call objects,$(OF_BASE))
# For static programs. zstd's decoder is not in it, so the stubs of its old formats are an application's own matter.
$(A_KILN):     $(call objects,$(filter-out runtime/zstd_legacy.c,$(RUNTIME)) $(MORE) $(TARGETS) $(OF_BASE))
$(A_PTX):      $(call objects,$(PTX))

$(B)/lib/lib%.a:
	@mkdir -p $(@D)
	@rm -f $@
	$(call say,AR,$@)
	$(Q)$(AR) rcsD $@ $^

# Arguments go into a block of 4,096 bytes at places known at run time: level 3 of _FORTIFY_SOURCE makes a call of each copy, and of a
# launch's 14 ns 24; level 2 sees the same copies as what they are, single moves.
WARM := runtime/launch.c runtime/launch_extras.c runtime/prepared.c
$(call objects,$(WARM)): CFLAGS += $(if $(FORTIFY),-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2)

# A variable of a thread is reached through a descriptor: a call of __tls_get_addr would make libkiln need the loader, and one at a fixed
# place takes of the little room that libraries which dlopen opens share. aarch64 has descriptors anyway.
$(call objects,runtime/hook.c): CFLAGS += $(call probe,-mtls-dialect=gnu2)

# libkiln is small: what runs once a program or once a kernel, and texts of errors, are compiled for size (-Oz: gcc 12 and later, clang).
SMALL := $(or $(call probe,-Oz),-Os)
COLD := $(filter-out $(WARM) runtime/bundle/reader.c runtime/device/null.c,$(RUNTIME)) $(MORE) $(TARGETS) base/record.c base/launches.c base/tuned.c base/nearest.c base/printed.c base/status.c base/expr_code.c base/file_mark.c base/stream.c base/digest.c base/control_characters.c base/output.c base/fs.c
ifeq ($(CONFIG),release)
# Without jump threading our part is 400 bytes smaller; clang knows no such flag.
UNTHREADED := $(shell $(CC) -fno-tree-dominator-opts -E -x c /dev/null >/dev/null 2>&1 && echo -fno-tree-dominator-opts)
$(call objects,$(COLD)) $(APART_CORE) $(APART_MORE): CFLAGS += $(SMALL) $(UNTHREADED)
endif

# Other flags, another object: the file changes when they do, and only then. What ccache brings is the same object, and so is what the same
# sources become in another folder.
FLAGS := $(B)/flags
.PHONY: ask
$(FLAGS): export TEXT := $(filter-out ccache,$(CC)) $(filter-out -fmacro-prefix-map=%,$(CFLAGS)) $(SMALL) $(UNTHREADED) $(COLD) $(WARM)
$(FLAGS): ask
	@mkdir -p $(@D)
	@test ! -s $@ || printf '%s\n' "$$TEXT" | cmp -s - $@ || { echo "$@: other flags than before, everything is compiled again:"; tr ' ' '\n' <$@ >$@.old; printf '%s\n' "$$TEXT" | tr ' ' '\n' | diff $@.old - | grep '^[<>]'; rm -f $@.old; } >&2; true
	@printf '%s\n' "$$TEXT" | cmp -s - $@ || printf '%s\n' "$$TEXT" >$@

# Where the system's kiln.conf is, below /kiln; the file changes when that does.
SYSCONFDIR ?= /etc
$(B)/sysconfdir: ask
	@mkdir -p $(@D)
	@echo '$(SYSCONFDIR)' | cmp -s - $@ || echo '$(SYSCONFDIR)' >$@
$(call objects,tools/kiln/environment.c): CFLAGS += -DKILN_SYSCONFDIR='"$(SYSCONFDIR)"'
$(call objects,tools/kiln/environment.c): $(B)/sysconfdir

# libkiln.so.0 and libkiln-more.so.0 share structs: each tells the other a digest of the sources of both.
SAME_SOURCES := $(sort $(wildcard $(foreach d,runtime runtime/bundle runtime/device runtime/more runtime/apart targets base,$(addprefix $d/*.,c h def))))
SAME := $(shell cat $(SAME_SOURCES) | sha256sum | cut -c1-16)
$(B)/same: ask
	@mkdir -p $(@D)
	@echo '$(SAME)' | cmp -s - $@ || echo '$(SAME)' >$@
$(APART_CORE) $(APART_MORE): CFLAGS += -DKILN_APART -DKILN_SAME='"$(SAME)"'
$(APART_CORE) $(APART_MORE): $(B)/same

# Another LLVM, other objects of those that include it.
LLVM := $(B)/llvm
$(LLVM): export TEXT = $(shell $(LLVM_CONFIG) --version --includedir --libdir)
$(LLVM): ask
	@mkdir -p $(@D)
	@printf '%s\n' "$$TEXT" | cmp -s - $@ || printf '%s\n' "$$TEXT" >$@

$(call objects,tools/build/source_digest.c): $(B)/obj/%.c.o: %.c $(FLAGS) $(LLVM)
	@mkdir -p $(@D)
	$(call say,CC,$@)
	$(Q)$(CC) $(CFLAGS) -isystem $(shell $(LLVM_CONFIG) --includedir) -c $< -o $@

$(call objects,$(INFO)): $(B)/obj/%.c.o: %.c $(FLAGS)
	@mkdir -p $(@D)
	$(call say,CC,$@)
	$(Q)$(CC) $(CFLAGS) -c $< -o $@
$(B)/obj/compiler/codegen/%.c.o: compiler/codegen/%.c $(FLAGS) $(LLVM)
	@mkdir -p $(@D)
	$(call say,CC,$@)
	$(Q)$(CC) $(CFLAGS) -isystem $(shell $(LLVM_CONFIG) --includedir) -c $< -o $@
$(B)/obj/tests/codegen/%.c.o: tests/codegen/%.c $(FLAGS) $(LLVM)
	@mkdir -p $(@D)
	$(call say,CC,$@)
	$(Q)$(CC) $(CFLAGS) -isystem $(shell $(LLVM_CONFIG) --includedir) -c $< -o $@
$(B)/obj/python/extension/%.c.o: python/extension/%.c $(FLAGS)
	@mkdir -p $(@D)
	$(call say,CC,$@)
	$(Q)$(CC) $(CFLAGS) -fno-plt -isystem $(PYTHON_INCLUDE) -c $< -o $@
$(B)/obj/apart/%.c.o: %.c $(FLAGS)
	@mkdir -p $(@D)
	$(call say,CC,$@)
	$(Q)$(CC) $(CFLAGS) -c $< -o $@
$(B)/obj/%.c.o: %.c $(FLAGS)
	@mkdir -p $(@D)
	$(call say,CC,$@)
	$(Q)$(CC) $(CFLAGS) -c $< -o $@
$(B)/obj/%.cpp.o: %.cpp $(FLAGS) $(LLVM)
	@mkdir -p $(@D)
	$(call say,CXX,$@)
	$(Q)$(CXX) -std=c++17 $(OPT_$(CONFIG)) $(SOUND) $(HARDEN) -Wall -Wextra -fPIC -fvisibility=hidden -fno-rtti -I. -isystem $(shell $(LLVM_CONFIG) --includedir) -MMD -MP -c $< -o $@

# ---------------------------------------------------------------------------------------------------------------- programs
# What each may link is the table of docs/architecture.md.
SODIUM  := -l:libsodium.a
ZSTD    := -l:libzstd.a
# LLVM 22 has distributed ThinLTO, which lld asks for, as a component of its own.
LLVM_PARTS = nvptx amdgpu x86 aarch64 passes irreader linker bitreader bitwriter lto option debuginfodwarf $(filter dtlto,$(shell $(LLVM_CONFIG) --components))
LLVM_LIBS = -L$(shell $(LLVM_CONFIG) --libdir) -llldELF -llldCommon $(shell $(LLVM_CONFIG) --link-static --libs $(LLVM_PARTS)) -l:libstdc++.a $(ZSTD) -l:libz.a -l:libtinfo.a -lm -lpthread -ldl

# Of LLVM's archive only its C and assembly of BLAKE3.
BLAKE3 = -L$(shell $(LLVM_CONFIG) --libdir) -l:libLLVMSupport.a

PROGRAMS := $(B)/bin/kiln $(B)/bin/kiln-codegen $(B)/bin/kiln-tool $(B)/bin/kiln-remote $(B)/bin/kiln-ptx-driver.so
CHECKERS := $(B)/bin/kernel-check $(B)/bin/generated-check $(B)/bin/conversion-check $(B)/bin/kiln-ptx
# Applications write <kiln/kiln.h>, here as after installation: -I$(INCLUDE) -I. stands for the installed folder.
INCLUDE := $(B)/include
# The package as it is installed: `PYTHONPATH=$(B)/python` stands for that. One build serves every CPython from 3.11 on, but for the free-threaded ones, which have no
# stable ABI: PYTHON=python3.13t, with a B of its own, makes that for the one version.
PYTHON ?= /usr/bin/python3
PYTHON_FACTS := $(shell $(PYTHON) -c 'from sysconfig import *; v = get_config_var; print(get_path("include"), v("EXT_SUFFIX") if v("Py_GIL_DISABLED") else ".abi3.so")' 2>/dev/null)
PYTHON_INCLUDE := $(firstword $(PYTHON_FACTS))
PACKAGE := $(B)/python/kiln
CORE := $(PACKAGE)/_core$(or $(word 2,$(PYTHON_FACTS)),.abi3.so)
PACKAGE_SOURCES := $(wildcard python/kiln/*.py python/kiln/*.pyi python/kiln/py.typed python/kiln/*/*.py python/kiln/*/*.pyi)
PACKAGE_FILES := $(patsubst python/kiln/%,$(PACKAGE)/%,$(PACKAGE_SOURCES)) $(CORE) $(addprefix $(PACKAGE)/,libkiln.so.0 libkiln-more.so.0 libkiln-observe.so.0 libkiln-verify.so.0)
ifeq ($(wildcard $(PYTHON_INCLUDE)/Python.h),)
$(info Python.h is not there (tools/install-packages.sh build): the Python package is not built)
PACKAGE_FILES :=
endif
# SHARED=no: archives alone, for a libc without shared libraries of its own. VERIFY_KEYS=no: without libkiln-verify, which needs libsodium.
SHARED ?= yes
VERIFY_KEYS ?= yes
VERIFY_LIBRARIES := $(if $(filter yes,$(VERIFY_KEYS)),$(A_VERIFY) $(if $(filter yes,$(SHARED)),$(B)/lib/libkiln-verify.so.0))
LIBRARIES := $(INCLUDE)/kiln/kiln.h $(A_KILN) $(A_OBSERVE) $(if $(filter yes,$(SHARED)),$(B)/lib/libkiln.so.0 $(B)/lib/libkiln-more.so.0 $(B)/lib/libkiln-observe.so.0) $(VERIFY_LIBRARIES)

# What a hit runs stands together, in fewer pages: cache, base and digests come before the front end, which needs them too.
$(B)/bin/kiln: $(call objects,$(OF_KILN)) $(A_COMPILER) $(A_TUNER) $(A_CACHE) $(A_TARGETS) $(A_BASE)
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) $(STATIC) $(LDFLAGS) $(filter %.o,$^) $(A_CACHE) $(A_BASE) $(BLAKE3) $(SODIUM) $(filter %.a,$^) $(SODIUM) $(ZSTD) -lm -lpthread -o $@.linked
	$(Q)cp --remove-destination $@.linked $@ && rm $@.linked # in one piece: what a linker wrote here and there starts a tenth slower
$(B)/bin/kiln-codegen: $(call objects,$(call sources,tools/codegen) tools/old_libc.c) $(A_CODEGEN) $(A_COMPILER) $(A_TARGETS) $(A_BASE)
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CXX) -pie $(LDFLAGS) -static-libgcc -Wl,--as-needed $^ $(LLVM_LIBS) $(SODIUM) -o $@
$(B)/bin/kiln-tool: $(call objects,$(OF_TOOL) tools/old_libc.c) $(A_RUNTIME) $(A_COMPILER) $(A_BUNDLE) $(A_TUNER) $(A_CACHE) $(A_TARGETS) $(A_BASE)
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) -pie $(LDFLAGS) $^ -l:libarchive.a -l:libnettle.a -l:libz.a -l:libbz2.a -l:liblzma.a $(SODIUM) $(ZSTD) -lm -lpthread -ldl -o $@
$(B)/bin/kiln-remote: $(call objects,$(call sources,tools/remote) tools/common/cli.c tools/common/cli_input.c tools/common/key_file.c) $(A_REMOTE) $(A_CACHE) $(A_BASE)
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) -pie $(LDFLAGS) $^ -lcurl $(SODIUM) $(ZSTD) -lpthread -o $@

# The interpreter of PTX in place of NVIDIA's driver, for `-d ptx:sm_90a`. It has no name that a loader looks for.
$(B)/bin/kiln-ptx-driver.so: $(call objects,tools/ptx/driver.c) $(A_PTX) $(A_BASE)
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) -shared -Wl,-z,defs -Wl,--exclude-libs,ALL $(LDFLAGS) $^ $(SODIUM) -lm -lpthread -o $@

# Runs PTX without a GPU, for people (docs/ptx.md).
$(B)/bin/kiln-ptx: $(call objects,tools/ptx/main.c tools/common/cli.c tools/common/cli_input.c) $(A_PTX) $(A_BASE)
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) $(LDFLAGS) $^ $(SODIUM) -lm -o $@

# Runs the kernel library against its references on any device; carried to machines that have one.
$(B)/bin/kernel-check: $(call objects,$(call sources,tests/kernels)) $(A_RUNTIME) $(A_COMPILER) $(A_TARGETS) $(A_BASE)
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) -pie $(LDFLAGS) $^ $(ZSTD) -lm -lpthread -ldl -o $@

# Runs conversions between all types against exact arithmetic on any device; carried too.
$(B)/bin/conversion-check: $(call objects,$(call sources,tests/conversions)) $(A_RUNTIME) $(A_TARGETS) $(A_BASE)
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) $(LDFLAGS) $^ $(ZSTD) -lm -lpthread -ldl -o $@

# Runs random kernels against the interpreter on any device; carried too, with kiln-codegen beside it.
$(B)/bin/generated-check: $(call objects,$(call sources,tests/generated tools/common)) $(call objects,$(call sources,tests/kernelgen)) $(A_RUNTIME) $(A_COMPILER) $(A_BUNDLE) $(A_TUNER) $(A_CACHE) $(A_TARGETS) $(A_BASE)
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) -pie $(LDFLAGS) $^ -l:libarchive.a -l:libnettle.a -l:libz.a $(SODIUM) $(ZSTD) -lm -lpthread -ldl -o $@

# Stands in for AMD's driver where an emulator is named (docs/emulation.md).
EMULATED := $(B)/emulation/libamdhip64.so
$(EMULATED): $(B)/obj/tests/emulation/hip_emulated.c.o
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) -shared $(LDFLAGS) $^ -lpthread -o $@

# The same for programs that know nothing of it: tests put it where the loader finds it as NVIDIA's (docs/ptx.md).
INTERPRETED := $(B)/interpreted/libcuda.so.1
$(INTERPRETED): $(B)/obj/tests/emulation/cuda_interpreted.c.o $(call objects,tools/ptx/driver.c) $(A_PTX) $(A_BASE)
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) -shared $(LDFLAGS) $^ $(SODIUM) -lm -lpthread -o $@

# Zones around memory for tests of the Python package (LD_PRELOAD): malloc itself, of which the compiler knows nothing.
ZONES := $(B)/zones/zones.so
$(ZONES): tests/python/zones.c $(FLAGS)
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) -shared -fPIC -std=gnu11 -O2 -Wall -Wextra -fno-builtin $< -lpthread -o $@

# libkiln is loaded at run time, the interpreter is there already.
$(CORE): $(call objects,$(EXTENSION))
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) -shared $(LDFLAGS) $^ -lm -ldl -o $@
$(PACKAGE)/lib%: $(B)/lib/lib%
	@mkdir -p $(@D)
	ln -sfnr $< $@
$(PACKAGE)/%: python/kiln/%
	@mkdir -p $(@D)
	ln -sfnr $< $@

$(INCLUDE)/kiln/kiln.h: runtime/kiln.h
	@mkdir -p $(@D)
	ln -sfnr $< $@

# libkiln carries objects of base and targets, and zstd's decoder; all of them hidden.
$(B)/lib/libkiln.so.0: $(A_CORE) $(A_TARGETS) $(A_OF_BASE) runtime/kiln.map | $(B)/lib/libkiln-more.so.0
	$(call say,LINK,$@)
	$(Q)$(CC) -shared -Wl,-soname,libkiln.so.0 $(if $(HARDENED),-Wl$(comma)-z$(comma)defs) -Wl,--version-script=runtime/kiln.map $(LDFLAGS) -Wl,--whole-archive $(A_CORE) -Wl,--no-whole-archive $(A_TARGETS) $(A_OF_BASE) $(ZSTD) -lpthread -ldl -Wl,-Map,$@.map -o $@
	ln -sf libkiln.so.0 $(B)/lib/libkiln.so

# Of base it has its own; the rest of libkiln it calls through the table that it is given.
$(B)/lib/libkiln-more.so.0: $(A_MORE) $(A_OF_BASE) runtime/more/more.map
	$(call say,LINK,$@)
	$(Q)$(CC) -shared -Wl,-soname,libkiln-more.so.0 $(if $(HARDENED),-Wl$(comma)-z$(comma)defs) -Wl,--version-script=runtime/more/more.map $(LDFLAGS) -Wl,--whole-archive $(A_MORE) -Wl,--no-whole-archive $(A_OF_BASE) -lpthread -Wl,-Map,$@.map -o $@

# Uses libsodium and nothing of ours; the callback is all that libkiln knows of it.
$(B)/lib/libkiln-verify.so.0: $(A_VERIFY)
	$(call say,LINK,$@)
	$(Q)$(CC) -shared -Wl,-soname,libkiln-verify.so.0 -Wl,-z,defs $(LDFLAGS) -Wl,--whole-archive $(A_VERIFY) -Wl,--no-whole-archive -lsodium -lpthread -o $@
	ln -sf libkiln-verify.so.0 $(B)/lib/libkiln-verify.so

# Calls libkiln by what the program has (weak), so it needs no particular one. It stays loaded: hooks are in it.
$(B)/lib/libkiln-observe.so.0: $(A_OBSERVE) runtime/observe/observe.map
	$(call say,LINK,$@)
	$(Q)$(CC) -shared -Wl,-soname,libkiln-observe.so.0 -Wl,-z,defs -Wl,-z,nodelete -Wl,-Bsymbolic -Wl,--version-script=runtime/observe/observe.map $(LDFLAGS) -Wl,--whole-archive $(A_OBSERVE) -Wl,--no-whole-archive -lpthread -ldl -o $@
	ln -sf libkiln-observe.so.0 $(B)/lib/libkiln-observe.so

# For wheels: libkiln-verify with libsodium inside.
$(B)/wheel/libkiln-verify.so.0: $(A_VERIFY)
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) -shared -Wl,-soname,libkiln-verify.so.0 -Wl,-z,defs $(LDFLAGS) -Wl,--exclude-libs,libsodium.a -Wl,--whole-archive $(A_VERIFY) -Wl,--no-whole-archive $(SODIUM) -lpthread -o $@
.PHONY: wheel library-parts
library-parts: $(B)/lib/libkiln.so.0 $(B)/lib/libkiln-more.so.0 ## what each part of libkiln costs, in bytes
	@for f in $^; do echo "$${f##*/}"; tools/library-parts.py $$f.map || exit 1; done
wheel: ## the two wheels of the Python package, in build/<config>/wheels
	tools/wheel.sh -b $(B)

.PHONY: all programs libraries runtime core help
all: programs libraries ## build everything
programs: $(PROGRAMS)
libraries: $(LIBRARIES) $(PACKAGE_FILES)
runtime: $(LIBRARIES) ## build libkiln alone: what install-runtime installs
core: $(CORE)

# ------------------------------------------------------------------------------------------------------------------- tests
# One program a test file; it links what its folder may call.
TEST_SOURCES := $(call sources,tests/base tests/targets tests/compiler tests/codegen tests/cache tests/tuner tests/bundle tests/runtime tests/ptx tests/tools)
TESTS := $(patsubst tests/%.c,$(B)/tests/%,$(TEST_SOURCES))
HARNESS := $(B)/obj/tests/harness.c.o
KERNELGEN := $(call objects,$(call sources,tests/kernelgen))

L_base     = $(A_BASE)
L_targets  = $(A_TARGETS) $(A_BASE)
L_compiler = $(KERNELGEN) $(A_COMPILER) $(A_TARGETS) $(A_BASE)
L_codegen  = $(KERNELGEN) $(A_CODEGEN) $(A_PTX) $(A_COMPILER) $(A_TARGETS) $(A_BASE)
L_cache    = $(A_CACHE) $(A_BASE)
L_tuner    = $(A_TUNER) $(A_CACHE) $(A_BASE)
L_bundle   = $(A_BUNDLE) $(A_BASE)
L_runtime  = $(A_RUNTIME) $(A_VERIFY) $(A_OBSERVE) $(A_TARGETS) $(A_BASE)
L_ptx      = $(A_PTX) $(A_BASE)
L_tools    = $(A_RUNTIME) $(A_COMPILER) $(A_BUNDLE) $(A_CACHE) $(A_TARGETS) $(A_BASE)
X_codegen  = $(LLVM_LIBS)
X_bundle   = -larchive -l:libz.a
X_tools    = -l:libz.a
# The second group makes order inside the group irrelevant.
define test_rule
$(B)/tests/$(1)/%: $(B)/obj/tests/$(1)/%.c.o $(HARNESS) $(L_$(1))
	@mkdir -p $$(@D)
	$$(call say,LINK,$$@)
	$$(Q)$(CXX) $$(filter-out -Wl$$(comma)--gc-sections,$(LDFLAGS)) $$< $(HARNESS) $(L_$(1)) $$(X_$(1)) $(SODIUM) $(ZSTD) -lcriterion -lm -lpthread -ldl -o $$@
endef
$(foreach d,base targets compiler codegen cache tuner bundle runtime ptx tools,$(eval $(call test_rule,$(d))))

.PHONY: tests check check-full check-memory check-sanitizers bless
tests: $(TESTS) $(CHECKERS) $(EMULATED) $(INTERPRETED) $(ZONES)
check: ## install what the tests need, build, run all of them (about a quarter of an hour on two cores); ends with the line of sums
	$(PACKAGES) build test
	$(MAKE) $(JOBS) all tests
	tests/run.py $(B)
check-full: all tests ## the long matrix: everything of `check`, all processors, all generated kernels, whole sweeps
	KILN_TEST_FULL=1 tests/run.py $(B)
# What a run of CI has time for: readers of what comes from outside.
MEMORY_CHECKED := base/ targets/ bundle/ cache/test_store cache/test_damage cache/test_memory
check-memory: ## the quick part of check-sanitizers
	$(MAKE) CONFIG=asan $(JOBS) $(patsubst %,build/asan/tests/%,$(filter $(addsuffix %,$(MEMORY_CHECKED)),$(patsubst tests/%.c,%,$(TEST_SOURCES))))
	tests/run.py build/asan $(MEMORY_CHECKED)
check-sanitizers: ## nearly all tests under address and undefined-behaviour sanitizers, those of cache and runtime under the thread sanitizer (an hour)
	$(MAKE) CONFIG=asan all tests
	tests/run.py build/asan base/ cache/ compiler/ targets/ tuner/ bundle/ runtime/ tools/test_build_command tools/test_commands python/
	$(MAKE) CONFIG=tsan EXTRA_CFLAGS=-DKILN_PLAIN_TESTS programs build/tsan/lib/libkiln.so.0 build/tsan/lib/libkiln-verify.so.0 $(patsubst %,build/tsan/tests/%,$(filter cache/% runtime/%,$(patsubst tests/%.c,%,$(TEST_SOURCES))))
	tests/run.py build/tsan cache/ runtime/
# The compiler makes the same code as before: of a change that should not alter any (tools/same-code.py).
SAME_CODE = tools/same-code.py $(1) --build=$(B) --form=$(or $(FORM),quick) $(if $(SINCE),--base=$(SINCE))
.PHONY: same-code same-code-save
same-code: programs ## compare canonical bytes, keys and code with what same-code-save saved, or SINCE=<commit> makes; FORM=full: all configs, all processors
	$(call SAME_CODE,compare)
same-code-save: programs ## save what the compiler makes now, for same-code, in build/same-code
	$(call SAME_CODE,save)
bless: all tests ## rewrite golden files with what the programs print now; read the diff
	KILN_TEST_BLESS=1 tests/run.py $(B)

.PHONY: debug compile_commands.json
debug: ## build programs, libraries and tests without optimisation, with debug information, in build/debug
	$(MAKE) CONFIG=debug all tests
compile_commands.json: ## for editors and analysers: how each file is compiled
	@$(MAKE) -s -n -B V=1 all tests | tools/compile-commands.sh > $@.new && mv $@.new $@

.PHONY: format lint lint-quick
FORMAT ?= clang-format-14
C_FILES = $(shell git ls-files '*.c' '*.h' '*.cpp')
format: ## apply .clang-format to every C file
	$(FORMAT) -i $(C_FILES)
lint-quick: ## check the format of every C file, the order of the folders, the structure, the numbers that tests cite, what documents name
	@$(FORMAT) --dry-run -Werror $(C_FILES)
	tools/lint-folders.sh
	tools/lint-structure.py
	tools/lint-numbers.py
	tools/lint-docs.py
lint: lint-quick $(B)/gen/mathlib.inc $(B)/gen/mathlib_index.inc ## lint-quick, then clang-tidy, cppcheck, gcc -fanalyzer and the headers of the oldest LLVM (minutes)
	tools/lint-analysers.sh $(B) $(shell $(LLVM_CONFIG) --includedir)
	tools/lint-older-llvm.sh $(B)

.PHONY: demo kernels install-packages
install-packages: ## install what build and tests need (Debian 12)
	$(PACKAGES) build test
demo: ## install what it needs, build, compile some of kernels/ into a bundle, run the example application on the host
	$(PACKAGES) build
	$(MAKE) $(JOBS) all
	examples/demo.sh $(B)
# What `make kernels` compiles for.
KERNEL_TARGETS ?= host,sm_90a,gfx942,gfx1100
kernels: programs ## compile all of kernels/ into build/<config>/kernels.kbundle for KERNEL_TARGETS (several minutes, later from the cache)
	$(B)/bin/kiln build kernels/*.kiln --target $(KERNEL_TARGETS) -o $(B)/kernels.kbundle

help: ## this text
	@sed -n 's/^\([a-z-]*\):[^#]*## /\1\t/p' Makefile | expand -t 20
.PHONY: clean
clean: ## remove build/
	rm -rf build

-include $(shell test -d $(B)/obj && find $(B)/obj -name '*.d')
-include tools/*.mk

# ----------------------------------------------------------------------------------------------------------------- install
# Two sides: the runtime is what an application links, for the machine that it runs on; the compiler is what builds bundles, on any machine.
# Where this prefix's interpreters look: Debian's packages are for every version, what is in /usr/local for one.
PYTHON_FOLDER ?= $(if $(filter /usr,$(PREFIX)),python3,$(or $(shell /usr/bin/python3 -c 'import sys; print("python%d.%d" % sys.version_info[:2])' 2>/dev/null),python3))
INTO     = $(DESTDIR)$(PREFIX)
# These names stand in commands and in what sed writes as they are. They are refused before anything is installed, whatever else is asked for.
REFUSED_IN_NAMES := ' " ` \ & | ; < > ( ) * ? [ ] { } ! \# $$
define check_folder # the name of a variable
$(if $(word 2,$($(1))x),$(error $(1): expected a folder without white space, found '$($(1))'))
$(foreach c,$(REFUSED_IN_NAMES),$(if $(findstring $c,$($(1))),$(error $(1): expected a folder without $c, found '$($(1))')))
endef
ifneq ($(filter install install-runtime install-compiler install-cmake uninstall,$(MAKECMDGOALS)),)
$(foreach name,DESTDIR PREFIX LIBDIR,$(call check_folder,$(name)))
$(foreach name,PREFIX LIBDIR,$(if $(filter-out /%,$($(name))),$(error $(name): expected a path from the root, found '$($(name))')))
endif
# The folder of libraries as it is below PREFIX: "lib", "lib64", "lib/x86_64-linux-gnu".
LIB      = $(or $(patsubst $(PREFIX)/%,%,$(filter $(PREFIX)/%,$(LIBDIR))),$(error LIBDIR: expected a folder below $(PREFIX), found '$(LIBDIR)'))
PYTHON_PACKAGE = lib/$(PYTHON_FOLDER)/dist-packages/kiln
DISTINFO = lib/$(PYTHON_FOLDER)/dist-packages/kiln_runtime-$(VERSION).dist-info
DOC      = share/doc/kiln
EXAMPLES = bazel cmake embedded hook make meson ninja $(addprefix python/,jax numpy pytorch triton) saxpy transformer
# Names the folders that install had to make, below DESTDIR, one a line: uninstall takes these and no others.
MADE     = share/kiln/folders
COMPLETIONS_BASH = share/bash-completion/completions/kiln
COMPLETIONS_ZSH  = share/zsh/vendor-completions/_kiln
COMPLETIONS_FISH = share/fish/vendor_completions.d/kiln.fish
COMPLETIONS = $(COMPLETIONS_BASH) $(COMPLETIONS_ZSH) $(COMPLETIONS_FISH)
FOLDERS  = tools/install-folders.sh make "$(DESTDIR)" "$(PREFIX)" $(MADE)
STRIP   ?= strip
STRIPPED = install -m 755 -s --strip-program=$(STRIP)
PC       = kiln kiln-observe $(if $(VERIFY_LIBRARIES),kiln-verify)
BESIDE   = kiln_observe $(if $(VERIFY_LIBRARIES),kiln_verify)
# Where there are archives only, a program links itself what they need.
PC_LIBS  = $(if $(filter yes,$(SHARED)),,-e '/^Libs:/{N;s/\nLibs.private://}')
.PHONY: install install-runtime install-compiler install-cmake uninstall dist
install: install-runtime install-compiler ## install programs, library, headers, pages, examples under PREFIX (DESTDIR, LIBDIR)
# Both write the list of folders: with -j, one after the other.
install-compiler: | $(if $(filter install install-runtime,$(MAKECMDGOALS)),install-runtime)
install-runtime: runtime install-cmake ## install what applications link: libkiln, libkiln-observe, headers, pkg-config's and CMake's files
	$(FOLDERS) $(LIB)/pkgconfig include/kiln/base share/man/man3
	$(if $(filter yes,$(SHARED)),$(STRIPPED) $(filter %.so.0,$(LIBRARIES)) $(INTO)/$(LIB))
	$(foreach so,$(filter-out %-more.so.0,$(filter %.so.0,$(LIBRARIES))),ln -sf $(notdir $(so)) $(INTO)/$(LIB)/$(notdir $(so:.0=)) &&) true
	install -m 644 $(filter %.a,$(LIBRARIES)) $(INTO)/$(LIB)
	install -m 644 runtime/kiln.h $(INTO)/include/kiln
	for h in $(BESIDE); do sed -e 's|"runtime/kiln.h"|"kiln.h"|' runtime/$$h.h > $(INTO)/include/kiln/$$h.h || exit 1; done
	install -m 644 base/status.def $(INTO)/include/kiln/base
	sed -e 's|"base/status.def"|"status.def"|' base/status_code.h > $(INTO)/include/kiln/base/status_code.h
	install -m 644 docs/man/*.3 $(INTO)/share/man/man3
	for n in $(PC); do sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@LIB@|$(LIB)|' -e 's|@VERSION@|$(VERSION)|' $(PC_LIBS) tools/$$n.pc.in > $(INTO)/$(LIB)/pkgconfig/$$n.pc || exit 1; done
	chmod 644 $(addprefix $(INTO)/,$(BESIDE:%=include/kiln/%.h) include/kiln/base/status_code.h $(PC:%=$(LIB)/pkgconfig/%.pc))
	$(if $(DESTDIR),,$(if $(filter yes,$(SHARED)),tools/install-folders.sh loader "$(PREFIX)/$(LIB)"))
# One package serves both sides: each finds what there is (tools/cmake/kilnConfig.cmake.in).
install-cmake:
	$(FOLDERS) $(LIB)/cmake/kiln
	sed -e 's|@LIB@|$(LIB)|' tools/cmake/kilnConfig.cmake.in > $(INTO)/$(LIB)/cmake/kiln/kilnConfig.cmake
	sed -e 's|@VERSION@|$(VERSION)|' tools/cmake/kilnConfigVersion.cmake.in > $(INTO)/$(LIB)/cmake/kiln/kilnConfigVersion.cmake
	install -m 644 tools/cmake/kilnBundle.cmake tools/cmake/kilnOpen.h.in $(INTO)/$(LIB)/cmake/kiln
	chmod 644 $(INTO)/$(LIB)/cmake/kiln/*
install-compiler: all install-cmake ## install the programs, their pages, the kernel library, examples and the Python package
	$(FOLDERS) bin libexec/kiln $(dir $(COMPLETIONS)) share/man/man1 share/man/man5 $(PYTHON_PACKAGE)/triton $(DISTINFO) share/kiln/bazel share/kiln/kernels share/kiln/kernels/tuned $(addprefix $(DOC)/examples/,$(EXAMPLES))
	install -m 755 $(B)/bin/kiln $(INTO)/bin
	for shell in bash=$(COMPLETIONS_BASH) zsh=$(COMPLETIONS_ZSH) fish=$(COMPLETIONS_FISH); do $(B)/bin/kiln completion $${shell%%=*} -o $(INTO)/$${shell#*=} && chmod 644 $(INTO)/$${shell#*=} || exit 1; done
	$(STRIPPED) $(filter-out $(B)/bin/kiln,$(PROGRAMS)) $(INTO)/libexec/kiln
	install -m 644 tools/bazel/* tools/cmake/kilnOpen.h.in $(INTO)/share/kiln/bazel
	install -m 644 kernels/*.kiln $(INTO)/share/kiln/kernels
	install -m 644 kernels/tuned/* $(INTO)/share/kiln/kernels/tuned
	for n in 1 5; do install -m 644 docs/man/*.$$n $(INTO)/share/man/man$$n || exit 1; done
	install -m 644 $(filter-out $(wildcard python/kiln/*/*),$(PACKAGE_SOURCES)) $(INTO)/$(PYTHON_PACKAGE)
	install -m 644 $(wildcard python/kiln/triton/*.py python/kiln/triton/*.pyi) $(INTO)/$(PYTHON_PACKAGE)/triton
	install -m 644 python/kiln-triton.pth $(INTO)/$(PYTHON_PACKAGE).pth
	$(if $(PACKAGE_FILES),$(STRIPPED) $(CORE) $(INTO)/$(PYTHON_PACKAGE))
	sed -e 's|@VERSION@|$(VERSION)|' -e 's|@NAME@|kiln-runtime|' -e 's|@SUMMARY@|Opens bundles of compiled GPU kernels and launches them|' -e '/^License-File/d' python/METADATA.in > $(INTO)/$(DISTINFO)/METADATA
	chmod 644 $(INTO)/$(DISTINFO)/METADATA
	install -m 644 LICENSE NOTICE README.md CHANGELOG.md SECURITY.md docs/*.md $(INTO)/$(DOC)
	for e in $(EXAMPLES); do install -m 644 $$(find examples/$$e -maxdepth 1 -type f) $(INTO)/$(DOC)/examples/$$e || exit 1; done
uninstall: ## remove what install, or either side of it, put there, and the folders that it made
	tools/install-folders.sh remove "$(DESTDIR)" "$(PREFIX)" $(MADE) \
	  $(addprefix bin/,kiln) libexec/kiln $(COMPLETIONS) $(LIB)/cmake/kiln include/kiln share/kiln $(DOC) $(PYTHON_PACKAGE) $(PYTHON_PACKAGE).pth $(DISTINFO) '$(LIB)/libkiln.so*' '$(LIB)/libkiln-more.so*' '$(LIB)/libkiln-observe.so*' '$(LIB)/libkiln-verify.so*' $(addprefix $(LIB)/,libkiln.a libkiln-observe.a libkiln-verify.a) \
	  $(addprefix $(LIB)/pkgconfig/,kiln.pc kiln-observe.pc kiln-verify.pc) $(foreach n,1 3 5,$(patsubst docs/man/%,share/man/man$n/%,$(wildcard docs/man/*.$n)))
	$(if $(DESTDIR),,tools/install-folders.sh loader "$(PREFIX)/$(LIB)" quiet)
.PHONY: release deb check-recipes
release: ## the files of a release in build/<config>/release (RELEASE=-d: a draft; docs/releasing.md)
	tools/release.sh $(RELEASE) $(B)/release
deb: ## the packages of Debian in build/<config>/deb
	tools/deb.sh $(B)/deb
check-recipes: programs ## compare the recipes of packaging/ with the tree
	tools/check-recipes.py -b $(B)
# The same commit gives the same bytes: times are the commit's, modes depend on nobody's settings, one thread compresses.
dist: ## a source archive of HEAD
	@mkdir -p $(B)
	git -c tar.umask=0022 archive --format=tar --prefix=kiln-$(VERSION)/ HEAD | xz -9 -T1 > $(B)/kiln-$(VERSION).tar.xz
