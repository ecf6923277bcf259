# SPDX-License-Identifier: Apache-2.0
# distlock_test(<name> SOURCES <file>... [LIBS <target>...] [TIMEOUT <seconds>] [LONG] [WHOLE] [SERIAL])
#
# A GoogleTest program; each of its tests becomes a ctest test `<name>.<Suite>.<Case>` that may run beside any other:
# temporary folders, unix sockets or port 0 only. Its ctest label is the folder's name.
#   TIMEOUT  of each ctest test, 120 by default
#   LONG     label `long`: run by tests/run.sh --long only
#   WHOLE    one ctest test for the whole program (tests that share a costly set-up)
#   SERIAL   alone on the machine (measurements)
include(GoogleTest)

function(distlock_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "LONG;WHOLE;SERIAL" "TIMEOUT" "SOURCES;LIBS")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "distlock_test(${name}): unknown argument ${arg_UNPARSED_ARGUMENTS}")
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 120)
  endif()
  if(arg_LONG)
    set(label long)
  else()
    get_filename_component(label ${CMAKE_CURRENT_SOURCE_DIR} NAME)
  endif()
  set(properties TIMEOUT ${arg_TIMEOUT} LABELS ${label})
  if(arg_SERIAL)
    list(APPEND properties RUN_SERIAL TRUE)
  endif()

  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE ${arg_LIBS} distlock_flags GTest::gmock GTest::gtest_main)
  if(arg_WHOLE)
    add_test(NAME ${name} COMMAND ${name})
    set_tests_properties(${name} PROPERTIES ${properties})
  else()
    gtest_discover_tests(${name} TEST_PREFIX ${name}. PROPERTIES ${properties} DISCOVERY_TIMEOUT 60)
  endif()
endfunction()
