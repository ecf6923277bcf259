# SPDX-License-Identifier: Apache-2.0
# add_rooms(<folder>...): add_subdirectory for each folder that has a CMakeLists.txt.
# Under ThreadSanitizer the rooms in TSAN_LEFT_OUT are skipped: what they run (gRPC) is not instrumented. The C++ client
# is built, because its core runs there on a transport that the test plays. Also left out: simulations and the tests of
# pure rooms, which have one thread, and packages that nothing of ours is compiled for. Of the product only what a test
# needs is built.
set(TSAN_LEFT_OUT
    deploy/image client/cli client/conformance client/conformance/broker client/cpp/testing
    server/contract server/rpc server/web server/main
    tests/access tests/core tests/proto tests/main tests/tidy tests/security tests/store tests/lua tests/contract
    tests/rpc tests/web tests/ops tests/cli
    tests/e2e tests/deploy tests/go tests/interop tests/node tests/python tests/bench tests/sim/history
    tests/sim/quorum tests/sim/simulation tests/sim/exhaustive tests/fuzz)

function(add_rooms)
  foreach(room IN LISTS ARGN)
    file(RELATIVE_PATH path ${PROJECT_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR}/${room})
    if(DISTLOCK_SANITIZE STREQUAL thread AND path IN_LIST TSAN_LEFT_OUT)
      continue()
    endif()
    if(path MATCHES "^tests/" AND NOT EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/${room})
      message(FATAL_ERROR "${path} does not exist: name the folders that do, or none of its tests are built")
    endif()
    if(EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/${room}/CMakeLists.txt)
      if(DISTLOCK_SANITIZE STREQUAL thread AND path MATCHES "^(server|client)")
        add_subdirectory(${room} EXCLUDE_FROM_ALL)
      else()
        add_subdirectory(${room})
      endif()
    endif()
  endforeach()
endfunction()

# compile_apart(<file>...): with DISTLOCK_UNITY these files of the calling folder are compiled alone. Each has a name in
# its unnamed namespace that another file of its target has, too.
if(DISTLOCK_UNITY)
  set(CMAKE_UNITY_BUILD ON)
  set(CMAKE_UNITY_BUILD_BATCH_SIZE 8)
endif()
function(compile_apart)
  set_source_files_properties(${ARGN} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()
