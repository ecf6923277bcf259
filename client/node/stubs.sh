#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Makes src/generated (or the folder that is given) from proto/. Needs the protoc of Debian 12 and 13, and `npm ci`
# before.
set -euo pipefail
readonly PROTOC='libprotoc 3.21.12'

[ "$(protoc --version)" = "$PROTOC" ] || {
  printf 'client/node/stubs.sh: protoc is %s, and the pinned one is %s\n' "$(protoc --version)" "$PROTOC" >&2
  exit 1
}
cd "$(dirname "${BASH_SOURCE[0]}")"
out=${1:-src/generated}
mkdir -p "$out"
options=(
  annotateFilesWithVersion=false  # the same text with each protoc
  comments=false                  # the contract's comments are in proto/
  fileSuffix=_pb importSuffix=.js
  forceLong=number                # all int64 of the contract are below 2^53
  oneof=unions removeEnumPrefix=true useDate=true
  outputServices=none outputJsonMethods=false outputPartialMethods=false
)
protoc -I ../../proto -I ../../proto/third_party --plugin=protoc-gen-ts_proto=node_modules/.bin/protoc-gen-ts_proto \
  --ts_proto_out="$out" --ts_proto_opt="$(IFS=,; printf '%s' "${options[*]}")" \
  distlock/v1/lock.proto distlock/v1/lock_service.proto distlock/v1/look.proto \
  google/rpc/status.proto google/rpc/error_details.proto
# A number becomes one without a text between: src/channel.ts reads most of them without a bigint, too.
find "$out" -name '*_pb.ts' -exec sed -i 's/Number(int64\.toString())/Number(int64)/' {} +
