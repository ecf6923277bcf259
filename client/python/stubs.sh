#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Makes the classes of the contract's messages anew. They are kept in the repository, so that building the package needs
# no protoc; tests/python compares them with the contract.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
protoc -I ../../proto --python_out=. --pyi_out=. distlock/v1/lock.proto distlock/v1/lock_service.proto \
  distlock/v1/look.proto
