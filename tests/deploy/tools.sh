#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# tools.sh helm | compose | python | --warm NAME
#
# Prints the path of a program (helm; compose, the reference reader of compose files) or of a folder with a virtual
# environment. The first time it builds helm and compose from the Go module proxy, which takes minutes, or installs the
# environment from PyPI; all into the user's cache. --warm: prints nothing; succeeds when NAME is there already.
set -euo pipefail
readonly HELM=v3.22.0 COMPOSE=v2.16.2
readonly PYTHON=(kubernetes-validate==1.37.0 spdx-tools==0.8.5)

warm=''
if [ "${1-}" = --warm ]; then
  warm=yes
  shift
fi
cache=${XDG_CACHE_HOME:-$HOME/.cache}/distlock
case "${1-}" in
  helm) made=$cache/helm-$HELM result=$made/helm package=helm.sh/helm/v3/cmd/helm@$HELM ;;
  compose) made=$cache/compose-$COMPOSE result=$made/cmd package=github.com/compose-spec/compose-go/v2/cmd@$COMPOSE ;;
  python) made=$cache/deploy-$(printf '%s ' "${PYTHON[@]}" | sha256sum | cut -c1-12) result=$made ;;
  *) echo 'usage: tools.sh [--warm] helm | compose | python' >&2; exit 64 ;;
esac
if [ -n "$warm" ]; then exec test -e "$made/complete"; fi
mkdir -p "$cache"
exec 9>"$made.mutex"
flock 9 # tests ask for it side by side
if [ ! -e "$made/complete" ]; then
  rm -rf "$made"
  if [ "$1" = python ]; then
    /usr/bin/python3 -m venv "$made" >&2
    "$made/bin/pip" --quiet --disable-pip-version-check install "${PYTHON[@]}" >&2
  else
    CGO_ENABLED=0 GOBIN=$made GOFLAGS=-trimpath go install "$package" >&2
  fi
  : >"$made/complete"
fi
printf '%s\n' "$result"
