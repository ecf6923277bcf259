#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Prints a folder with a virtual environment `venv`, which has the newest gRPC that the package is tested with and the
# programs that it is used beside, and `wheels` for environments that a test makes and packages that it builds. The
# first time it installs them from PyPI, into the user's cache.
set -euo pipefail
readonly RUNTIME=(grpcio==1.85.3 protobuf==7.36.2)
readonly BESIDE=(apscheduler==3.11.3 build==1.6.1 celery==5.7.0 django==5.2.19 eventlet==0.41.3 fastapi==0.165.0
  filelock==4.3.1 gevent==26.9.0 gunicorn==27.0.1 portalocker==4.4.2 redis==8.1.0 rq==3.0.0 setuptools==84.2.1
  uvicorn==0.54.0 wheel==0.48.0)

cache=${XDG_CACHE_HOME:-$HOME/.cache}/distlock
tools=$cache/python-$(printf '%s ' "${RUNTIME[@]}" "${BESIDE[@]}" | sha256sum | cut -c1-12)
mkdir -p "$cache"
exec 9>"$tools.mutex"
flock 9 # tests ask for it side by side
if [ ! -e "$tools/complete" ]; then
  rm -rf "$tools"
  /usr/bin/python3 -m venv "$tools/venv" >&2
  pip=("$tools/venv/bin/pip" --quiet --disable-pip-version-check)
  "${pip[@]}" download --dest "$tools/wheels" "${RUNTIME[@]}" setuptools==84.2.1 >&2
  "${pip[@]}" install --find-links "$tools/wheels" "${RUNTIME[@]}" "${BESIDE[@]}" >&2
  : >"$tools/complete"
fi
printf '%s\n' "$tools"
