# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# What a reader of the tree has to follow, counted: `make count-house`. The programs that it follows are built without optimisation in
# build/traced, with every call recorded. Functions are found by the paths of their sources, so ccache must not give objects of another folder.
# DWARF 4: of DWARF 5, binutils 2.40 takes the header whose function an object has first for the source itself.
TRACED := build/traced
TRACER := $(TRACED)/trace_calls.o
.PHONY: count-house
count-house: programs $(INTERPRETED) ## count what a reader of the tree has to follow: files, functions, stops, tables (tools/count-house.py)
	@mkdir -p $(TRACED)
	$(Q)$(CC) -std=c11 -D_GNU_SOURCE -O2 $(WARN) -fPIC -c tools/house/trace_calls.c -o $(TRACER)
	$(Q)CCACHE_HASHDIR=1 $(MAKE) B=$(TRACED) CONFIG=release FORTIFY= COLD= UNTHREADED= EXTRA_CFLAGS='-O0 -g1 -gdwarf-4 -finstrument-functions' EXTRA_LDFLAGS=$(TRACER) \
	  $(TRACED)/bin/kiln $(TRACED)/bin/kiln-codegen $(TRACED)/bin/launch-twice
	tools/count-house.py --build=$(B) --traced=$(TRACED)
$(B)/bin/launch-twice: $(call objects,tools/house/launch_twice.c) $(A_RUNTIME) $(A_TARGETS) $(A_BASE)
	@mkdir -p $(@D)
	$(Q)$(CC) $(LDFLAGS) $^ $(ZSTD) -lm -lpthread -ldl -o $@
