#include "AllocationCount.h"

#include <stddef.h>
#include <stdlib.h>

#if defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
#define ALLOCATION_COUNT_SANITIZED 1
#endif
#endif

#if defined(__GLIBC__) && !defined(ALLOCATION_COUNT_SANITIZED)

#include <errno.h>
#include <execinfo.h>
#include <unistd.h>

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *memory, size_t size);
extern void *__libc_memalign(size_t alignment, size_t size);

// Thread-local variables in the program itself need no allocation.
static _Thread_local bool is_counting;
static _Thread_local uint64_t count;

static void note(void) {
  if (!is_counting) return;
  count += 1;
  if (count > 3) return;
  // Allocations of `backtrace` itself don't count.
  is_counting = false;
  void *frames[32];
  int depth = backtrace(frames, 32);
  backtrace_symbols_fd(frames, depth, STDERR_FILENO);
  is_counting = true;
}

void *malloc(size_t size) {
  note();
  return __libc_malloc(size);
}

void *calloc(size_t number, size_t size) {
  note();
  return __libc_calloc(number, size);
}

void *realloc(void *memory, size_t size) {
  note();
  return __libc_realloc(memory, size);
}

void *memalign(size_t alignment, size_t size) {
  note();
  return __libc_memalign(alignment, size);
}

void *aligned_alloc(size_t alignment, size_t size) {
  note();
  return __libc_memalign(alignment, size);
}

int posix_memalign(void **memory, size_t alignment, size_t size) {
  note();
  *memory = __libc_memalign(alignment, size);
  return *memory == NULL ? ENOMEM : 0;
}

bool allocation_count_is_available(void) { return true; }

void allocation_count_begin(void) {
  count = 0;
  is_counting = true;
}

uint64_t allocation_count_end(void) {
  is_counting = false;
  return count;
}

#else

bool allocation_count_is_available(void) { return false; }
void allocation_count_begin(void) {}
uint64_t allocation_count_end(void) { return 0; }

#endif
