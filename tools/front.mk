# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# The library of the kernel language as a C string (two files in one, without comments, every line at its place) and a table of its items, sorted by name.
$(B)/gen/mathlib.txt: compiler/front/mathlib.kiln compiler/front/mathlib_device.kiln
	@mkdir -p $(@D)
	LC_ALL=C awk 'FNR == 1 && NR > 1 {print ""; next} {sub(/[ \t]*\/\/.*/, ""); print}' $^ > $@
$(B)/gen/mathlib.inc: $(B)/gen/mathlib.txt
	LC_ALL=C sed -e 's/\\/\\\\/g' -e 's/"/\\"/g' -e 's/.*/"&\\n"/' $< > $@
$(B)/gen/mathlib_index.inc: $(B)/gen/mathlib.txt
	LC_ALL=C awk '/^(fn|const) / {if (n) print n, o, at - o, l; split($$2, a, /[(:]/); n = a[1]; o = at + 0; l = NR} {at += length($$0) + 1} END {print n, o, at - o, l}' $< \
	  | LC_ALL=C sort -k 1,1 | sed -e 's/\(.*\) \(.*\) \(.*\) \(.*\)/ITEM("\1", \2, \3, \4)/' > $@

$(B)/obj/compiler/front/library.c.o: $(B)/gen/mathlib.inc $(B)/gen/mathlib_index.inc
