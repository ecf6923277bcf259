#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Installs the Debian packages that distlock needs, on Debian 12 or 13. Idempotent; returns at once when nothing is
# missing. There are exceptions, all fetched and verified through the Debian archive that this machine already uses.
# Three objects for DISTLOCK_GRPC=hardened are built from the source package of the installed gRPC (deploy/grpc). On
# Debian 12 hiredis is too old, so Debian 13's source package is built; and it has no Valkey and an old Go, so the
# tests' ones come from its backports. npm installs the libraries of --peers, and pip the format tools of
# --test and what the Python package is tested beside, from their configured sources. client/java takes its libraries
# from Maven's.
set -euo pipefail

usage() {
  cat <<'TEXT'
usage: deploy/install-deps.sh [--build | --run | --test | --all | --peers]

  --build  packages to build and run distlock (default)
  --run    only packages to run a built distlockd; on Debian 12 copy libhiredis from the build machine
  --test   --build, and packages for what tests/run.sh runs
  --all    --test, and a gigabyte more for tests/run.sh --packaging and --all: a JDK, a browser, clang, image builders
  --peers  --test, and the other lock systems that tests/bench compares distlock with
TEXT
}

readonly HIREDIS_MIN=1.1
readonly GO_MIN=1.23
readonly HIREDIS_SUITE=trixie
readonly POLICY=/usr/sbin/policy-rc.d
readonly POLICY_SAVED=$POLICY.before-distlock
readonly POLICY_MARK='# written by distlock deploy/install-deps.sh, removed when it ends'

readonly COMPILE=(build-essential ca-certificates ccache cmake dpkg-dev lld ninja-build pkg-config
  protobuf-compiler protobuf-compiler-grpc python3 python3-protobuf)
readonly LIBRARIES=(libabsl-dev libcjose-dev libcli11-dev libgrpc++-dev libgrpc-dev libjansson-dev
  libjemalloc-dev libmicrohttpd-dev libncurses-dev libprotobuf-dev libssl-dev libuv1-dev
  libyaml-cpp-dev nlohmann-json3-dev prometheus-cpp-dev zlib1g-dev)
readonly RUN=(ca-certificates redis-server redis-tools)
readonly TEST=(curl fish groff iptables libasio-dev libbenchmark-dev libgmock-dev libgtest-dev liblua5.1-0-dev
  librapidcheck-dev man-db openssl python3-grpcio python3-hpack python3-hyperframe
  python3-pip python3-pytest python3-setuptools python3-venv python3-wheel python3-yaml zsh)
readonly ALL=(buildah chromium clang debootstrap etcd-server libclang-rt-dev lintian llvm prometheus systemd
  systemd-container)
PEERS=$(dirname "${BASH_SOURCE[0]}")/../tests/bench/peers
readonly PEERS
HARDENED=$(dirname "${BASH_SOURCE[0]}")/grpc/hardened.sh
readonly HARDENED

say() { printf 'install-deps: %s\n' "$*"; }
die() { printf 'install-deps: %s\n' "$*" >&2; exit 1; }

want=build
case "${1:---build}" in
  --build | --run | --test | --all | --peers) want=${1:---build}; want=${want#--} ;;
  -h | --help) usage; exit 0 ;;
  *) usage >&2; die "unknown option '$1'" ;;
esac

debian=99 codename=""
if [ -r /etc/os-release ]; then
  # shellcheck source=/dev/null
  . /etc/os-release
  [ "${ID:-}" = debian ] || die "this is ${PRETTY_NAME:-not Debian}; install the packages listed in $0 by hand"
  debian=${VERSION_ID:-99} codename=${VERSION_CODENAME:-}
fi
[ "$debian" -ge 12 ] || die "Debian $debian is too old: distlock needs Debian 12 or newer"

hiredis_ok() { pkg-config --atleast-version="$HIREDIS_MIN" hiredis hiredis_ssl 2>/dev/null; }

# Also one from another source. Whatever it prints, sort -V takes the smaller version first.
go_ok() {
  local version
  version=$(go env GOVERSION 2>/dev/null) || return 1
  [ "$(printf '%s\n' "$GO_MIN" "${version#go}" | sort -V | head -1)" = "$GO_MIN" ]
}

for_tests() { [[ $want = test || $want = all || $want = peers ]]; }

grpc_ok() {
  local archive
  archive=$("$HARDENED" where 2>/dev/null) && [ -e "$archive" ]
}

missing_of() {
  local have
  have=$(dpkg-query -W -f '${db:Status-Status} ${binary:Package} ${Package}\n' "$@" 2>/dev/null |
    sed -n 's/^installed //p' | tr ' ' '\n' || true)
  local p
  for p in "$@"; do grep -qxF "$p" <<<"$have" || printf '%s\n' "$p"; done
}

# The shared libraries behind the -dev packages; their names carry versions that differ between Debian releases.
runtime_libraries() {
  local dev=("${LIBRARIES[@]}")
  [ "$debian" -lt 13 ] || dev+=(libhiredis-dev)
  apt-cache depends --no-recommends --no-suggests "${dev[@]}" 2>/dev/null |
    sed -n 's/^ *Depends: \(lib[^ ]*\)$/\1/p' | grep -v -e '-dev$' | sort -u
}

wanted() {
  printf '%s\n' "${RUN[@]}"
  [ "$debian" -lt 13 ] || printf 'valkey-server\n'
  if [ "$want" = run ]; then
    runtime_libraries
  else
    printf '%s\n' "${COMPILE[@]}" "${LIBRARIES[@]}"
    [ "$debian" -lt 13 ] || printf 'libhiredis-dev\n'
  fi
  if for_tests; then
    printf '%s\n' "${TEST[@]}"
    node_packages
    [ "$debian" -lt 13 ] || go_ok || printf 'golang-go\n'
  fi
  case "$want" in
    all)
      printf '%s\n' "${ALL[@]}"
      java_packages
      ;;
    peers) printf 'etcd-server\n' ;;
  esac
}

# For client/java. A JDK and a Maven from another source do as well.
java_packages() {
  command -v javac >/dev/null || printf 'default-jdk-headless\n'
  command -v mvn >/dev/null || printf 'maven\n'
}

# For the tests of client/node, and for --peers. A Node.js from another source has its own npm, which conflicts with
# Debian's.
node_packages() {
  command -v node >/dev/null || printf 'nodejs\n'
  command -v npm >/dev/null || printf 'npm\n'
}

install_peer_libraries() {
  local lock=$PEERS/package-lock.json as_caller=()
  # The packages may need root, but the files in the checkout must belong to its owner.
  [ -z "${SUDO_USER:-}" ] || as_caller=(sudo -H -u "$SUDO_USER" --)
  if [ ! "$PEERS/node_modules/.package-lock.json" -nt "$lock" ]; then
    say "installing the libraries of $lock"
    "${as_caller[@]}" npm ci --prefix "$PEERS" --ignore-scripts --no-audit --no-fund --loglevel error >&2
  fi
  "${as_caller[@]}" "$PEERS/../../node/build.sh" || say "client/node cannot be built; its rows will say so"
  "${as_caller[@]}" "$PEERS/../../python/tools.sh" >/dev/null ||
    say "redis-py cannot be installed; its rows will say so"
}

# A failure is not fatal: a machine without PyPI can still run the other tests.
install_python_tools() {
  local as_caller=() root
  root=$(dirname "${BASH_SOURCE[0]}")/..
  [ -z "${SUDO_USER:-}" ] || as_caller=(sudo -H -u "$SUDO_USER" --)
  "${as_caller[@]}" "$root/deploy/lint-tools.sh" >/dev/null ||
    say "clang-format and clang-tidy cannot be installed from PyPI; the check of changed files will fail"
  "${as_caller[@]}" "$root/tests/python/tools.sh" >/dev/null ||
    say "gunicorn, celery and redis-py cannot be installed from PyPI; the tests of the Python package will fail"
}

need_apt_lists() { [ -z "$(apt-cache search --names-only '^libgrpc\+\+-dev$' 2>/dev/null)" ]; }

compute_missing() {
  local list
  list=$(wanted | sort -u)
  # Package names have no spaces, so splitting is intended.
  # shellcheck disable=SC2086
  list=$(missing_of $list)
  # shellcheck disable=SC2206
  missing=($list)
}

# Debian 12 takes these from its backports.
backports() {
  for_tests && [ "$debian" -lt 13 ] || return 0
  missing_of valkey-server
  go_ok || printf 'golang-go\n'
}

nothing_to_do() {
  [ "$want" = run ] && need_apt_lists && return 1
  compute_missing
  [ "${#missing[@]}" -eq 0 ] && { [ "$want" = run ] || { hiredis_ok && grpc_ok; }; } && [ -z "$(backports)" ]
}

missing=()
if nothing_to_do; then
  [ "$want" != peers ] || install_peer_libraries
  case "$want" in test | all) install_python_tools ;; esac
  say "everything is installed"
  exit 0
fi

if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || die "packages are missing and this is not root: install sudo or run as root"
  say "packages are missing: going on with sudo"
  exec sudo -- bash "$0" "--$want"
fi

export DEBIAN_FRONTEND=noninteractive
work=$(mktemp -d)
log=$work/log

restore_policy() {
  if [ -e "$POLICY_SAVED" ] || [ -L "$POLICY_SAVED" ]; then
    mv -f "$POLICY_SAVED" "$POLICY"
  elif grep -qxF "$POLICY_MARK" "$POLICY" 2>/dev/null; then
    rm -f "$POLICY"
  fi
}

finish() {
  local code=$?
  restore_policy
  if [ "$code" -ne 0 ] && [ -s "$log" ]; then
    printf 'install-deps: failed; the last lines were:\n' >&2
    tail -n 25 "$log" >&2
  fi
  rm -rf "$work"
  exit "$code"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# Debian starts a daemon when its package is installed, but only the tests may start these.
forbid_service_starts() {
  restore_policy
  if [ -e "$POLICY" ] || [ -L "$POLICY" ]; then mv -f "$POLICY" "$POLICY_SAVED"; fi
  printf '#!/bin/sh\n%s\nexit 101\n' "$POLICY_MARK" >"$POLICY"
  chmod 755 "$POLICY"
}

apt() { apt-get -q -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0 "$@" >>"$log" 2>&1; }
apt_update() { say "refreshing the package lists"; apt update; }
apt_install() { apt install -y --no-install-recommends -o Dpkg::Options::=--force-confold "$@"; }

install_packages() {
  say "installing ${#missing[@]} packages: ${missing[*]}"
  forbid_service_starts
  if ! apt_install "${missing[@]}"; then
    apt_update
    apt_install "${missing[@]}"
  fi
  restore_policy
  disable_services "${missing[@]}"
}

# Nor at the next boot (update-rc.d also handles systemd). A service that was installed before is left alone.
disable_services() {
  local p
  for p in "$@"; do
    case "$p" in
      prometheus | redis-server | valkey-server) update-rc.d "$p" disable >>"$log" 2>&1 ;;
      etcd-server) update-rc.d etcd disable >>"$log" 2>&1 ;;
    esac
  done
}

# One line for each Debian archive from which this machine takes its own release.
archives() {
  apt-get indextargets --format '$(REPO_URI) $(CODENAME) $(COMPONENT)' 'Created-By: Packages' |
    awk -v release="$codename" '$2 == release && $3 == "main" && !seen[$1]++ {print $1}'
}

# All files that apt reads or writes here are in $work: the system's lists and sources are not changed.
apt_source() {
  apt -o Dir::Etc::sourcelist="$work/source.list" -o Dir::Etc::sourceparts=/dev/null \
    -o Dir::State::lists="$work/lists" -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache= \
    -o APT::Sandbox::User=root -o APT::Update::Error-Mode=any "$@"
}

# use_archive URI deb|deb-src SUITE...: sets the archive for apt_source.
use_archive() {
  local uri=$1 kind=$2 suite keyring=/usr/share/keyrings/debian-archive-keyring.gpg options=
  [ ! -r "$keyring" ] || options="[signed-by=$keyring] "
  shift 2
  for suite in "$@"; do printf '%s %s%s %s main\n' "$kind" "$options" "$uri" "$suite"; done >"$work/source.list"
  rm -rf "$work/lists"
  mkdir -p "$work/lists/partial"
  apt_source update
}

# fetch_source PACKAGE SUITE...: into $work/src, from the first archive that has it.
fetch_source() {
  local package=$1 uri
  shift
  for uri in $(archives); do
    rm -rf "$work/src"
    mkdir -p "$work/src"
    if use_archive "$uri" deb-src "$@" && (cd "$work/src" && apt_source source "$package"); then return 0; fi
  done
  return 1
}

fetch_hiredis() { fetch_source hiredis "$HIREDIS_SUITE"; }

unpacked() { find "$work/src" -mindepth 1 -maxdepth 1 -type d; }

# Without them everything can be built but DISTLOCK_GRPC=hardened, which then says so.
build_grpc() {
  local version
  version=$("$HARDENED" source)
  say "building the hardened objects of gRPC from Debian's source package $version"
  [ -n "$(archives)" ] || apt_update
  if ! fetch_source "grpc=$version" "$codename"; then
    say "no source package grpc $version in: $(archives | xargs); DISTLOCK_GRPC=hardened cannot be built"
    return 0
  fi
  "$HARDENED" build "$(unpacked)" >>"$log" 2>&1
}

build_hiredis() {
  say "building hiredis from Debian 13's source package (this release has $(apt-cache policy libhiredis-dev |
    sed -n 's/^ *Candidate: //p'))"
  [ -n "$(archives)" ] || apt_update
  if ! fetch_hiredis; then
    # An archive keyring from before Debian 13's release does not have its keys; Debian 12's update has them.
    say "trying again with the newest archive keys"
    apt_update
    apt_install debian-archive-keyring
    fetch_hiredis || die "no usable hiredis source of Debian 13 ($HIREDIS_SUITE) in: $(archives | xargs);" \
      "check that archive, or install hiredis >= $HIREDIS_MIN with its TLS by hand"
  fi
  local src
  src=$(unpacked)
  {
    cmake -S "$src" -B "$work/build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DENABLE_SSL=ON -DDISABLE_TESTS=ON \
      -DCMAKE_C_FLAGS='-fstack-protector-strong -D_FORTIFY_SOURCE=2' \
      -DCMAKE_INSTALL_PREFIX=/usr/local -DCMAKE_INSTALL_LIBDIR=lib
    cmake --build "$work/build"
    cmake --install "$work/build"
    ldconfig
  } >>"$log" 2>&1
}

install_backport() {
  local package=$1 uri done=
  say "installing $package from $codename-backports"
  [ -n "$(archives)" ] || apt_update
  forbid_service_starts
  for uri in $(archives); do
    if use_archive "$uri" deb "$codename" "$codename-backports" &&
      apt_source install -y --no-install-recommends -o Dpkg::Options::=--force-confold \
        -t "$codename-backports" "$package"; then
      done=yes
      break
    fi
  done
  restore_policy
  if [ -n "$done" ]; then
    disable_services "$package"
  elif [ "$package" = valkey-server ]; then
    say "no valkey-server in the backports of: $(archives | xargs); the tests will run on redis-server alone"
  else
    die "no usable $package in the backports of: $(archives | xargs); install Go >= $GO_MIN by hand"
  fi
}

if need_apt_lists; then apt_update; fi
compute_missing
[ "${#missing[@]}" -eq 0 ] || install_packages
if [ "$want" != run ] && ! hiredis_ok; then
  build_hiredis
  hiredis_ok || die "hiredis was built, yet pkg-config finds $(pkg-config --modversion hiredis 2>&1 | head -1)"
fi
if [ "$want" != run ] && ! grpc_ok; then build_grpc; fi
for package in $(backports); do install_backport "$package"; done
if [ "$want" = peers ]; then install_peer_libraries; fi
case "$want" in test | all) install_python_tools ;; esac
say "done$([ "$want" = run ] || printf ' (hiredis %s)' "$(pkg-config --modversion hiredis)")"
