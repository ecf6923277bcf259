// SPDX-License-Identifier: Apache-2.0
//
// How jemalloc behaves in distlockd; MALLOC_CONF in the environment goes before it. Read once, before main.
//
// jemalloc, since what gRPC's threads allocate a shard's thread frees, and the other way round: glibc's allocator takes
// locks for that, and keeps more memory for small objects.

// By jemalloc's own name and type. Few arenas: each of them keeps memory of its own, and most requests are served from a
// thread's cache without one.
extern "C" const char* malloc_conf;
const char* malloc_conf = "narenas:4";
