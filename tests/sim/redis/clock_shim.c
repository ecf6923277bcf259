// SPDX-License-Identifier: Apache-2.0
//
// LD_PRELOAD: gives a server a wall clock that a test sets. DISTLOCK_CLOCK_PAGE names a file of two little-endian
// int64, which the test may change at any time: `frozen_ns` (since 1970; 0: not frozen) and `offset_ns` (added to the
// real time while not frozen). CLOCK_MONOTONIC and the other clocks are unchanged, so timers run on. Start the server
// with `--jemalloc-bg-thread no`: that thread sleeps until a time by the wall clock, and spins when that time has
// passed long ago.
//
// It reads the real time by system call, because jemalloc reads clocks before symbols can be looked up.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define BILLION INT64_C(1000000000)

struct page {
  int64_t frozen_ns;
  int64_t offset_ns;
};

static struct page* page;

static void stop(const char* what) {
  fprintf(stderr, "clock shim: %s: %s\n", what, strerror(errno));
  _exit(127);
}

__attribute__((constructor)) static void map_page(void) {
  const char* path = getenv("DISTLOCK_CLOCK_PAGE");
  if (path == NULL) stop("DISTLOCK_CLOCK_PAGE is not set");
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) stop(path);
  void* mapped = mmap(NULL, sizeof(struct page), PROT_READ, MAP_SHARED, file, 0);
  if (mapped == MAP_FAILED) stop(path);
  close(file);
  page = mapped;
}

static void set(struct timespec* at, int64_t ns) {
  at->tv_sec = (time_t)(ns / BILLION);
  at->tv_nsec = (long)(ns % BILLION);
}

int clock_gettime(clockid_t clock, struct timespec* at) {
  const int result = (int)syscall(SYS_clock_gettime, clock, at);
  if (result != 0 || page == NULL || (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE)) return result;
  const int64_t frozen_ns = __atomic_load_n(&page->frozen_ns, __ATOMIC_ACQUIRE);
  const int64_t offset_ns = __atomic_load_n(&page->offset_ns, __ATOMIC_ACQUIRE);
  set(at, frozen_ns != 0 ? frozen_ns : (int64_t)at->tv_sec * BILLION + at->tv_nsec + offset_ns);
  return 0;
}

int gettimeofday(struct timeval* restrict at, void* restrict zone) {
  struct timespec now;
  (void)zone;
  if (clock_gettime(CLOCK_REALTIME, &now) != 0) return -1;
  at->tv_sec = now.tv_sec;
  at->tv_usec = now.tv_nsec / 1000;
  return 0;
}

time_t time(time_t* at) {
  struct timespec now;
  if (clock_gettime(CLOCK_REALTIME, &now) != 0) return (time_t)-1;
  if (at != NULL) *at = now.tv_sec;
  return now.tv_sec;
}
