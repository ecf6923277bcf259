#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# The objects of gRPC that DISTLOCK_GRPC=hardened links before Debian's own archives; README.md says why.
#
#   hardened.sh where          the archive for the libgrpc-dev that is installed, whether it is there or not
#   hardened.sh source         the version of Debian's source package that it is built from
#   hardened.sh build FOLDER   builds the archive from that source package, unpacked in FOLDER (which is patched)
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

readonly ROOT=${DISTLOCK_GRPC_ROOT:-/usr/local/lib/distlock-grpc}
readonly TRANSPORT=src/core/ext/transport/chttp2/transport
readonly PATCHED=(flow_control hpack_parser parsing)
# gRPC's own registry without xDS, in place of the one with it: nothing else asks for what only xDS needs.
readonly REGISTRY=src/core/plugin_registry/grpc_plugin_registry_noextra

die() { printf 'deploy/grpc/hardened.sh: %s\n' "$*" >&2; exit 1; }

# Of the package as it was built, which the objects must fit.
version() { dpkg-query -W -f '${Version}' libgrpc-dev 2>/dev/null || die "libgrpc-dev is not installed"; }
source_version() { dpkg-query -W -f '${source:Version}' libgrpc-dev 2>/dev/null || die "libgrpc-dev is not installed"; }

# What is built depends on these files, too.
where() {
  local of
  of=$(cat "$here"/*.patch "$here/frame_budget.h" "$here/hardened.sh" | sha256sum | cut -c1-12)
  printf '%s/%s-%s-%s/libdistlock_grpc_hardened.a\n' "$ROOT" "$(version)" "$(dpkg --print-architecture)" "$of"
}

# As Debian's own build: its flags, and the standard that gRPC's CMake asks for. Another standard changes the layout of
# the parser's static tables, and the broker would crash at its first connection. NDEBUG would do the same.
build() {
  local source=$1 archive flags=() name objects=()
  archive=$(where)
  [ -r "$source/$TRANSPORT/parsing.cc" ] || die "'$source' is not the source of gRPC"
  for name in "${PATCHED[@]}"; do
    patch -d "$source" -p1 --forward --fuzz=0 <"$here/$name.patch" ||
      die "$name.patch does not fit gRPC $(source_version): take over what has changed in that file"
  done
  # In the source's folder, whose name they take out of what the compiler writes.
  read -ra flags <<<"$(cd "$source" && for kind in CPPFLAGS CXXFLAGS; do dpkg-buildflags --get $kind; done | xargs)"
  for name in "${PATCHED[@]/#/$TRANSPORT/}" "$REGISTRY"; do
    "${CXX:-g++}" -std=c++14 "${flags[@]}" -fPIC -I"$here" -I"$source" -I"$source/include" \
      -I"$source/src/core/ext/upb-generated" -I"$source/src/core/ext/upbdefs-generated" -I"$source/third_party/upb" \
      -I"$source/third_party/xxhash" -I"$source/third_party/address_sorting/include" \
      -c "$source/$name.cc" -o "$source/$name.o"
    objects+=("$source/$name.o")
  done
  mkdir -p "$(dirname "$archive")"
  rm -f "$archive.new"
  ar rcsD "$archive.new" "${objects[@]}"
  mv -f "$archive.new" "$archive"
}

case "${1:-}" in
  where) where ;;
  source) source_version ;;
  build) [ $# -eq 2 ] || die "build needs the folder of the source"; build "$2" ;;
  *) sed -n 's/^# \{0,1\}//p' "${BASH_SOURCE[0]}" | sed -n '4,8p' >&2; exit 64 ;;
esac
