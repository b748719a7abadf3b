// Functions that Swift cannot express: checksum instructions that need a target feature, and system calls whose C
// declarations are variadic or macros. No other logic belongs here.
//
// Every symbol begins with `cvarve_`.

#ifndef CVARVE_H
#define CVARVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#pragma clang assume_nonnull begin

// --- CRC-32C (crc32c.c) -------------------------------------------------------------------------

/// Extends a CRC-32C (Castagnoli, polynomial 0x1EDC6F41) by `count` bytes, by the fastest method of this processor. A
/// new checksum begins with `crc` 0. The value is neither masked nor seeded.
uint32_t cvarve_crc32c_extend(uint32_t crc, const void *bytes, size_t count);

/// `cvarve_crc32c_extend` by the tables of the portable fallback. Public for tests, which compare the two.
uint32_t cvarve_crc32c_extend_portable(uint32_t crc, const void *bytes, size_t count);

/// Which implementation `cvarve_crc32c_extend` uses: "sse4.2", "armv8-crc" or "portable".
const char *cvarve_crc32c_implementation(void);

// --- Futex (futex.c) ----------------------------------------------------------------------------

/// Sleeps until `*word` differs from `expected`, a wake-up comes, or `timeout_nanoseconds` pass (negative: no timeout).
/// Returns 0, or an errno value: EAGAIN, EINTR and ETIMEDOUT are ordinary. `shared` allows the waker to be another
/// process that maps the same page.
int32_t cvarve_futex_wait(const uint32_t *word, uint32_t expected, int64_t timeout_nanoseconds, bool shared);

/// Wakes at most `count` sleepers on `word`.
void cvarve_futex_wake(const uint32_t *word, int32_t count, bool shared);

/// Pauses a thread that spins on a word: yields to the core's other hardware thread, and limits speculation.
static inline void cvarve_pause(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ __volatile__("yield");
#endif
}

// --- Files and threads (system.c) ---------------------------------------------------------------

/// `openat` with a mode. Returns the descriptor, which is not one of the three standard descriptors, or -errno.
int32_t cvarve_open_at(int32_t directory, const char *path, int32_t flags, uint32_t mode);

/// Makes the data of a file survive power loss: fdatasync, or F_FULLFSYNC on Darwin.
/// Returns 0 or -errno.
int32_t cvarve_sync_data(int32_t descriptor);

/// Syncs like `cvarve_sync_data`, but only the first `size` bytes, which the file must have, if the system supports
/// that; otherwise all bytes. The descriptor must be open for reading and writing. Returns 0 or -errno.
int32_t cvarve_sync_first(int32_t descriptor, size_t size);

/// `posix_fadvise(POSIX_FADV_DONTNEED)` over a range, if the system has it.
void cvarve_drop_cached_pages(int32_t descriptor, int64_t offset, int64_t length);

/// Starts the write-back of a range without waiting for it, if the system can.
void cvarve_start_writeback(int32_t descriptor, int64_t offset, int64_t length);

/// The `f_type` of the file system of an open file; 0 if the system has no such number. Returns 0 or -errno.
int32_t cvarve_file_system_type(int32_t descriptor, uint64_t *type);

/// Whether the XFS file system of an open file can share blocks between files (reflinks), in which case a store may
/// have to allocate. Returns 0 (cannot), 1 (can), or -errno if that can't be determined.
int32_t cvarve_xfs_shares_blocks(int32_t descriptor);

/// The bytes that an unprivileged process can still allocate on the file system of an open file, and the size of the file
/// system. Returns 0 or -errno.
int32_t cvarve_space(int32_t descriptor, uint64_t *free, uint64_t *total);

/// Names the calling thread; the name is cut to 15 bytes on Linux.
void cvarve_name_thread(const char *name);

/// Lowers the priority of the calling thread below that of ordinary ones (nice +`steps` on Linux).
void cvarve_lower_thread_priority(int32_t steps);

/// Advises the kernel to back memory with huge pages (`MADV_HUGEPAGE`). The call is a hint, so a failure is not an
/// error.
void cvarve_advise_huge_pages(void *address, size_t length);
/// Removes pages of a file's shared mapping from the address space in one step. Their contents stay in the page
/// cache, and the next access maps them again. Does nothing on systems other than Linux.
void cvarve_unmap_pages(void *address, size_t length);
/// Makes pages present, reading them from their file if they are not in memory. Returns 0 or -errno.
int32_t cvarve_populate_for_reading(void *address, size_t length);
/// Makes pages present and writable before they are touched. Returns 0 or -errno.
int32_t cvarve_populate_for_writing(void *address, size_t length);

// --- Stack (stack.c) -----------------------------------------------------------------------------

/// Whether the calling thread's stack has `size` bytes left; true if the system does not report it. The bounds are
/// determined once per thread.
bool cvarve_stack_has(size_t size);

// --- Thread slot (thread_slot.c) -----------------------------------------------------------------

/// A pointer stored per thread, initially null. The object database stores the thread's running transactions in it.
void *_Nullable cvarve_thread_slot(void);

/// Sets the pointer of `cvarve_thread_slot`.
void cvarve_set_thread_slot(void *_Nullable value);

/// Whether reads of files are refused on the calling thread, initially 0: `FileReadBan` defines the numbers.
uint8_t cvarve_file_read_ban(void);

/// Sets the value of `cvarve_file_read_ban`.
void cvarve_set_file_read_ban(uint8_t value);

/// Whether long work of the calling thread ends if its task is cancelled, initially false (`TaskCancellation`).
bool cvarve_ends_if_cancelled(void);

/// Sets the value of `cvarve_ends_if_cancelled`.
void cvarve_set_ends_if_cancelled(bool value);

// --- Barriers (barrier.c) ------------------------------------------------------------------------

/// Whether `cvarve_barrier_threads` works here. The first call prepares it.
bool cvarve_has_thread_barrier(void);

/// A full memory barrier on every running thread of the process: everything each did before is visible to the caller,
/// and everything it does afterwards sees what the caller did. Returns false if the system does not support it.
bool cvarve_barrier_threads(void);

/// Prevents only the compiler from moving loads and stores across this point: the other half of
/// `cvarve_barrier_threads`, which costs no instruction.
static inline void cvarve_compiler_fence(void) { __atomic_signal_fence(__ATOMIC_SEQ_CST); }

// --- Forks (forks.c) ----------------------------------------------------------------------------

/// The value that `cvarve_fork_count` returns.
extern uint32_t cvarve_fork_counter;

/// Starts counting in `cvarve_fork_count`. Repeated calls do nothing.
void cvarve_watch_forks(void);

/// The number of forks between the process that first called `cvarve_watch_forks` and this one: an object created at
/// another count was created by an ancestor.
static inline uint32_t cvarve_fork_count(void) { return __atomic_load_n(&cvarve_fork_counter, __ATOMIC_RELAXED); }

/// Makes a forked child close a descriptor, so that it does not retain a lock of the parent's open file. At most 256 at
/// a time; more are not closed.
void cvarve_close_in_children(int32_t descriptor);

/// Undoes `cvarve_close_in_children`. Call it before the descriptor is closed.
void cvarve_keep_in_children(int32_t descriptor);

// --- Heap (heap.c) ------------------------------------------------------------------------------

/// Returns free memory of the heap to the operating system, if the C library has a call for it.
void cvarve_trim_heap(void);
// --- Processor (inlined into Swift, so nothing here may need a target feature) --------------------

/// Prefetches the cache line at `address`. The call is a hint: the address need not be mapped.
static inline void cvarve_prefetch(const void *address) { __builtin_prefetch(address, 0, 3); }

#pragma clang assume_nonnull end
#endif
