# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# The library of the kernel language as a C string: comments are dropped, lines stay where they are.
$(B)/gen/mathlib.inc: compiler/front/mathlib.kiln
	@mkdir -p $(@D)
	sed -e 's|[ \t]*//.*||' -e 's/\\/\\\\/g' -e 's/"/\\"/g' -e 's/.*/"&\\n"/' $< > $@

$(B)/obj/compiler/front/library.c.o: $(B)/gen/mathlib.inc
