// SPDX-License-Identifier: Apache-2.0
//
// jemalloc's settings in distlockd, read once before main. MALLOC_CONF in the environment overrides them.
//
// Why jemalloc: gRPC's threads allocate what the shards' threads free, and the reverse. glibc's allocator takes locks
// for that, and needs more memory for small objects.

// Memory that was freed goes back to the system within a second, also while the broker is idle: what a flood of calls
// has taken is given back before the next one comes.
//
// jemalloc looks this variable up by name. Few arenas, because each keeps memory of its own and most requests are
// served from a thread's cache.
extern "C" const char* malloc_conf;
const char* malloc_conf = "narenas:4,background_thread:true,dirty_decay_ms:1000";
