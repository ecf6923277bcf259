# SPDX-License-Identifier: Apache-2.0
# RUST_CARGO: the command that runs cargo on the crate with one target folder for all tests; or NO_RUST: why there is
# none. The crate's dependencies come from crates.io, and are compiled the first time.
find_program(CARGO cargo HINTS $ENV{HOME}/.cargo/bin)
set(RUST_MIN 1.88)
set(NO_RUST "")
if(NOT CARGO)
  set(NO_RUST "there is no cargo")
else()
  execute_process(COMMAND ${CARGO} --version OUTPUT_VARIABLE found ERROR_QUIET)
  string(REGEX MATCH "[0-9]+\\.[0-9]+" found "${found}")
  if(found VERSION_LESS RUST_MIN)
    set(NO_RUST "${CARGO} is ${found}")
  endif()
endif()
set(RUST_TARGET ${CMAKE_SOURCE_DIR}/build/cargo) # all presets share it
set(RUST_CARGO ${CMAKE_COMMAND} -E env CARGO_TARGET_DIR=${RUST_TARGET} CARGO_INCREMENTAL=0
    CARGO_PROFILE_DEV_DEBUG=0 ${CARGO})

# rust_skipped(<test>): a test that ctest shows as skipped, and why.
function(rust_skipped name)
  add_test(NAME ${name} COMMAND ${CMAKE_COMMAND} -E echo
    "SKIPPED: ${NO_RUST}; the Rust crate needs cargo ${RUST_MIN} or newer, as rustup installs it")
  set_tests_properties(${name} PROPERTIES LABELS rust SKIP_REGULAR_EXPRESSION "SKIPPED:")
endfunction()
