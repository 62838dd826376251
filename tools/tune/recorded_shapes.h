// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Shapes that an application recorded (kiln_record_shapes): integers, floats, extents and strides. What
// buffers hold and how large they are comes from lines of the user's, one a kernel.
#ifndef KILN_TOOLS_TUNE_RECORDED_SHAPES_H
#define KILN_TOOLS_TUNE_RECORDED_SHAPES_H

#include "base/buffer.h"

/// A text for tune_shapes_read that has at each line what is recorded at that line: the arguments of the
/// first line of `templates` for the kernel (its whole name, else its plain one), with the recorded ones in
/// place of its own, and those that it lacks. A view without a template is filled to its last element.
void tune_recorded_join(const char *record, size_t record_size, const char *templates, size_t templates_size,
                        kiln_buffer *out);

#endif
