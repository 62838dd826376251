// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What each of our programs does first. Not for libraries.
#ifndef KILN_BASE_PROGRAM_H
#define KILN_BASE_PROGRAM_H

/// Opens closed standard descriptors on something that can be neither read nor written, so that the program
/// cannot print into one of its files, and using them is an error. A limit on the size of files is an error
/// of write instead of a signal. Output through stdout and stderr of stdio shows control characters, except
/// line ends and tabs, as \x1b: names and texts come from bundles, servers and other people's files. Bytes
/// for other programs (`-o -`) are written to the descriptor. A process whose output could not be written (a full
/// disk; not a closed descriptor) says so as it exits, and its exit code is 1.
void kiln_program_begin(void);

/// Standard output holds bytes for other programs from now on (`-o -`): what stdio prints goes to standard error.
void kiln_program_give_output(void);

/// Whether messages on standard error are coloured: "PLACE: error:", "warning:", "note:" at the beginning of a line,
/// and the carets below quoted text. Never what a program prints on standard output. AUTO: on a terminal.
typedef enum kiln_program_colors { KILN_COLORS_AUTO, KILN_COLORS_ON, KILN_COLORS_OFF } kiln_program_colors;
/// OFF until this is called.
void kiln_program_color(kiln_program_colors when);

/// Moves to the begin of the terminal's line and clears it, on standard error.
void kiln_program_clear_line(void);

#endif
