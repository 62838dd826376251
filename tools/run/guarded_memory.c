// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Allocates buffers for `kiln run` between guard pages or known bytes, and reports accesses outside of
// them.
#include "tools/run/guarded_memory.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include "tools/common/cli.h"

enum { ZONE = 4096 };
// Reserved on each side of a buffer of the host, as address space only: a 32-bit index with a wrong sign or
// scale still hits it.
static const size_t guards[] = {(size_t)1 << 33, (size_t)1 << 26, 1 << 16};

static run_memory *alive;
static int (*report_fault)(kiln_status status, const kiln_error *err) = cli_report;

void run_memory_report(int (*report)(kiln_status status, const kiln_error *err)) { report_fault = report; }

// ------------------------------------------------------------------------------------------ faults

static kiln_status outside(const run_memory *m, const char *did, int64_t offset, kiln_error *err) {
  int64_t element = (int64_t)m->element;
  int64_t index = (offset < 0 ? offset - element + 1 : offset) / element;
  return kiln_fail(err, KILN_STATUS_INVALID_ARGUMENT,
                   "argument '%s' (%s) has %zu elements, and the kernel %s element %lld (byte %lld of %zu)",
                   m->param->name, m->param->type, m->size / m->element, did, (long long)index,
                   (long long)offset, m->size);
}

static void explain_fault(uintptr_t address, const char *did, kiln_error *err) {
  for (const run_memory *m = alive; m; m = m->next) {
    uintptr_t begin = (uintptr_t)m->begin;
    if (m->guard == RUN_GUARD_PAGES && address >= begin && address - begin < m->mapped) {
      outside(m, did, (int64_t)(address - (uintptr_t)m->at), err);
      return;
    }
  }
  kiln_fail(err, KILN_STATUS_INVALID_ARGUMENT, "the kernel %s address 0x%llx, which is in no buffer", did,
            (unsigned long long)address);
}

// The faulting thread is in the kernel, so it holds no lock of the library or of libc.
static void on_fault(int number, siginfo_t *info, void *context) {
  kiln_error err = {0};
  const char *did = "touched";
  (void)number, (void)context;
#if defined(__x86_64__)
  did = ((ucontext_t *)context)->uc_mcontext.gregs[REG_ERR] & 2 ? "wrote" : "read";
#endif
  explain_fault((uintptr_t)info->si_addr, did, &err);
  _exit(report_fault(err.status, &err));
}

void run_memory_watch(bool is_watching) {
  static const int numbers[] = {SIGSEGV, SIGBUS};
  static struct sigaction old[2];
  struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
  for (unsigned i = 0; i < 2; i++)
    if (is_watching) sigaction(numbers[i], &action, &old[i]);
    else sigaction(numbers[i], &old[i], NULL);
}

// ------------------------------------------------------------------------------------------ memory

// The buffer begins at the beginning of the accessible memory, or ends as near to its end as its alignment
// allows.
static kiln_status map(run_memory *m, run_place place, kiln_error *err) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE), alignment = place.is_at_begin ? page : place.alignment,
         room = (m->size + alignment - 1) & ~(alignment - 1);
  size_t open = (room + page - 1) / page * page;
  void *mapping = MAP_FAILED;
  size_t guard = 0;
  for (unsigned i = 0; i < sizeof guards / sizeof *guards && mapping == MAP_FAILED; i++) {
    guard = guards[i];
    mapping = mmap(NULL, open + 2 * guard, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  }
  if (mapping == MAP_FAILED || mprotect((uint8_t *)mapping + guard, open, PROT_READ | PROT_WRITE) < 0) {
    int why = errno;
    if (mapping != MAP_FAILED) munmap(mapping, open + 2 * guard);
    return kiln_fail(err, kiln_status_of_errno(why), "argument '%s': mapping %zu bytes: %s", m->param->name,
                     open, strerror(why));
  }
  m->begin = mapping;
  m->mapped = open + 2 * guard;
  m->at = m->begin + guard + open - room;
  m->before = open - room < ZONE ? open - room : ZONE;
  m->after = room - m->size < ZONE ? room - m->size : ZONE;
  return KILN_OK;
}

static kiln_status allocate(run_memory *m, kiln_error *err) {
  void *memory;
  if (m->size > SIZE_MAX - 2 * ZONE)
    return kiln_fail(err, KILN_STATUS_OUT_OF_MEMORY, "argument '%s': %zu bytes", m->param->name, m->size);
  m->before = m->after = m->guard == RUN_GUARD_ZONES ? ZONE : 0;
  KILN_TRY(kiln_alloc(m->device, m->size + m->before + m->after, &memory, err));
  m->begin = memory;
  m->at = m->begin + m->before;
  return KILN_OK;
}

kiln_status run_memory_create(run_memory *m, kiln_device *device, run_guard guard, const kiln_param *param,
                              const uint8_t *bytes, size_t size, size_t element, run_place place,
                              kiln_error *err) {
  *m = (run_memory){
      .param = param, .device = device, .guard = guard, .size = size, .element = element, .zone = place.zone};
  KILN_TRY(guard == RUN_GUARD_PAGES ? map(m, place, err) : allocate(m, err));
  m->next = alive;
  alive = m;
  KILN_TRY(kiln_fill(device, m->at - m->before, m->zone, m->before, err));
  KILN_TRY(kiln_fill(device, m->at + size, m->zone, m->after, err));
  return kiln_copy_in(device, m->at, bytes, size, err);
}

void run_memory_destroy(run_memory *m) {
  for (run_memory **at = &alive; *at; at = &(*at)->next) {
    if (*at != m) continue;
    *at = m->next;
    break;
  }
  if (m->begin && m->guard == RUN_GUARD_PAGES) munmap(m->begin, m->mapped);
  else if (m->begin) kiln_free(m->device, m->begin);
  *m = (run_memory){0};
}

static kiln_status check_zone(const run_memory *m, int64_t offset, size_t size, kiln_error *err) {
  uint8_t zone[ZONE];
  KILN_TRY(kiln_copy_out(m->device, zone, m->at + offset, size, err));
  for (size_t i = 0; i < size; i++)
    if (zone[i] != m->zone) return outside(m, "wrote", offset + (int64_t)i, err);
  return KILN_OK;
}

kiln_status run_memory_check(const run_memory *m, kiln_error *err) {
  if (!m->begin) return KILN_OK;
  KILN_TRY(check_zone(m, -(int64_t)m->before, m->before, err));
  return check_zone(m, (int64_t)m->size, m->after, err);
}
