# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Coverage-guided fuzzing with clang's libFuzzer and sanitizers: `make fuzz FUZZ=checker SECONDS=900`. Needs clang and its runtime
# (Debian: clang, libclang-rt-14-dev). The corpus starts from what SEEDS_<name> says and stays in build/fuzz/corpus/<name>.
FUZZ    ?= checker
SECONDS ?= 60

# What each starts from.
SEEDS_parser  := kernels/*.kiln tests/golden/front/*.kiln
SEEDS_checker := $(SEEDS_parser) tests/fuzz/corpus/checker/*
SEEDS_ttir    := tests/ttir/*.ttir
SEEDS_kir     := tests/text/passes/*.kir tests/fuzz/corpus/kir/*
SEEDS_tuned   := tests/fuzz/corpus/tuned/*
SEEDS_launches := tests/fuzz/corpus/launches/*
.PHONY: fuzz
fuzz: ## fuzz one reader for SECONDS: FUZZ=parser, checker, canonical, kir, ttir, tuned, launches or bundle
	$(MAKE) CONFIG=fuzz CC=clang EXTRA_CFLAGS=-Wno-error build/fuzz/fuzz/$(FUZZ)
	mkdir -p build/fuzz/corpus/$(FUZZ)
	$(if $(filter bundle,$(FUZZ)),$(MAKE) CONFIG=release all && tests/fuzz/bundle_seeds.sh build/release build/fuzz/corpus/bundle)
	$(if $(SEEDS_$(FUZZ)),cp -n $(SEEDS_$(FUZZ)) build/fuzz/corpus/$(FUZZ)/)
	KILN_FUZZ_SEEDS="$(if $(filter canonical,$(FUZZ)),build/fuzz/corpus/canonical $(wildcard kernels/*.kiln tests/golden/front/operations.kiln))" build/fuzz/fuzz/$(FUZZ) \
	  -max_total_time=$(SECONDS) -timeout=20 -rss_limit_mb=4096 -print_final_stats=1 -artifact_prefix=build/fuzz/$(FUZZ)- build/fuzz/corpus/$(FUZZ)

$(B)/fuzz/%: $(B)/obj/tests/fuzz/fuzz_%.c.o $(A_RUNTIME) $(A_BUNDLE) $(A_COMPILER) $(A_TARGETS) $(A_BASE)
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)clang -fsanitize=fuzzer,address,undefined $< -Wl,--start-group $(A_RUNTIME) $(A_BUNDLE) $(A_COMPILER) $(A_TARGETS) $(A_BASE) -Wl,--end-group -larchive $(SODIUM) $(ZSTD) -l:libz.a -lm -lpthread -ldl -o $@
