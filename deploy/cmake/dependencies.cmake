# SPDX-License-Identifier: Apache-2.0
#
# Finds all external dependencies once. A project that has built one of the client's by itself keeps it. Rooms link,
# beside distlock_flags, which carries the warnings: distlock::proto, distlock::lua; gRPC::grpc++,
# protobuf::libprotobuf, absl::...; PkgConfig::HIREDIS, LIBUV, JEMALLOC, YAMLCPP, CJOSE, JANSSON, MICROHTTPD;
# OpenSSL::SSL, Threads::Threads, CLI11::CLI11, prometheus-cpp::core, nlohmann_json::nlohmann_json; in tests
# GTest::gmock, rapidcheck, benchmark::benchmark, PkgConfig::LUA51.
find_package(Threads REQUIRED)
if(NOT TARGET absl::strings)
  find_package(absl REQUIRED CONFIG)
endif()
if(NOT TARGET protobuf::libprotobuf)
  find_package(Protobuf REQUIRED)
endif()
if(NOT TARGET gRPC::grpc++)
  find_package(gRPC REQUIRED CONFIG)
endif()
if(DISTLOCK_CLIENT_ONLY)
  return()
endif()
include(hardened_grpc)

# Newer versions take credentials of the C core; before, a class of ours adds the port itself (server/rpc/tls.cc).
if(NOT DISTLOCK_SANITIZE STREQUAL thread)
  include(CheckCXXSourceCompiles)
  set(CMAKE_REQUIRED_LIBRARIES gRPC::grpc++)
  check_cxx_source_compiles("
    #include <grpcpp/security/server_credentials.h>
    struct Wrapped : grpc::ServerCredentials {
      Wrapped() : grpc::ServerCredentials(static_cast<grpc_server_credentials*>(nullptr)) {}
    };
    int main() { Wrapped made; }" DISTLOCK_GRPC_WRAPS_CREDENTIALS)
  unset(CMAKE_REQUIRED_LIBRARIES)
endif()

find_package(PkgConfig REQUIRED)
find_package(OpenSSL REQUIRED)
find_package(ZLIB REQUIRED)
find_package(CLI11 REQUIRED CONFIG)
find_package(nlohmann_json REQUIRED CONFIG)
find_package(prometheus-cpp REQUIRED CONFIG)
# Debian's own interpreter: its python3-protobuf makes openapi.json, and its python3-grpcio runs the interop tests.
find_program(Python3_EXECUTABLE python3 PATHS /usr/bin NO_DEFAULT_PATH)
find_package(Python3 REQUIRED COMPONENTS Interpreter)
pkg_check_modules(HIREDIS REQUIRED IMPORTED_TARGET hiredis>=1.1 hiredis_ssl>=1.1)
# From 1.44 on uv_backend_timeout counts queued watchers, on which server/shard relies.
pkg_check_modules(LIBUV REQUIRED IMPORTED_TARGET libuv>=1.44)
pkg_check_modules(YAMLCPP REQUIRED IMPORTED_TARGET yaml-cpp)
pkg_check_modules(MICROHTTPD REQUIRED IMPORTED_TARGET libmicrohttpd>=0.9.75)
pkg_check_modules(CJOSE REQUIRED IMPORTED_TARGET cjose)
pkg_check_modules(JANSSON REQUIRED IMPORTED_TARGET jansson)

# A sanitizer brings an allocator of its own.
if(NOT DISTLOCK_SANITIZE)
  pkg_check_modules(JEMALLOC REQUIRED IMPORTED_TARGET jemalloc)
endif()

if(DISTLOCK_TESTS)
  find_package(GTest REQUIRED CONFIG)
  find_package(benchmark REQUIRED CONFIG)
  find_package(rapidcheck REQUIRED CONFIG)
  pkg_check_modules(LUA51 REQUIRED IMPORTED_TARGET lua5.1)
endif()
