// Shows the thread sanitizer the order that `Synchronization.Mutex` makes on Linux.
//
// The fast paths of the mutex are compiled into our code, where the sanitizer sees their atomics. The slow ones,
// of a lock that somebody else holds and of an unlock that somebody waits for, are in a library that was built
// without it: what a thread did before such an unlock looks unordered with what another does behind the lock.
// Loaded in front of that library (LD_PRELOAD), this tells the sanitizer, and calls the real one.
//
// The names are those of Swift's ABI for `_MutexHandle._lockSlow`, `_tryLockSlow` and `_unlockSlow`: the address of
// the handle comes as the context of a Swift call.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define SWIFT __attribute__((swiftcall))
#define SELF __attribute__((swift_context))

// Weak: processes that are started without a sanitizer load this, too.
extern void __tsan_acquire(void *address) __attribute__((weak));
extern void __tsan_release(void *address) __attribute__((weak));

#define LOCK_SLOW "$s15Synchronization12_MutexHandleV9_lockSlowyys6UInt32VF"
#define TRY_LOCK_SLOW "$s15Synchronization12_MutexHandleV12_tryLockSlowSbyF"
#define UNLOCK_SLOW "$s15Synchronization12_MutexHandleV11_unlockSlowyyF"

SWIFT void varve_lock_slow(uint32_t thread, SELF void *handle) __asm__(LOCK_SLOW);
SWIFT bool varve_try_lock_slow(SELF void *handle) __asm__(TRY_LOCK_SLOW);
SWIFT void varve_unlock_slow(SELF void *handle) __asm__(UNLOCK_SLOW);

typedef SWIFT void (*lock_slow)(uint32_t thread, SELF void *handle);
typedef SWIFT bool (*try_lock_slow)(SELF void *handle);
typedef SWIFT void (*unlock_slow)(SELF void *handle);

static void *real(const char *name) {
  void *found = dlsym(RTLD_NEXT, name);
  if (found == NULL) {
    fprintf(stderr, "no %s behind this one: another version of Swift\n", name);
    abort();
  }
  return found;
}

SWIFT void varve_lock_slow(uint32_t thread, SELF void *handle) {
  ((lock_slow)real(LOCK_SLOW))(thread, handle);
  if (__tsan_acquire) __tsan_acquire(handle);
}

SWIFT bool varve_try_lock_slow(SELF void *handle) {
  bool locked = ((try_lock_slow)real(TRY_LOCK_SLOW))(handle);
  if (locked && __tsan_acquire) __tsan_acquire(handle);
  return locked;
}

SWIFT void varve_unlock_slow(SELF void *handle) {
  if (__tsan_release) __tsan_release(handle);
  ((unlock_slow)real(UNLOCK_SLOW))(handle);
}
