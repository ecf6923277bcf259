#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# sbom.sh VERSION PACKAGE... -- FILE...
# Prints an SPDX 2.3 document of an image of distlock VERSION: its Debian packages, and its files that come from none.
# SOURCE_DATE_EPOCH dates it, so that equal contents have equal documents.
set -euo pipefail
version=$1
shift
created=$(date -u -d "@${SOURCE_DATE_EPOCH:-$(date +%s)}" +%Y-%m-%dT%H:%M:%SZ)

entries=() relations=()
# All values are names, versions and sentences without quotes and backslashes.
add() { # NAME VERSION SUPPLIER COMMENT [PURL]
  local id references=''
  id=SPDXRef-$(printf '%s' "$1" | tr -c 'A-Za-z0-9.' -)
  if [ -n "${5-}" ]; then
    references=",\"externalRefs\":[{\"referenceCategory\":\"PACKAGE-MANAGER\",\"referenceType\":\"purl\","
    references+="\"referenceLocator\":\"$5\"}]"
  fi
  entries+=("{\"SPDXID\":\"$id\",\"name\":\"$1\",\"versionInfo\":\"$2\",\"supplier\":\"$3\",\"comment\":\"$4\",
$unsaid$references}")
  [ "$1" = distlock ] || relations+=("$(relation SPDXRef-distlock CONTAINS "$id")")
}
relation() { printf '{"spdxElementId":"%s","relationshipType":"%s","relatedSpdxElement":"%s"}' "$@"; }
readonly unsaid='"downloadLocation":"NOASSERTION","filesAnalyzed":false,"licenseConcluded":"NOASSERTION",
"licenseDeclared":"NOASSERTION","copyrightText":"NOASSERTION"'
joined() { local IFS=,; printf '%s' "$*"; }

add distlock "$version" 'Organization: distlock' 'the image'
while [ "${1---}" != -- ]; do
  read -r name found source architecture < <(dpkg-query -W \
    -f '${Package} ${Version} ${source:Package}=${source:Version} ${Architecture}\n' "$1")
  add "$name" "$found" 'Organization: Debian' "source package $source" \
    "pkg:deb/debian/$name@${found//+/%2B}?arch=$architecture"
  shift
done
shift
for file in "$@"; do
  case "$file" in
    distlock*) add "$file" "$version" 'Organization: distlock' 'built from the sources of distlock' ;;
    libhiredis*) add "$file" "$(pkg-config --modversion hiredis)" 'Organization: Debian' \
      "built from Debian's source package hiredis" ;;
    *) add "$file" NOASSERTION NOASSERTION 'of no package' ;;
  esac
done

cat <<JSON
{"spdxVersion":"SPDX-2.3","dataLicense":"CC0-1.0","SPDXID":"SPDXRef-DOCUMENT","name":"distlock-$version",
"documentNamespace":"https://distlock.dev/spdx/distlock-$version-$(joined "${entries[@]}" | sha256sum | cut -c1-32)",
"creationInfo":{"created":"$created","creators":["Tool: distlock deploy/image/sbom.sh"]},
"packages":[$(joined "${entries[@]}")],
"relationships":[$(relation SPDXRef-DOCUMENT DESCRIBES SPDXRef-distlock),$(joined "${relations[@]}")]}
JSON
