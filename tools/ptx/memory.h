// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Bytes with what is known of each: whether it is defined, and who accessed it last (race.h).
#ifndef KILN_TOOLS_PTX_MEMORY_H
#define KILN_TOOLS_PTX_MEMORY_H

#include "tools/ptx/ptx.h"

enum { PTX_SHADOW_PAGE = 1024 };

/// Of one byte. Stamps are of race.h; 0 is nobody.
typedef struct ptx_shadow {
  uint64_t write, read;
  uint32_t write_line, read_line;
  uint32_t read_load; ///< the load's number in its thread; 0: an asynchronous copy
  uint32_t readers; ///< others that read it and are not ordered before `read`: a list of the run, 0 is empty
  uint16_t reader_count, purge_at; ///< of that list; how long it may grow before ordered ones are dropped
  uint16_t reading;                ///< asynchronous reads of it that are under way
  bool is_async;                   ///< `write` came through the asynchronous proxy
  bool is_counted;                 ///< `write` came by a copy whose end an mbarrier counted
  uint32_t reading_line;           ///< of the first of them
  bool was_read, was_written;      ///< by the launch before this one, at `before_line`; of dependent launches
  uint32_t before_line;
  uint32_t pending; ///< line of the asynchronous copy that is still writing it; 0: none
} ptx_shadow;

/// An allocation, or the shared memory of a block.
typedef struct ptx_region {
  uint64_t address, size;
  char *name;              ///< owned: what messages call it; NULL: its address
  struct ptx_block *owner; ///< borrowed; whose shared memory this is; NULL: of all blocks, or of one thread
  uint8_t *bytes;          ///< owned
  uint8_t *defined;        ///< owned, a byte each; NULL: all are
  ptx_shadow **shadows;    ///< owned, pages of PTX_SHADOW_PAGE bytes, made when they are touched
  bool *is_saved;          ///< owned, a page each: the journal has what it was
} ptx_region;

/// What pages of global memory were before a launch wrote them.
typedef struct ptx_journal {
  struct ptx_saved_page *pages; ///< owned
  size_t count, capacity;
} ptx_journal;

struct ptx_memory {
  ptx_region *regions; ///< owned, by address
  size_t count, capacity;
  uint64_t next;   ///< the next address
  size_t last_hit; ///< where ptx_memory_find found something the last time
};

/// False when memory is exhausted.
bool ptx_region_init(ptx_region *r, uint64_t address, uint64_t size, bool is_defined);
void ptx_region_deinit(ptx_region *r);
/// Forgets who accessed it.
void ptx_region_forget(ptx_region *r);
/// Calls `change` for the shadow of each byte that was accessed.
void ptx_region_each_shadow(ptx_region *r, void (*change)(ptx_shadow *shadow, bool flag), bool flag);
/// Of the byte at `offset`. Ends the process when memory is exhausted, as an arena does.
ptx_shadow *ptx_region_shadow(ptx_region *r, uint64_t offset);
/// Keeps the page at `offset` unless it is kept already.
void ptx_journal_keep(ptx_journal *j, ptx_region *r, uint64_t offset);
/// Puts back what was kept; frees it.
void ptx_journal_undo(ptx_journal *j, ptx_memory *memory);
void ptx_journal_deinit(ptx_journal *j);
/// The allocation that holds all of [address, address + size), or NULL.
ptx_region *ptx_memory_find(ptx_memory *memory, uint64_t address, uint64_t size);
/// Where an address lies that is in no allocation, by the nearest one, for messages; static storage.
const char *ptx_memory_where(const ptx_memory *memory, uint64_t address);

#endif
