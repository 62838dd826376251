// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Shapes that an application recorded (kiln_record_shapes): integers, floats, extents and strides. The
// contents and sizes of buffers come from the user's lines, one per kernel.
#ifndef KILN_TOOLS_TUNE_RECORDED_SHAPES_H
#define KILN_TOOLS_TUNE_RECORDED_SHAPES_H

#include "base/buffer.h"

/// Makes a text for tune_shapes_read with one line per recorded line: the arguments of the first line of
/// `templates` for the kernel (by its full name, else its plain name), with recorded values in place of its
/// own, and the recorded arguments that it lacks. A view without a template is filled up to its last element.
void tune_recorded_join(const char *record, size_t record_size, const char *templates, size_t templates_size,
                        kiln_buffer *out);

#endif
