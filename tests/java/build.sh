#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Builds the package of client/java, its tests, its conformance driver and a user's project: build.sh FOLDER. Maven
# fetches what it lacks.
# Exit code 77, and FOLDER/skipped says why, where there is no JDK, no Maven, or no way to Maven Central.
set -euo pipefail
readonly FOLDER=$1
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
readonly JUNIT=org.junit.platform:junit-platform-console-standalone:1.14.4
export MAVEN_OPTS='-XX:TieredStopAtLevel=1 -XX:+UseSerialGC'

skip() {
  printf 'the tests of client/java are skipped: %s\n' "$1" | tee "$FOLDER/skipped"
  exit 77
}

# maven ARGS: without the network, when it needs nothing from there and is not told to be `online`.
maven() {
  local log=$FOLDER/maven.log
  [ -n "${online:-}" ] || { mvn --quiet --batch-mode --offline "$@" >"$log" 2>&1 && return; }
  mvn --quiet --batch-mode "$@" >"$log" 2>&1 && return
  cat "$log"
  ! grep -qE 'Could not transfer|UnknownHost|Network is unreachable|Connection (refused|timed out)' "$log" ||
    skip 'Maven Central cannot be reached, and ~/.m2 lacks what they need (deploy/install-deps.sh --all)'
  exit 1
}

mkdir -p "$FOLDER"
rm -f "$FOLDER/skipped"
command -v javac >/dev/null || skip 'there is no JDK: deploy/install-deps.sh --all installs one'
command -v mvn >/dev/null || skip 'there is no Maven: deploy/install-deps.sh --all installs it'
maven -f "$root/client/java/pom.xml" "-Dbuild.folder=$FOLDER/package" package
maven org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy "-Dartifact=$JUNIT" "-DoutputDirectory=$FOLDER/junit"

# As a user who has the package from a repository, which is a folder here. A snapshot, because Maven keeps what else it
# has seen once.
sed '0,/<version>0.1.0</s//<version>0-SNAPSHOT</' "$root/client/java/pom.xml" >"$FOLDER/package.pom"
rm -rf "$FOLDER/repository" "$FOLDER/consumer"
maven org.apache.maven.plugins:maven-deploy-plugin:3.1.4:deploy-file "-Durl=file://$FOLDER/repository" \
  "-Dfile=$(echo "$FOLDER"/package/distlock-*.jar)" "-DpomFile=$FOLDER/package.pom"
online=yes maven -f "$root/tests/java/consumer/pom.xml" -U "-Dfolder=$FOLDER" compile
for name in META-INF/LICENSE META-INF/maven/dev.distlock/distlock/pom.xml dev/distlock/Distlock.class; do
  jar --list --file "$FOLDER"/package/distlock-*.jar | grep -qxF "$name" || { echo "the jar lacks $name"; exit 1; }
done

libraries=$(printf '%s:' "$FOLDER"/package/distlock-*.jar "$FOLDER"/package/lib/*.jar)
readonly libraries
rm -rf "$FOLDER/tests" "$FOLDER/classes" "$FOLDER/driver.jsa"
javac -Xlint:all -Xlint:-processing -Werror -d "$FOLDER/tests" -cp "$libraries$(printf '%s:' "$FOLDER"/junit/*.jar)" \
  "$root"/tests/java/*.java
javac -Xlint:all -Werror -d "$FOLDER/classes" -cp "$libraries" "$root/client/conformance/drivers/java/Driver.java"
# The programs of the README: the first one compiles, the second one is a test.
program() { awk -v wanted="$1" '/^```/ { inside = /^```java$/; seen += inside; next } inside && seen == wanted' \
  "$root/client/java/README.md"; }
mkdir -p "$FOLDER/readme"
{
  printf 'import dev.distlock.*;\nimport java.time.Duration;\nimport java.util.List;\n\nfinal class Readme {\n'
  printf '  static void save(List<String> rows, long token) { }\n\n'
  printf '  static void work(List<String> rows) throws InterruptedException {\n'
  program 1
  printf '  }\n}\n'
} >"$FOLDER/readme/Readme.java"
{
  printf 'import static org.junit.jupiter.api.Assertions.*;\n\nimport dev.distlock.*;\nimport java.time.Duration;\n'
  printf 'import java.util.List;\nimport java.util.concurrent.*;\n\nfinal class ReadmeTest {\n'
  printf '  @org.junit.jupiter.api.Test\n  void testsOfYourProgram() throws Exception {\n'
  program 2
  printf '  }\n}\n'
} >"$FOLDER/readme/ReadmeTest.java"
grep -q 'HeldLock held' "$FOLDER/readme/Readme.java"
grep -q 'new TestBroker' "$FOLDER/readme/ReadmeTest.java"
javac -Xlint:all -Werror -d "$FOLDER/readme" -cp "$libraries" "$FOLDER/readme/Readme.java"
javac -Xlint:all -Xlint:-processing -Werror -d "$FOLDER/tests" -cp "$libraries$(printf '%s:' "$FOLDER"/junit/*.jar)" \
  "$FOLDER/readme/ReadmeTest.java"
jar --create --file "$FOLDER/driver.jar" -C "$FOLDER/classes" .

# An archive of classes halves the start of the JVM, of which the suite needs more than a hundred.
options="-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -cp $FOLDER/driver.jar:$libraries"
# shellcheck disable=SC2086
java -XX:ArchiveClassesAtExit="$FOLDER/driver.jsa" -Xlog:cds=off -Xlog:cds+dynamic=off $options Driver --warm-up \
  >"$FOLDER/warm-up.log" 2>&1 || { cat "$FOLDER/warm-up.log"; exit 1; }
cat >"$FOLDER/driver" <<TEXT
#!/bin/sh
exec java -XX:SharedArchiveFile=$FOLDER/driver.jsa -Xlog:cds=off $options Driver "\$@"
TEXT
cat >"$FOLDER/run_tests" <<TEXT
#!/bin/sh
exec java -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -jar $(printf '%s' "$FOLDER"/junit/*.jar) execute \
  --disable-banner --details=tree --fail-if-no-tests -cp $FOLDER/tests:$libraries --scan-classpath "\$@"
TEXT
chmod +x "$FOLDER/driver" "$FOLDER/run_tests"
