// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What each of our programs does first. Not for libraries.
#ifndef KILN_BASE_PROGRAM_H
#define KILN_BASE_PROGRAM_H

/// Opens closed standard descriptors on something that can be neither read nor written, so that the program
/// cannot print into one of its files, and using them is an error. A limit on the size of files is an error
/// of write instead of a signal. Output through stdout and stderr of stdio shows control characters, except
/// line ends and tabs, as \x1b: names and texts come from bundles, servers and other people's files. Bytes
/// for other programs (`-o -`) are written to the descriptor.
void kiln_program_begin(void);

/// Moves to the begin of the terminal's line and clears it, on standard error.
void kiln_program_clear_line(void);

#endif
