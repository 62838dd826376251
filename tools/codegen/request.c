// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads a request, compiles, writes the reply.
#include "tools/codegen/request.h"

#include <ctype.h>
#include <string.h>

#include "compiler/front.h"
#include "compiler/passes/stages.h"
#include "compiler/options.h"
#include "compiler/positions.h"

enum { REQUEST_COMPILE = 1, REQUEST_STAGE = 2, MOST_SYMBOL = 1000 };

typedef struct request {
  uint8_t kind;
  const char *until; // STAGE: the last pass to run; arena; NULL: all
  kiln_span text;    // STAGE: the kernel; borrowed
  kiln_target target;
  kiln_codegen_options options; // texts borrowed from the bytes
  const char *symbol;           // arena
  kiln_span canonical;          // borrowed
  kiln_positions positions;     // arena and borrowed
} request;

// Names are echoed in messages of one line.
static bool is_printable(kiln_span s) {
  for (size_t i = 0; i < s.size; i++)
    if (!isgraph(s.bytes[i])) return false;
  return true;
}

static kiln_status malformed(kiln_error *err, const char *what) {
  return kiln_fail(err, KILN_STATUS_CORRUPT, "request: %s", what);
}

// A kernel in canonical form: target, symbol, options, kernel, positions.
static kiln_status read_compile(kiln_arena *arena, const kiln_span blocks[5], request *out, kiln_error *err) {
  const kiln_span target = blocks[0], symbol = blocks[1], positions = blocks[4];
  if (!is_printable(target)) return malformed(err, "the target's name is not printable");
  // A C identifier: it stands in assembly.
  bool is_identifier = symbol.size && !isdigit(symbol.bytes[0]);
  for (size_t i = 0; i < symbol.size; i++)
    is_identifier &= isalnum(symbol.bytes[i]) || symbol.bytes[i] == '_';
  if (!is_identifier) return malformed(err, "the symbol is not an identifier");
  if (symbol.size > MOST_SYMBOL)
    return kiln_fail(err, KILN_STATUS_LIMIT, "the kernel's symbol has %zu bytes, expected at most %d",
                     symbol.size, MOST_SYMBOL);
  if (!kiln_positions_decode(arena, positions.bytes, positions.size, &out->positions))
    return malformed(err, "the positions are damaged");
  out->canonical = blocks[3];
  out->symbol = kiln_arena_text(arena, (const char *)symbol.bytes, symbol.size);
  return kiln_target_parse(kiln_arena_text(arena, (const char *)target.bytes, target.size), &out->target,
                           err);
}

// A kernel at a stage, as text: the last pass to run, nothing, options, text, nothing.
static kiln_status read_stage(kiln_arena *arena, const kiln_span blocks[5], request *out, kiln_error *err) {
  if (!is_printable(blocks[0])) return malformed(err, "the pass's name is not printable");
  if (blocks[1].size || blocks[4].size) return malformed(err, "expected two empty blocks, found others");
  if (blocks[0].size) out->until = kiln_arena_text(arena, (const char *)blocks[0].bytes, blocks[0].size);
  out->text = blocks[3];
  return KILN_OK;
}

static kiln_status compile_stage(kiln_arena *arena, const request *q, kiln_artifact *artifact,
                                 kiln_error *err) {
  kiln_stage stage;
  ir_kernel *kernel;
  ir_place place;
  KILN_TRY(kiln_stage_read(arena, (const char *)q->text.bytes, q->text.size, &stage, &kernel, &place, err));
  return kiln_codegen_stage(kernel, &stage, q->until, &q->options, artifact, err);
}

static kiln_status compile(kiln_arena *arena, int assembler_fd, kiln_reader *r, kiln_artifact *artifact,
                           kiln_error *err) {
  request q;
  ir_kernel *kernel = NULL;
  kiln_span blocks[5];
  q = (request){.kind = kiln_read_u8(r)};
  for (unsigned i = 0; i < 5; i++) blocks[i].bytes = kiln_read_block(r, &blocks[i].size);
  if (r->failed) return malformed(err, "expected a kind and five blocks, found an early end");
  if (q.kind != REQUEST_COMPILE && q.kind != REQUEST_STAGE) return malformed(err, "its kind is not known");
  if (r->left) return malformed(err, "expected nothing after five blocks, found more");
  KILN_TRY(q.kind == REQUEST_STAGE ? read_stage(arena, blocks, &q, err)
                                   : read_compile(arena, blocks, &q, err));
  KILN_TRY(kiln_codegen_options_decode(blocks[2].bytes, blocks[2].size, &q.options, err));
  q.options.assembler_fd = assembler_fd;
  q.options.positions = &q.positions;
  if (q.kind == REQUEST_STAGE) return compile_stage(arena, &q, artifact, err);
  KILN_TRY(kiln_canonical_decode(arena, q.canonical.bytes, q.canonical.size, q.symbol, &kernel, err));
  return kiln_codegen(kernel, &q.target, &q.options, artifact, err);
}

void kiln_request_refuse(kiln_buffer *reply, const kiln_error *err, const kiln_buffer *printed) {
  kiln_buffer_u8(reply, (uint8_t)err->status);
  kiln_buffer_block(reply, printed ? printed->bytes : NULL, printed ? printed->size : 0);
  kiln_buffer_text(reply, err->text);
  kiln_buffer_u32(reply, err->operation);
}

void kiln_request_answer(const kiln_request_setting *setting, const uint8_t *bytes, size_t size,
                         kiln_buffer *reply) {
  kiln_error err = {0};
  kiln_artifact artifact = {0};
  kiln_reader r = kiln_reader_of(bytes, size);
  kiln_arena *arena = kiln_arena_create();
  kiln_status status = compile(arena, setting->assembler_fd, &r, &artifact, &err);
  if (status == KILN_OK) {
    kiln_buffer info = {0};
    kiln_code_info_encode(&artifact.info, &info);
    kiln_buffer_u8(reply, KILN_OK);
    kiln_buffer_block(reply, artifact.printed.bytes, artifact.printed.size);
    kiln_buffer_block(reply, info.bytes, info.size);
    kiln_buffer_block(reply, artifact.code.bytes, artifact.code.size);
    kiln_buffer_block(reply, artifact.report.bytes, artifact.report.size);
    const kiln_codegen_times *t = &artifact.times;
    const uint64_t times[] = {t->middle, t->lower, t->optimise, t->emit, t->assemble, t->link};
    for (size_t i = 0; i < sizeof times / sizeof *times; i++) kiln_buffer_u64(reply, times[i]);
    kiln_file_mark_encode(&setting->own, reply);
    reply->failed |= info.failed;
    kiln_buffer_deinit(&info);
  } else kiln_request_refuse(reply, &err, &artifact.printed);
  kiln_artifact_deinit(&artifact);
  kiln_arena_destroy(arena);
}
