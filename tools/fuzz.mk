# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Coverage-guided fuzzing with clang's libFuzzer and sanitizers: `make fuzz FUZZ=front SECONDS=900`. Needs clang and its runtime
# (Debian: clang, libclang-rt-14-dev). The corpus starts from tests/fuzz/seeds/<name> and kernels, and stays in build/fuzz/corpus/<name>.
FUZZ    ?= front
SECONDS ?= 60

FUZZERS := front ttir bundle
.PHONY: fuzz
fuzz: ## fuzz one reader for SECONDS: FUZZ=front, ttir or bundle
	$(MAKE) CONFIG=fuzz CC=clang EXTRA_CFLAGS=-Wno-error build/fuzz/fuzz/$(FUZZ)
	mkdir -p build/fuzz/corpus/$(FUZZ)
	cp -n kernels/*.kiln tests/ttir/*.ttir build/fuzz/corpus/$(FUZZ)/ 2>/dev/null || true
	build/fuzz/fuzz/$(FUZZ) -max_total_time=$(SECONDS) -timeout=20 -rss_limit_mb=4096 -print_final_stats=1 -artifact_prefix=build/fuzz/ build/fuzz/corpus/$(FUZZ)

$(B)/fuzz/%: $(B)/obj/tests/fuzz/fuzz_%.c.o $(A_RUNTIME) $(A_BUNDLE) $(A_COMPILER) $(A_TARGETS) $(A_BASE)
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)clang -fsanitize=fuzzer,address,undefined $< -Wl,--start-group $(A_RUNTIME) $(A_BUNDLE) $(A_COMPILER) $(A_TARGETS) $(A_BASE) -Wl,--end-group -larchive $(SODIUM) $(ZSTD) -lm -lpthread -ldl -o $@
