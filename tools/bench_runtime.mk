# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Measures of libkiln alone: `make bench-runtime`.
$(B)/bench/bench_runtime: $(call objects,bench/bench_runtime.c) $(A_RUNTIME) $(A_BUNDLE) $(A_TARGETS) $(A_BASE)
	@mkdir -p $(@D)
	$(Q)$(CC) $(LDFLAGS) $^ -larchive $(SODIUM) $(ZSTD) -l:libz.a -lm -lpthread -ldl -o $@
$(B)/bench/bench_runtime_corpus: $(call objects,bench/bench_runtime_corpus.c tools/tool/bundle_view.c tools/tool/pack_family.c) $(A_RUNTIME) $(A_BUNDLE) $(A_TARGETS) $(A_BASE)
	@mkdir -p $(@D)
	$(Q)$(CC) $(LDFLAGS) $^ -larchive $(SODIUM) $(ZSTD) -l:libz.a -lm -lpthread -ldl -o $@
.PHONY: bench-runtime
bench-runtime: $(B)/bench/bench_runtime ## measure libkiln: launch, look-up, open
	$<
# On an NVIDIA machine: `cuda_launch launch EMPTY.kbundle` and `first KERNELS.kbundle ADD.cubin`; bench/cuda_launch.kiln has the empty kernels.
$(B)/bench/cuda_launch: $(call objects,bench/cuda_launch.c) $(A_RUNTIME) $(A_TARGETS) $(A_BASE)
	@mkdir -p $(@D)
	$(Q)$(CC) $(LDFLAGS) $^ $(ZSTD) -lm -lpthread -ldl -o $@
# `make bench-cuda`, then bench/cuda.sh build/<config>/bench on a machine with a GPU.
.PHONY: bench-cuda
bench-cuda: $(B)/bench/cuda_launch $(PROGRAMS) ## make what bench/cuda.sh wants, for a machine with an H200
	$(B)/bin/kiln build -q --no-cache -t sm_90a bench/cuda_launch.kiln -o $(B)/bench/empty.kbundle
	$(B)/bin/kiln build -q --no-cache -t sm_90a kernels/*.kiln -o $(B)/bench/kernels.kbundle
	$(B)/bin/kiln compile -q --no-cache -t sm_90a -k 'add[T=f32]' kernels/elementwise.kiln -o $(B)/bench/add.cubin
