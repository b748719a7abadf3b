// What the heap of the C library can do beyond the standard.

#include "CVarve.h"

#if defined(__GLIBC__)
#include <malloc.h>
#elif defined(__APPLE__)
#include <malloc/malloc.h>
#endif

void cvarve_trim_heap(void) {
#if defined(__GLIBC__)
  malloc_trim(0);
#elif defined(__APPLE__)
  malloc_zone_pressure_relief(NULL, 0);
#endif
}

#if defined(__has_feature)
#define VARVE_HAS_FEATURE(name) __has_feature(name)
#else
#define VARVE_HAS_FEATURE(name) 0
#endif

bool cvarve_has_address_sanitizer(void) {
#if defined(__SANITIZE_ADDRESS__)
  return true;
#else
  return VARVE_HAS_FEATURE(address_sanitizer);
#endif
}
