// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The note of a bundle that says what may be launched in place of a kernel once it has scratch memory
// (`launches` of the kernel language). It is a note and no part of the interface record, so that readers from
// before it launch the kernel itself.
//
// Its key is KILN_LAUNCHES_NOTE with the kernel's name. Lines "let CODE" are values that are computed first, in
// order; "let CODE CONDITION" is 0 where the condition does not hold. Then follows the line "scratch CODE", how
// many bytes of scratch memory the launches want. Each further line is one launch, in order: the look-up name of
// a kernel, the code of its condition, and one word for each argument: "=N" is parameter N as it is, else it is
// the code of a number or an address. Words have one space between them. Code is that of base/expr.h in
// hexadecimal digits; it reads the parameters, after the last of them the address of the scratch memory, and
// after that the values.
#ifndef KILN_BASE_LAUNCHES_H
#define KILN_BASE_LAUNCHES_H

#include <stdbool.h>

#include "base/record.h"

#define KILN_LAUNCHES_PREFIX "launches "
#define KILN_LAUNCHES_NOTE KILN_LAUNCHES_PREFIX "%s"

enum { KILN_MOST_LAUNCHES = 16, KILN_MOST_VALUES = 64 };

/// The note's text.
void kiln_launches_encode(const kiln_interface *interface, kiln_buffer *out);
/// Fills launches, values and scratch of the interface, in `arena`. False when the text does not fit its
/// parameters (then it has no launches) or the arena failed.
bool kiln_launches_decode(kiln_arena *arena, const char *text, kiln_interface *interface);

#endif
