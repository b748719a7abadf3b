#include "AllocationPeak.h"

#if defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
#define ALLOCATION_PEAK_SANITIZED 1
#endif
#endif

#if defined(__GLIBC__) || defined(__linux__)
#include <features.h>
#endif

#if defined(__GLIBC__) && !defined(ALLOCATION_PEAK_SANITIZED)

#include <errno.h>
#include <malloc.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *memory, size_t size);
extern void *__libc_memalign(size_t alignment, size_t size);
extern void __libc_free(void *memory);

// Thread-local variables in the program itself need no allocation.
static _Thread_local bool is_measuring;
static _Thread_local ptrdiff_t live;
static _Thread_local ptrdiff_t peak;

static void add(ptrdiff_t size) {
  live += size;
  if (live > peak) peak = live;
}

static void *added(void *memory) {
  if (is_measuring && memory != NULL) add((ptrdiff_t)malloc_usable_size(memory));
  return memory;
}

void *malloc(size_t size) { return added(__libc_malloc(size)); }

void *calloc(size_t number, size_t size) { return added(__libc_calloc(number, size)); }

void *realloc(void *memory, size_t size) {
  if (is_measuring && memory != NULL) live -= (ptrdiff_t)malloc_usable_size(memory);
  return added(__libc_realloc(memory, size));
}

void *memalign(size_t alignment, size_t size) { return added(__libc_memalign(alignment, size)); }

void *aligned_alloc(size_t alignment, size_t size) { return added(__libc_memalign(alignment, size)); }

int posix_memalign(void **memory, size_t alignment, size_t size) {
  *memory = added(__libc_memalign(alignment, size));
  return *memory == NULL ? ENOMEM : 0;
}

void free(void *memory) {
  if (is_measuring && memory != NULL) live -= (ptrdiff_t)malloc_usable_size(memory);
  __libc_free(memory);
}

// Large blocks are allocated by mmap, so it is counted too.
void *mmap(void *address, size_t size, int protection, int flags, int file, off_t offset) {
  void *memory = (void *)syscall(SYS_mmap, address, size, protection, flags, file, offset);
  if (is_measuring && memory != MAP_FAILED) add((ptrdiff_t)size);
  return memory;
}

int munmap(void *memory, size_t size) {
  if (is_measuring) live -= (ptrdiff_t)size;
  return (int)syscall(SYS_munmap, memory, size);
}

bool allocation_peak_is_available(void) { return true; }

void allocation_peak_begin(void) {
  live = 0;
  peak = 0;
  is_measuring = true;
}

size_t allocation_peak_end(void) {
  is_measuring = false;
  return (size_t)peak;
}

#else

bool allocation_peak_is_available(void) { return false; }
void allocation_peak_begin(void) {}
size_t allocation_peak_end(void) { return 0; }

#endif
