#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# tools.sh helm | kustomize | kubeconform | compose | kube-apiserver | python | --warm NAME
#
# Prints the path of a program (helm; kustomize and kubeconform, strict readers of what helm makes; compose, the
# reference reader of compose files; Kubernetes' API server) or of a folder with a virtual environment. The first time
# it builds the programs from the Go module proxy, which takes minutes, for kube-apiserver ten, or installs the
# environment from PyPI; all into the user's cache.
# --warm: prints nothing; succeeds when NAME is there already.
set -euo pipefail
readonly HELM=v3.22.0 KUSTOMIZE=v5.8.1 KUBECONFORM=v0.8.0 COMPOSE=v2.16.2 KUBERNETES=v1.36.3
readonly PYTHON=(kubernetes-validate==1.37.0 spdx-tools==0.8.5)

# build_kubernetes PROGRAM FOLDER: Kubernetes requires its parts as v0.0.0, which are folders of its repository. Each
# part is also a module of its own, v0.36.3 for v1.36.3.
build_kubernetes() {
  local source=k8s.io/kubernetes work described part
  work=$(mktemp -d)
  described=$(cd "$work" && GOFLAGS=-mod=mod go mod download -json "$source@$KUBERNETES" |
    sed -nE 's/^[[:space:]]*"GoMod": "(.*)",$/\1/p')
  {
    printf 'module build\n\n%s\n\nrequire %s %s\n' "$(grep -E '^go ' "$described")" "$source" "$KUBERNETES"
    for part in $(sed -nE 's/^[[:space:]]*(k8s\.io\/[a-z-]+) v0\.0\.0$/\1/p' "$described"); do
      printf 'replace %s => %s %s\n' "$part" "$part" "v0${KUBERNETES#v1}"
    done
  } >"$work/go.mod"
  # Clients ask it for its version, which Kubernetes' own build writes into it.
  part="-X k8s.io/component-base/version"
  (cd "$work" && CGO_ENABLED=0 GOFLAGS='-trimpath -mod=mod' go build -o "$2/$1" \
    -ldflags "-s -w $part.gitVersion=$KUBERNETES $part.gitMajor=1 $part.gitMinor=$(cut -d. -f2 <<<"$KUBERNETES")" \
    "$source/cmd/$1")
  rm -rf "$work"
}

warm=''
if [ "${1-}" = --warm ]; then
  warm=yes
  shift
fi
cache=${XDG_CACHE_HOME:-$HOME/.cache}/distlock
case "${1-}" in
  helm) made=$cache/helm-$HELM result=$made/helm package=helm.sh/helm/v3/cmd/helm@$HELM ;;
  kustomize)
    made=$cache/kustomize-$KUSTOMIZE result=$made/kustomize
    package=sigs.k8s.io/kustomize/kustomize/v5@$KUSTOMIZE
    ;;
  kubeconform)
    made=$cache/kubeconform-$KUBECONFORM result=$made/kubeconform
    package=github.com/yannh/kubeconform/cmd/kubeconform@$KUBECONFORM
    ;;
  compose) made=$cache/compose-$COMPOSE result=$made/cmd package=github.com/compose-spec/compose-go/v2/cmd@$COMPOSE ;;
  kube-apiserver) made=$cache/kube-apiserver-$KUBERNETES result=$made/kube-apiserver ;;
  python) made=$cache/deploy-$(printf '%s ' "${PYTHON[@]}" | sha256sum | cut -c1-12) result=$made ;;
  *) echo 'usage: tools.sh [--warm] helm | kustomize | kubeconform | compose | kube-apiserver | python' >&2; exit 64 ;;
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
  elif [ "$1" = kube-apiserver ]; then
    mkdir -p "$made"
    build_kubernetes "$1" "$made" >&2
  else
    CGO_ENABLED=0 GOBIN=$made GOFLAGS=-trimpath go install "$package" >&2
  fi
  : >"$made/complete"
fi
printf '%s\n' "$result"
