# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Measures of libkiln alone: `make bench-runtime`.
$(B)/bench/bench_runtime: $(call objects,bench/bench_runtime.c) $(A_RUNTIME) $(A_BUNDLE) $(A_TARGETS) $(A_BASE)
	@mkdir -p $(@D)
	$(Q)$(CC) $(LDFLAGS) $^ -larchive $(SODIUM) $(ZSTD) -l:libz.a -lm -lpthread -ldl -o $@
$(B)/bench/bench_runtime_corpus: $(call objects,bench/bench_runtime_corpus.c tools/bundle/view.c tools/bundle/dictionary_family.c) $(A_RUNTIME) $(A_BUNDLE) $(A_TARGETS) $(A_BASE)
	@mkdir -p $(@D)
	$(Q)$(CC) $(LDFLAGS) $^ -larchive $(SODIUM) $(ZSTD) -l:libz.a -lm -lpthread -ldl -o $@
.PHONY: bench-runtime
bench-runtime: $(B)/bench/bench_runtime ## measure libkiln: launch, look-up, open
	$<
# On an NVIDIA machine: `cuda_launch launch EMPTY.kbundle` and `first KERNELS.kbundle ADD.cubin`; bench/cuda_launch.kiln has the empty kernels.
$(B)/bench/cuda_launch: $(call objects,bench/cuda_launch.c) $(A_RUNTIME) $(A_TARGETS) $(A_BASE)
	@mkdir -p $(@D)
	$(Q)$(CC) $(LDFLAGS) $^ $(ZSTD) -lm -lpthread -ldl -o $@
$(B)/bench/launch_outside: bench/launch_outside.c
	@mkdir -p $(@D)
	$(Q)$(CC) -std=c11 -D_GNU_SOURCE -O2 $(WARN) -I. $< -ldl -o $@
# `make bench-cuda`, then bench/cuda.sh build/<config>/bench on a machine with a GPU.
.PHONY: bench-cuda
bench-cuda: $(B)/bench/cuda_launch $(B)/bench/launch_outside $(LIBRARIES) $(PROGRAMS) ## make what bench/cuda.sh wants, for a machine with an H200
	$(B)/bin/kiln build -q --no-cache -t sm_90a bench/cuda_launch.kiln -o $(B)/bench/empty.kbundle
	cp $(B)/lib/libkiln.so.0 $(B)/lib/libkiln-more.so.0 $(B)/bench/
	$(B)/bin/kiln build -q --no-cache -t sm_90a kernels/*.kiln -o $(B)/bench/kernels.kbundle
	$(B)/bin/kiln compile -q --no-cache -t sm_90a -k 'add[T=f32]' kernels/elementwise.kiln -o $(B)/bench/add.cubin
# `make bench-python`, then bench/python_launch.py or python_cold.py build/<config>/bench/python, here or on a machine with a GPU: all it needs is in the folder.
$(B)/bench/python/driver_launch.so: bench/driver_launch.c
	@mkdir -p $(@D)
	$(Q)$(CC) -std=c11 -D_GNU_SOURCE -O2 $(WARN) -fPIC -shared -fvisibility=hidden $< -ldl -o $@
.PHONY: bench-python
bench-python: $(B)/bench/python/driver_launch.so $(PROGRAMS) $(PACKAGE_FILES) ## make what bench/python_launch.py wants
	rm -rf $(B)/bench/python/kiln && cp -rL $(PACKAGE) $(B)/bench/python/kiln
	$(B)/bin/kiln build -q --no-cache -t host,sm_90a bench/python_launch.kiln -o $(B)/bench/python/python_launch.kbundle
	for k in arrays2 arrays8 arrays16 ramp; do $(B)/bin/kiln compile -q --no-cache -t sm_90a -k $$k bench/python_launch.kiln -o $(B)/bench/python/$$k.cubin || exit 1; done
# `make bench-host`, then bench/host_dot.py build/<config>/bench/host: products on this CPU compared with OpenBLAS and PyTorch.
.PHONY: bench-host
bench-host: $(PROGRAMS) $(PACKAGE_FILES) ## make what bench/host_dot.py wants
	@mkdir -p $(B)/bench/host
	rm -rf $(B)/bench/host/kiln && cp -rL $(PACKAGE) $(B)/bench/host/kiln
	$(B)/bin/kiln build -q --no-cache -t x86-64-v2,x86-64-v3,x86-64-v4 kernels/gemm.kiln kernels/attention.kiln -o $(B)/bench/host/kernels.kbundle
