// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// libkiln-more: what an application does not need in order to open a bundle, choose and launch. Reasons of refusals,
// reports, tuned choices, records of shapes, scratch memory, sizes of buffers and tensor maps lie in a file of their
// own next to libkiln.so.0, which opens it when one of them is first wanted; libkiln.a has them inside. The two files
// are of one build: they share structs and call each other through two tables.
#ifndef KILN_RUNTIME_MORE_MORE_H
#define KILN_RUNTIME_MORE_MORE_H

#include "runtime/bundle/internal.h"
#include "runtime/choice_memo.h"
#include "runtime/device/device.h"
#include "runtime/hook.h"
#include "runtime/launch_extras.h"
#include "runtime/launches.h"
#include "runtime/refusal.h"
#include "runtime/tensor_map.h"
#include "runtime/tuned_choice.h"

#define MORE(status, name, parameters, arguments) \
  kiln_status kiln_##name parameters;             \
  kiln_status kiln_more_##name parameters;
#include "runtime/more/more.def"
#undef MORE

struct kiln_report {
  kiln_arena *arena; // owned: all below
  kiln_candidate *items;
  uint32_t count, capacity;
  const char *text;
};

/// The two files: the sources are compiled for them with KILN_APART, and without it for archives.
#ifdef KILN_APART
typedef struct kiln_core {
  const char *same; ///< KILN_SAME: a digest of the sources of both, which share structs
#define CORE(name) __typeof__(name) *name;
#include "runtime/more/core.def"
#undef CORE
} kiln_core;
extern const kiln_core kiln_core_of_libkiln; // runtime/more.c

typedef struct kiln_more {
#define MORE(status, name, parameters, arguments) kiln_status(*name) parameters;
#include "runtime/more/more.def"
#undef MORE
} kiln_more;

/// The one function that libkiln-more.so.0 exports. NULL: it is not of the same build.
const kiln_more *kiln_more_start(const kiln_core *core);
typedef const kiln_more *kiln_more_starter(const kiln_core *core);

/// Opens it once. NULL: it is absent or of another build; the error has `status` and says which file that is.
const kiln_more *kiln_more_open(kiln_status status, kiln_error *err);
#endif

#endif
