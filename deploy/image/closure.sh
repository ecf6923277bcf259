#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# closure.sh ROOT VERSION PROGRAM...
#
# Makes ROOT the file system of an image in which the programs run, and nothing else is: the programs themselves (those
# of no package in /usr/local/bin), the libraries that they need, certificates, and a user. Of each Debian package that
# a file comes from, ROOT has the entry of dpkg, for scanners, and the copyright; /usr/share/sbom/distlock.spdx.json
# lists all of them (SPDX 2.3).
set -euo pipefail

die() { printf 'closure.sh: %s\n' "$*" >&2; exit 1; }
[ $# -ge 3 ] || { echo 'usage: closure.sh ROOT VERSION PROGRAM...' >&2; exit 64; }
root=$1 version=$2
shift 2
here=$(dirname "${BASH_SOURCE[0]}")
libraries=/usr/lib/$(dpkg-architecture -qDEB_HOST_MULTIARCH)
declare -A packages=() others=()

# The name by which dpkg knows a file, which may be the one before /lib became a part of /usr.
package_of() {
  local path
  path=$(readlink -f "$1")
  { dpkg -S "$path" "${path#/usr}" 2>/dev/null || true; } | sed -n '1s/: .*//p' | cut -d: -f1
}

declare -A noted=()
note() {
  local package
  if [ -n "${noted[$1]-}" ]; then return; fi
  noted[$1]=yes
  package=$(package_of "$1")
  if [ -n "$package" ]; then packages[$package]=yes; else others[$(basename "$1")]=yes; fi
}

add_libraries() {
  local soname arrow path
  while read -r soname arrow path _; do
    [ "$path" != not ] || die "$1 needs $soname, which is not there"
    if [ "$arrow" = '=>' ]; then
      [ -e "$root$libraries/$soname" ] || install -D -m 0644 "$path" "$root$libraries/$soname"
      note "$path"
    elif [[ $soname == /* ]]; then # the loader, whose path is in each program
      [ -e "$root$soname" ] || install -D -m 0755 "$soname" "$root$soname"
      note "$soname"
    fi
  done < <(ldd "$1")
}

mkdir -p "$root"/usr/{bin,lib,lib64} "$root"/etc/ssl/certs "$root"/var/lib/dpkg/status.d "$root"/usr/share/sbom
for folder in bin lib lib64; do ln -sfn "usr/$folder" "$root/$folder"; done
for program in "$@"; do
  to=$program
  if [ -z "$(package_of "$program")" ]; then to=/usr/local/bin/$(basename "$program"); fi
  install -D -m 0755 "$program" "$root$to"
  note "$program"
  add_libraries "$program"
done
install -m 0644 /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
packages[ca-certificates]=yes
printf 'root:x:0:0::/:/nonexistent\ndistlock:x:10001:10001:distlock lock broker:/nonexistent:/nonexistent\n' \
  >"$root/etc/passwd"
printf 'root:x:0:\ndistlock:x:10001:\n' >"$root/etc/group"
printf 'hosts: files dns\n' >"$root/etc/nsswitch.conf"
install -d -m 1777 "$root/tmp"
install -d -m 0755 "$root/run/distlock"
cp /etc/os-release "$root/etc/os-release" # scanners ask it for the release

for package in "${!packages[@]}"; do
  dpkg -s "$package" >"$root/var/lib/dpkg/status.d/$package"
  install -D -m 0644 "/usr/share/doc/$package/copyright" "$root/usr/share/doc/$package/copyright"
done
"$here/sbom.sh" "$version" "${!packages[@]}" -- "${!others[@]}" >"$root/usr/share/sbom/distlock.spdx.json"
