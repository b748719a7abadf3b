#ifndef ALLOCATION_PEAK_H
#define ALLOCATION_PEAK_H

#include <stdbool.h>
#include <stddef.h>

/// Returns whether this program's allocations can be measured: with glibc, and without a sanitizer, which has its own
/// allocator and limit.
bool allocation_peak_is_available(void);

/// Begins to measure the allocations of the calling thread.
void allocation_peak_begin(void);

/// Stops measuring, and returns the maximum number of bytes that were allocated at one time since
/// `allocation_peak_begin`, in addition to the bytes that were allocated then.
size_t allocation_peak_end(void);

#endif
