#include "CVarve.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

uint32_t cvarve_fork_counter;

// The descriptors that a child closes, each plus one; 0 marks a free slot. The size is fixed because a child must not
// allocate.
#define DESCRIPTOR_COUNT 256
static _Atomic int32_t descriptors[DESCRIPTOR_COUNT];

static void in_child(void) {
  __atomic_add_fetch(&cvarve_fork_counter, 1, __ATOMIC_SEQ_CST);
  for (int index = 0; index < DESCRIPTOR_COUNT; index++) {
    int32_t found = atomic_exchange(&descriptors[index], 0);
    // The parent keeps its lock, because the lock belongs to the open file, which the parent's descriptor still refers
    // to.
    if (found > 0) close(found - 1);
  }
}

static void install(void) { pthread_atfork(NULL, NULL, in_child); }

void cvarve_watch_forks(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, install);
}

void cvarve_close_in_children(int32_t descriptor) {
  cvarve_watch_forks();
  for (int index = 0; index < DESCRIPTOR_COUNT; index++) {
    int32_t expected = 0;
    if (atomic_compare_exchange_strong(&descriptors[index], &expected, descriptor + 1)) return;
  }
}

void cvarve_keep_in_children(int32_t descriptor) {
  for (int index = 0; index < DESCRIPTOR_COUNT; index++) {
    int32_t expected = descriptor + 1;
    if (atomic_compare_exchange_strong(&descriptors[index], &expected, 0)) return;
  }
}
