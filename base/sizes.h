// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The note of a bundle that says how many elements buffers of a kernel have at least (@size). It is a note
// and no part of the interface record, so that readers from before it read the rest.
//
// Its key is KILN_SIZES_NOTE with the kernel's name. Each line is about one parameter that is a pointer: its
// name, a space, the code of the expression (base/expr.h) in hexadecimal digits, and, for people, a space and
// the expression as text. The expression reads integer parameters alone.
#ifndef KILN_BASE_SIZES_H
#define KILN_BASE_SIZES_H

#define KILN_SIZES_PREFIX "sizes "
#define KILN_SIZES_NOTE KILN_SIZES_PREFIX "%s"

#endif
