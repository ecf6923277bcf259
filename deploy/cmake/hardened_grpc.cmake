# SPDX-License-Identifier: Apache-2.0
# With DISTLOCK_GRPC=hardened, every program takes gRPC and Abseil from Debian's archives, after four objects of ours:
# deploy/grpc says why. Interposing them over the shared library does not work, because its static objects would then
# exist twice.
if(NOT DISTLOCK_GRPC STREQUAL "hardened")
  if(NOT DISTLOCK_GRPC STREQUAL "system")
    message(FATAL_ERROR "DISTLOCK_GRPC is '${DISTLOCK_GRPC}'; it may be system or hardened")
  endif()
  return()
endif()
if(DISTLOCK_SANITIZE)
  message(FATAL_ERROR "DISTLOCK_GRPC=hardened and DISTLOCK_SANITIZE do not go together: the sanitizer needs the "
                      "shared libraries")
endif()

# The archive's name follows from them.
file(GLOB parts ${CMAKE_SOURCE_DIR}/deploy/grpc/*)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${parts})
execute_process(COMMAND ${CMAKE_SOURCE_DIR}/deploy/grpc/hardened.sh where
                OUTPUT_VARIABLE patched_grpc OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
if(NOT EXISTS ${patched_grpc})
  message(FATAL_ERROR "DISTLOCK_GRPC=hardened needs ${patched_grpc}: run deploy/install-deps.sh, or configure with "
                      "-DDISTLOCK_GRPC=system")
endif()
# With Abseil's forty shared libraries a program starts later, and is gone later after its end: the locks of one that
# was killed are free once the system has taken all of it apart.
get_property(imported DIRECTORY PROPERTY IMPORTED_TARGETS)
list(FILTER imported INCLUDE REGEX "^absl::")
foreach(target gRPC::grpc++_reflection gRPC::grpc++ gRPC::grpc gRPC::gpr gRPC::address_sorting gRPC::upb ${imported})
  get_target_property(kind ${target} TYPE)
  if(kind STREQUAL "INTERFACE_LIBRARY")
    continue()
  endif()
  get_target_property(configuration ${target} IMPORTED_CONFIGURATIONS)
  get_target_property(shared ${target} IMPORTED_LOCATION_${configuration})
  string(REGEX REPLACE "\\.so[.0-9]*$" ".a" archive ${shared})
  if(NOT EXISTS ${archive})
    message(FATAL_ERROR "DISTLOCK_GRPC=hardened needs the archive ${archive} of ${target}")
  endif()
  set_target_properties(${target} PROPERTIES IMPORTED_LOCATION_${configuration} ${archive}
                                             IMPORTED_SONAME_${configuration} "")
endforeach()
# Options come before all libraries; whole, or the linker would take the same objects out of Debian's archive.
set_property(TARGET gRPC::grpc APPEND PROPERTY INTERFACE_LINK_OPTIONS
             "LINKER:--push-state,--whole-archive,${patched_grpc},--pop-state")
