// A barrier that one thread pays for on behalf of all others: Linux has a system call that interrupts each running
// thread of the process. So code that runs a million times a second needs no barrier of its own.

#include "CVarve.h"

#if defined(__linux__)
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

bool cvarve_has_thread_barrier(void) {
  long commands = syscall(SYS_membarrier, MEMBARRIER_CMD_QUERY, 0, 0);
  if (commands < 0 || !(commands & MEMBARRIER_CMD_PRIVATE_EXPEDITED)) return false;
  return syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
}

bool cvarve_barrier_threads(void) {
  return syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) == 0;
}

#else

bool cvarve_has_thread_barrier(void) { return false; }
bool cvarve_barrier_threads(void) { return false; }

#endif
