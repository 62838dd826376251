// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Records the shapes of an application that have no tuned choice, for `kiln tune --record`. Nothing is
// recorded unless kiln_record_shapes was called; then the first launch of each cell copies its arguments.
#ifndef KILN_RUNTIME_MORE_SHAPE_RECORD_H
#define KILN_RUNTIME_MORE_SHAPE_RECORD_H

#include "runtime/device/device.h"

enum { KILN_RECORDED_SHAPES = 1024 }; ///< per kernel; later ones are only counted

/// Of one kernel; lives as long as the library. Lock-free.
typedef struct kiln_recorder kiln_recorder;

/// The recorder of the kernel, made if there is none; NULL if nothing is recorded or memory is exhausted.
kiln_recorder *kiln_recorder_of(const kiln_kernel *kernel);
/// Keeps a copy of the arguments where none with these values of the table's inputs was kept before. Devices
/// share the recorder of a kernel, and may have tables with other inputs.
void kiln_recorder_note(const kiln_tuned *tuned, const uint8_t *values, const uint8_t *block);

#endif
