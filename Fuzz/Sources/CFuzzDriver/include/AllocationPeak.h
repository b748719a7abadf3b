#ifndef ALLOCATION_PEAK_H
#define ALLOCATION_PEAK_H

#include <stdbool.h>
#include <stddef.h>

/// Whether this program's allocations can be measured: with glibc, and without a sanitizer, which has
/// an allocator and a limit of its own.
bool allocation_peak_is_available(void);

/// Begins to measure what the calling thread allocates.
void allocation_peak_begin(void);

/// The most bytes that were allocated at one time since `allocation_peak_begin`, beyond what there was
/// then. Ends the measuring.
size_t allocation_peak_end(void);

#endif
