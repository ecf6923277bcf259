# SPDX-License-Identifier: Apache-2.0
# Compiler flags for all code, where this is the project that is built and no part of another.
include(CheckPIESupported)

set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)  # before check_pie_supported
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
check_pie_supported(LANGUAGES C CXX)

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Debug (-O1, asserts) or Release" FORCE)
endif()
if(DISTLOCK_SANITIZE OR DISTLOCK_FUZZ)
  # Reports name lines only; the rest of the debug information is a tenth of the build's time.
  set(CMAKE_CXX_FLAGS_DEBUG "-O1 -g1 -fno-omit-frame-pointer")
else()
  set(CMAKE_CXX_FLAGS_DEBUG "-O1 -g -fno-omit-frame-pointer")
endif()
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")

find_program(CCACHE ccache)
if(CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # Relative paths, so that another checkout of the same sources can use the cached objects of this one.
  set(CMAKE_C_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} ${CCACHE})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_C_COMPILER_LAUNCHER})
endif()
find_program(LLD ld.lld)
if(LLD)
  add_link_options(-fuse-ld=lld)
endif()

# Bounds checks of the standard library stay on in release: their cost is small next to a round trip.
add_compile_definitions(_GLIBCXX_ASSERTIONS)

if(DISTLOCK_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL Clang)
    message(FATAL_ERROR "DISTLOCK_FUZZ needs clang: cmake --preset fuzz")
  endif()
  add_compile_options(-fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all)
  add_link_options(-fsanitize=address,undefined)
elseif(DISTLOCK_SANITIZE STREQUAL address)
  add_compile_options(-fsanitize=address,undefined -fno-sanitize-recover=all)
  add_link_options(-fsanitize=address,undefined)
elseif(DISTLOCK_SANITIZE STREQUAL thread)
  add_compile_options(-fsanitize=thread)
  add_link_options(-fsanitize=thread)
elseif(DISTLOCK_SANITIZE)
  message(FATAL_ERROR "DISTLOCK_SANITIZE is '${DISTLOCK_SANITIZE}'; it may be empty, 'address' or 'thread'")
elseif(CMAKE_BUILD_TYPE STREQUAL Release)
  add_compile_options(-fstack-protector-strong -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2)
  add_link_options(LINKER:-z,relro,-z,now)
endif()

if(DISTLOCK_COVERAGE)
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL Clang)
    message(FATAL_ERROR "DISTLOCK_COVERAGE needs clang: cmake --preset coverage")
  endif()
  add_link_options(-fprofile-instr-generate)
endif()
