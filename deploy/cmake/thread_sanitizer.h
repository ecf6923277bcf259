// SPDX-License-Identifier: Apache-2.0
//
// Included before all else, under ThreadSanitizer, where Protobuf is used. The installed Protobuf and Abseil are built
// without ThreadSanitizer, and Protobuf's headers add members to its maps where it is on (google/protobuf/map_field.h):
// the program and the library would not agree on where a message's members are, and the program would crash. So their
// headers are not told. The standard library's are, by the include before: some of it is written otherwise then.
#pragma once

#ifdef __cplusplus
#include <cstddef>
#endif

#define DISTLOCK_TSAN 1
#undef __SANITIZE_THREAD__
