#ifndef ALLOCATION_COUNT_H
#define ALLOCATION_COUNT_H

#include <stdbool.h>
#include <stdint.h>

// Counts the allocations of a thread by replacing the C library's allocator: all libraries of a program that links this
// use its `malloc` and related functions instead of the C library's.

// Returns whether allocations can be counted: with glibc, and without a sanitizer, which has its own allocator.
bool allocation_count_is_available(void);

// Begins to count the allocations of the calling thread, from 0.
void allocation_count_begin(void);

// Stops counting, and returns the number of allocations. Each of the first three wrote its stack to standard error.
uint64_t allocation_count_end(void);

#endif
