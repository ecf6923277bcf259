# SPDX-License-Identifier: Apache-2.0
# Options of our own code in every build, and the target `distlock_flags` with its warnings.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

# BUILD_INTERFACE: an installed library must not pass its warnings on to its users.
add_library(distlock_flags INTERFACE)
set(warnings -Wall -Wextra -Wshadow -Wno-missing-field-initializers)
if(DISTLOCK_WERROR)
  list(APPEND warnings -Werror)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # GCC 12 wrongly reports overlaps inside std::string operations.
  list(APPEND warnings -Wno-restrict)
endif()
target_compile_options(distlock_flags INTERFACE "$<BUILD_INTERFACE:${warnings}>")
