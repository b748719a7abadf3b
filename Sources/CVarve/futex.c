// Sleeping on a word of memory. Linux has this as a system call that Swift can't import because it is variadic; Darwin
// has os_sync_wait_on_address (macOS 14.4).

#include "CVarve.h"

#include <errno.h>
#include <time.h>

#if defined(__linux__)
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

int32_t cvarve_futex_wait(const uint32_t *word, uint32_t expected, int64_t timeout_nanoseconds, bool shared) {
  struct timespec timeout = {timeout_nanoseconds / 1000000000, timeout_nanoseconds % 1000000000};
  int operation = shared ? FUTEX_WAIT : FUTEX_WAIT_PRIVATE;
  long result =
      syscall(SYS_futex, word, operation, expected, timeout_nanoseconds < 0 ? NULL : &timeout, NULL, 0);
  return result == 0 ? 0 : errno;
}

void cvarve_futex_wake(const uint32_t *word, int32_t count, bool shared) {
  syscall(SYS_futex, word, shared ? FUTEX_WAKE : FUTEX_WAKE_PRIVATE, count, NULL, NULL, 0);
}

#elif defined(__APPLE__)
#include <os/os_sync_wait_on_address.h>

int32_t cvarve_futex_wait(const uint32_t *word, uint32_t expected, int64_t timeout_nanoseconds, bool shared) {
  os_sync_wait_on_address_flags_t flags =
      shared ? OS_SYNC_WAIT_ON_ADDRESS_SHARED : OS_SYNC_WAIT_ON_ADDRESS_NONE;
  int result;
  if (timeout_nanoseconds < 0) {
    result = os_sync_wait_on_address((void *)word, expected, 4, flags);
  } else if (timeout_nanoseconds == 0) {
    return ETIMEDOUT;
  } else {
    result = os_sync_wait_on_address_with_timeout((void *)word, expected, 4, flags, OS_CLOCK_MACH_ABSOLUTE_TIME,
                                                  (uint64_t)timeout_nanoseconds);
  }
  return result >= 0 ? 0 : errno;
}

void cvarve_futex_wake(const uint32_t *word, int32_t count, bool shared) {
  os_sync_wake_by_address_flags_t flags =
      shared ? OS_SYNC_WAKE_BY_ADDRESS_SHARED : OS_SYNC_WAKE_BY_ADDRESS_NONE;
  if (count == 1) {
    os_sync_wake_by_address_any((void *)word, 4, flags);
  } else {
    os_sync_wake_by_address_all((void *)word, 4, flags);
  }
}
#endif
