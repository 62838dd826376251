// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What each of our programs does before anything else. Not for libraries.
#ifndef KILN_BASE_PROGRAM_H
#define KILN_BASE_PROGRAM_H

/// Standard descriptors that are closed are opened on what can be neither read nor written, so that no file
/// of ours becomes what the program prints to, and using them is an error. A limit on the size of files is an
/// error of write instead of a signal. What goes through stdout and stderr of stdio has its control
/// characters, but line ends and tabs, shown as \x1b: names and texts come from bundles, servers and other
/// people's files. Bytes for other programs (`-o -`) are written to the descriptor.
void kiln_program_begin(void);

/// Moves to the begin of the terminal's line and empties it, on standard error.
void kiln_program_clear_line(void);

#endif
