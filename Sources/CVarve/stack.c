#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <pthread.h>
#include "CVarve.h"

// The lowest address of the calling thread's stack: 0 before it is determined, and 1 if the system does not report
// it.
static _Thread_local uintptr_t lowest;

static uintptr_t find_lowest(void) {
#if defined(__APPLE__)
  pthread_t thread = pthread_self();
  return (uintptr_t)pthread_get_stackaddr_np(thread) - pthread_get_stacksize_np(thread);
#elif defined(__linux__)
  pthread_attr_t attributes;
  if (pthread_getattr_np(pthread_self(), &attributes) != 0) return 1;
  void *address = NULL;
  size_t size = 0;
  int failed = pthread_attr_getstack(&attributes, &address, &size);
  pthread_attr_destroy(&attributes);
  return failed != 0 || address == NULL ? 1 : (uintptr_t)address;
#else
  return 1;
#endif
}

bool cvarve_stack_has(size_t size) {
  if (lowest == 0) lowest = find_lowest();
  uintptr_t here = (uintptr_t)__builtin_frame_address(0);
  return lowest == 1 || (here > lowest && here - lowest >= size);
}
