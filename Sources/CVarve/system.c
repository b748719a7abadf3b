// System calls that Swift can't import, or whose flags Swift can't import.

#if defined(__linux__)
#define _GNU_SOURCE
#endif

#include "CVarve.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#if defined(__linux__)
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#else
#include <sys/mount.h>
#include <sys/param.h>
#endif

int32_t cvarve_open_at(int32_t directory, const char *path, int32_t flags, uint32_t mode) {
  int descriptor;
  do {
    descriptor = openat(directory, path, flags | O_CLOEXEC, (mode_t)mode);
  } while (descriptor < 0 && errno == EINTR);
  if (descriptor < 0) return -errno;
  if (descriptor > STDERR_FILENO) return descriptor;
  // A program that was started without the standard descriptors prints to whatever has their numbers.
  int moved = fcntl(descriptor, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  int error = errno;
  close(descriptor);
  return moved < 0 ? -error : moved;
}

int32_t cvarve_sync_data(int32_t descriptor) {
#if defined(__APPLE__)
  int result = fcntl(descriptor, F_FULLFSYNC);
#else
  int result = fdatasync(descriptor);
#endif
  return result == 0 ? 0 : -errno;
}

int32_t cvarve_sync_first(int32_t descriptor, size_t size) {
#if defined(__linux__)
  // msync is the only call that syncs a range of a file and the device's cache. It takes the range as addresses.
  void *address = mmap(NULL, size, PROT_READ, MAP_SHARED, descriptor, 0);
  if (address == MAP_FAILED) return -errno;
  int32_t result = msync(address, size, MS_SYNC) == 0 ? 0 : -errno;
  munmap(address, size);
  return result;
#else
  (void)size;
  return cvarve_sync_data(descriptor);
#endif
}

void cvarve_drop_cached_pages(int32_t descriptor, int64_t offset, int64_t length) {
#if defined(__linux__)
  posix_fadvise(descriptor, offset, length, POSIX_FADV_DONTNEED);
#else
  (void)descriptor, (void)offset, (void)length;
#endif
}

void cvarve_start_writeback(int32_t descriptor, int64_t offset, int64_t length) {
#if defined(__linux__)
  sync_file_range(descriptor, offset, length, SYNC_FILE_RANGE_WRITE);
#else
  (void)descriptor, (void)offset, (void)length;
#endif
}

int32_t cvarve_file_system_type(int32_t descriptor, uint64_t *type) {
#if defined(__linux__)
  struct statfs information;
  if (fstatfs(descriptor, &information) != 0) return -errno;
  *type = (uint64_t)(uint32_t)information.f_type;
#else
  (void)descriptor;
  *type = 0;
#endif
  return 0;
}

#if defined(__linux__)
// The first version of the XFS geometry, which every kernel with XFS supports. The kernel's headers don't export it,
// so the layout is declared here.
struct xfs_geometry {
  uint32_t sizes[8];
  uint64_t extents[4];
  uint8_t identity[16];
  uint32_t stripe_unit, stripe_width;
  int32_t version;
  uint32_t flags;
  uint32_t sector_sizes[3];
};
#define XFS_REPORT_GEOMETRY _IOR('X', 100, struct xfs_geometry)
#define XFS_GEOMETRY_REFLINK (1u << 20)
#endif

int32_t cvarve_xfs_shares_blocks(int32_t descriptor) {
#if defined(__linux__)
  struct xfs_geometry geometry;
  memset(&geometry, 0, sizeof geometry);
  if (ioctl(descriptor, XFS_REPORT_GEOMETRY, &geometry) != 0) return -errno;
  return (geometry.flags & XFS_GEOMETRY_REFLINK) != 0;
#else
  (void)descriptor;
  return -ENOTSUP;
#endif
}

int32_t cvarve_space(int32_t descriptor, uint64_t *free, uint64_t *total) {
  struct statvfs information;
  if (fstatvfs(descriptor, &information) != 0) return -errno;
  *free = (uint64_t)information.f_bavail * (uint64_t)information.f_frsize;
  *total = (uint64_t)information.f_blocks * (uint64_t)information.f_frsize;
  return 0;
}

void cvarve_name_thread(const char *name) {
#if defined(__linux__)
  char cut[16];
  strncpy(cut, name, sizeof cut - 1);
  cut[sizeof cut - 1] = 0;
  pthread_setname_np(pthread_self(), cut);
#else
  pthread_setname_np(name);
#endif
}

void cvarve_lower_thread_priority(int32_t steps) {
#if defined(__linux__)
  // On Linux, the priority of a "process" that is named by a thread id is the priority of that thread alone.
  setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), steps);
#else
  (void)steps;
  pthread_set_qos_class_self_np(QOS_CLASS_UTILITY, 0);
#endif
}

void cvarve_advise_huge_pages(void *address, size_t length) {
#if defined(MADV_HUGEPAGE)
  madvise(address, length, MADV_HUGEPAGE);
#else
  (void)address, (void)length;
#endif
}

void cvarve_unmap_pages(void *address, size_t length) {
#if defined(__linux__)
  (void)madvise(address, length, MADV_DONTNEED);
#else
  (void)address, (void)length;
#endif
}

int32_t cvarve_populate_for_reading(void *address, size_t length) {
#if defined(__linux__)
#if !defined(MADV_POPULATE_READ)
#define MADV_POPULATE_READ 22
#endif
  return madvise(address, length, MADV_POPULATE_READ) == 0 ? 0 : -errno;
#else
  (void)address, (void)length;
  return 0;
#endif
}

int32_t cvarve_populate_for_writing(void *address, size_t length) {
#if defined(__linux__)
#if !defined(MADV_POPULATE_WRITE)
#define MADV_POPULATE_WRITE 23
#endif
  return madvise(address, length, MADV_POPULATE_WRITE) == 0 ? 0 : -errno;
#else
  (void)address, (void)length;
  return 0;
#endif
}
