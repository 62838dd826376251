// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How the elements of a tile are spread over registers, lanes and warps: linear maps over GF(2).
//
// All extents are powers of two, so an element's place in its tile (row-major, last axis in the low bits) is
// a number of `bits` bits, and so is its place in the machine: register bits, then lane bits, then warp bits.
// A layout gives for each machine bit the element bits that it flips; the element of a machine place is the
// XOR of the bases of its set bits. A zero basis means that both values of that bit hold the same element
// (replication). Shape operations that keep the row-major order do not change a layout at all.
//
// The type itself stands in ir/ir_layout.h, since values have one once a pass for GPUs has chosen it.
//
// Invariant of a layout that code works with: it reaches every element, and no register basis is zero or
// depends on other register bases.
#ifndef KILN_COMPILER_LAYOUT_LAYOUT_H
#define KILN_COMPILER_LAYOUT_LAYOUT_H

#include "compiler/ir/ir.h"

/// Machine bits that tell the threads of a block apart.
unsigned layout_thread_bits(const kiln_layout *layout);
/// Machine bits of all kinds.
unsigned layout_places(const kiln_layout *layout);
/// The element at machine place `place` (register | lane << registers | warp << (registers + lanes)).
uint32_t layout_element(const kiln_layout *layout, uint32_t place);
bool layout_equal(const kiln_layout *a, const kiln_layout *b);
/// True when every element has a place.
bool layout_is_complete(const kiln_layout *layout);
/// Machine bits above the registers (lanes, then warps, from bit 0: the thread number) whose basis does not
/// add anything: threads that differ there only hold the same elements. Of several dependent bits the higher
/// are named.
uint32_t layout_replicas(const kiln_layout *layout);
/// Removes register bits that hold nothing new.
void layout_normalise(kiln_layout *layout);
/// The register of a thread whose element, seen from the thread's first one, is `element`; -1 when there is
/// none.
int layout_register_of(const kiln_layout *layout, uint32_t element);

// ------------------------------------------------------------------------------------------ making

/// Everything in one place: the layout of a scalar or of a tile that each thread holds whole.
kiln_layout layout_whole(unsigned bits, unsigned lanes, unsigned warps);
/// 2^vector elements along `axis` a thread, then lanes along it and on to the other axes (from the last to
/// the first), then warps, which prefer other axes, then more registers. Surplus lanes and warps are
/// replicas.
kiln_layout layout_blocked(ir_type type, unsigned axis, unsigned vector, unsigned lanes, unsigned warps);
/// The same; the axes of the set `late` (1 << axis) come after the others, so that they lie in registers
/// first: what will be reduced.
kiln_layout layout_blocked_late(ir_type type, unsigned axis, unsigned late, unsigned vector, unsigned lanes,
                                unsigned warps);
/// For a scan along `axis`: that axis has its low bits in registers, the next in lanes, the next in warps, in
/// order.
kiln_layout layout_sequential(ir_type type, unsigned axis, unsigned lanes, unsigned warps);

// -------------------------------------------------------------------------------- shape operations

/// First bit of an axis in the element number.
unsigned layout_axis_shift(ir_type type, unsigned axis);
/// Bits of an axis as a mask.
uint32_t layout_axis_mask(ir_type type, unsigned axis);

/// The layout that operand `index` of a shape operation (expand, broadcast, reshape, trans) must have so that
/// the result, register by register, is in `result`; for broadcast the registers of the operand are fewer,
/// see layout_register_map.
kiln_layout layout_backward(const ir_op *op, const kiln_layout *result);
/// The operand's element that an element of the result comes from, when only register bits differ (broadcast
/// drops bits; others keep the number).
uint32_t layout_backward_element(const ir_op *op, uint32_t element);
/// The layout that the result has when the operand is in `operand`; false when the operation says nothing
/// (broadcast along an axis).
bool layout_forward(const ir_op *op, const kiln_layout *operand, kiln_layout *out);
/// What is left when the bits of `mask` are dropped and the others close up (reduction of an axis).
kiln_layout layout_without(const kiln_layout *layout, uint32_t mask);
/// The inverse for elements: opens a gap of zero bits where `mask` has ones.
uint32_t layout_spread(uint32_t element, uint32_t mask);
uint32_t layout_squeeze(uint32_t element, uint32_t mask);

// -------------------------------------------------------------------------------------- conversion

typedef enum layout_reach { LAYOUT_SAME_THREAD, LAYOUT_SAME_WARP, LAYOUT_ANYWHERE } layout_reach;

/// Where each place of `to` finds its element in `from`: linear, so given per machine bit of `to` as a set of
/// machine bits of `from`.
typedef struct layout_moves {
  layout_reach reach;
  uint32_t from[LAYOUT_MAX_PLACES];
} layout_moves;

/// Both layouts have the same element bits, lanes and warps; `from` is complete.
layout_moves layout_convert(const kiln_layout *from, const kiln_layout *to);

/// A tile in shared memory: the offset (in elements) of an element is the XOR of `offset[i]` over its set
/// bits. `vector`: log2 of the elements that stay together. After each 2^row offsets `pad` elements are left
/// free.
typedef struct layout_memory {
  uint8_t bits, vector, row, pad;
  uint32_t offset[LAYOUT_MAX_BITS];
} layout_memory;

uint32_t layout_offset(const layout_memory *memory, uint32_t element);
/// Where an offset lies once what is left free is counted.
uint32_t layout_padded(const layout_memory *memory, uint32_t offset);
/// The offset of what register `r` holds, seen from the thread's first element; and where that lies.
uint32_t layout_register_offset(const layout_memory *memory, const kiln_layout *layout, uint32_t r,
                                uint32_t *out_padded);
/// A matrix row by row along `axis`, elements of 2^log2_bytes bytes, with `pad` of them free after each row:
/// an odd number of pieces of 16 bytes from row to row keeps neighbours of a column in different banks. All
/// places of a thread then differ by constants, where those of a swizzle do not. `piece` names element bases
/// that shall be the low offset bits, where they belong to a row.
layout_memory layout_padded_rows(ir_type tile, unsigned axis, unsigned log2_bytes, unsigned pad,
                                 const uint32_t *piece, unsigned piece_count);
/// The offsets that registers add to those of a thread have no bits in common with them, or with each other.
bool layout_adds_up(const layout_memory *memory, const kiln_layout *layout);
/// The placement by which writing in layout `writer` and reading in layout `reader` both are free of bank
/// conflicts, as far as that is possible. Elements have 2^log2_bytes bytes; pieces are at most 16 bytes.
/// `row` names element bases that shall be the low offset bits (a row of a matrix load); with row_count 0
/// they are chosen so that both sides move the largest pieces.
layout_memory layout_swizzle(const kiln_layout *writer, const kiln_layout *reader, unsigned log2_bytes,
                             const uint32_t *row, unsigned row_count);
/// log2 of the elements that a thread in `layout` can move at once; `out_registers` gets the register bits in
/// order of offset bits.
unsigned layout_memory_vector(const layout_memory *memory, const kiln_layout *layout, unsigned limit,
                              uint8_t out_registers[8]);

/// How many words of one bank a warp asks for at a time, at most, when it writes or reads the tile in
/// `layout`: 1 is no conflict.
unsigned layout_bank_ways(const layout_memory *memory, const kiln_layout *layout, unsigned log2_bytes);

/// The combination of `vectors` that gives `target`, as a set of indices; false when there is none.
bool layout_solve(const uint32_t *vectors, unsigned count, uint32_t target, uint32_t *out_set);

#endif
