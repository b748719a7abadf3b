// Makes two orders visible to the thread sanitizer that Swift's libraries establish on Linux. These libraries were
// built without the sanitizer, so it reports accesses that they order as races. This library is loaded before them
// (LD_PRELOAD), reports the orders to the sanitizer, and calls the real functions.
//
// 1. `Synchronization.Mutex`. Its fast paths are compiled into our code, where the sanitizer sees their atomics. The slow
//    paths, of a lock that another thread holds and of an unlock that another thread waits for, are not. The names are
//    those of Swift's ABI for `_MutexHandle._lockSlow`, `_tryLockSlow` and `_unlockSlow`: the address of the handle is
//    passed as the context of a Swift call.
// 2. Arrays that are changed in place. A thread that read an array has released its reference before another thread finds
//    that it has the only one, and writes. Releasing the reference is a release, finding it unique an acquire, and no more:
//    threads that only release references are not ordered by it, and their races are still reported.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define SWIFT __attribute__((swiftcall))
#define SELF __attribute__((swift_context))

// The symbols are weak because processes that are started without a sanitizer load this library too.
extern void __tsan_acquire(void *address) __attribute__((weak));
extern void __tsan_release(void *address) __attribute__((weak));

static void acquire(void *address) {
  if (__tsan_acquire) __tsan_acquire(address);
}

// A reference may be tagged, as those of strings are, in which case it is not an address.
static bool is_address(const void *pointer) {
  return (uintptr_t)pointer >= 4096 && (uintptr_t)pointer >> 47 == 0;
}

static void release(void *address) {
  if (__tsan_release && is_address(address)) __tsan_release(address);
}

static void *find(const char *name) {
  void *found = dlsym(RTLD_NEXT, name);
  if (found == NULL) {
    fprintf(stderr, "order.c: no %s after this one: another version of Swift\n", name);
    abort();
  }
  return found;
}

// MARK: - Mutex

#define LOCK_SLOW "$s15Synchronization12_MutexHandleV9_lockSlowyys6UInt32VF"
#define TRY_LOCK_SLOW "$s15Synchronization12_MutexHandleV12_tryLockSlowSbyF"
#define UNLOCK_SLOW "$s15Synchronization12_MutexHandleV11_unlockSlowyyF"

SWIFT void varve_lock_slow(uint32_t thread, SELF void *handle) __asm__(LOCK_SLOW);
SWIFT bool varve_try_lock_slow(SELF void *handle) __asm__(TRY_LOCK_SLOW);
SWIFT void varve_unlock_slow(SELF void *handle) __asm__(UNLOCK_SLOW);

SWIFT void varve_lock_slow(uint32_t thread, SELF void *handle) {
  SWIFT void (*lock)(uint32_t, SELF void *) = find(LOCK_SLOW);
  lock(thread, handle);
  acquire(handle);
}

SWIFT bool varve_try_lock_slow(SELF void *handle) {
  SWIFT bool (*try_lock)(SELF void *) = find(TRY_LOCK_SLOW);
  bool locked = try_lock(handle);
  if (locked) acquire(handle);
  return locked;
}

SWIFT void varve_unlock_slow(SELF void *handle) {
  SWIFT void (*unlock)(SELF void *) = find(UNLOCK_SLOW);
  release(handle);
  unlock(handle);
}

// MARK: - References

// Functions are looked up once, because they are called often. A second thread that looks one up at the same time finds
// the same function.
#define REAL(type, name) \
  static type real; \
  type call = __atomic_load_n(&real, __ATOMIC_RELAXED); \
  if (call == NULL) __atomic_store_n(&real, call = find(name), __ATOMIC_RELAXED)

typedef void (*release_one)(void *object);
typedef void (*release_many)(void *object, uint32_t count);
typedef bool (*is_unique)(const void *object);

void swift_release(void *object) {
  REAL(release_one, "swift_release");
  release(object);
  call(object);
}

void swift_release_n(void *object, uint32_t count) {
  REAL(release_many, "swift_release_n");
  release(object);
  call(object, count);
}

void swift_bridgeObjectRelease(void *object) {
  REAL(release_one, "swift_bridgeObjectRelease");
  release(object);
  call(object);
}

void swift_bridgeObjectRelease_n(void *object, uint32_t count) {
  REAL(release_many, "swift_bridgeObjectRelease_n");
  release(object);
  call(object, count);
}

bool swift_isUniquelyReferenced_nonNull_native(const void *object) {
  REAL(is_unique, "swift_isUniquelyReferenced_nonNull_native");
  bool unique = call(object);
  if (unique) acquire((void *)object);
  return unique;
}
