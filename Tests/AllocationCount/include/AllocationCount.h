#ifndef ALLOCATION_COUNT_H
#define ALLOCATION_COUNT_H

#include <stdbool.h>
#include <stdint.h>

// Counts the allocations of a thread, by standing in front of the C library's allocator: a program that
// links this has its `malloc` and its relatives instead of the library's, for all of its libraries.

// Whether allocations can be counted here: with glibc, and without a sanitizer, which has its own allocator.
bool allocation_count_is_available(void);

// Begins to count the allocations of the calling thread, from 0.
void allocation_count_begin(void);

// Ends it, and returns how many there were. Each of the first three wrote its stack to the standard error.
uint64_t allocation_count_end(void);

#endif
