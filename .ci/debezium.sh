#!/bin/sh
# debezium.sh DIRECTORY looks for PostgreSQL and MariaDB, or installs them as root on Debian or Ubuntu, and fetches the jars of
# Debezium's engine, for the tests that capture changes.
set -eu
here=$(dirname "$0")
directory=$1
version=3.5.0.Final  # the newest that Maven Central has with its connector of MariaDB

fail() {  # nothing is skipped: the tests fail, and say to run this again
    echo "$1; the tests of Debezium will fail."
    exit 0
}

on_path() {  # Debian has the servers where only root looks, or nobody
    PATH="$PATH:/usr/sbin:$(echo /usr/lib/postgresql/*/bin | tr ' ' ':')" command -v "$1" >/dev/null
}

on_path initdb || "$here/apt.sh" PostgreSQL postgresql || fail "PostgreSQL is missing"
on_path mariadbd || "$here/apt.sh" MariaDB mariadb-server-core mariadb-server || fail "MariaDB is missing"
on_path mariadb || "$here/apt.sh" "MariaDB's client" mariadb-client-core mariadb-client || fail "MariaDB's client is missing"
[ ! -e "$directory/debezium-embedded-$version.jar" ] || exit 0

command -v mvn >/dev/null || "$here/apt.sh" Maven maven || fail "Maven is missing"
fresh=$directory.fetch
rm -rf "$fresh"
mkdir -p "$fresh"
trap 'rm -rf "$fresh"' EXIT
dependency() {
    echo "<dependency><groupId>$1</groupId><artifactId>$2</artifactId><version>$3</version></dependency>"
}
cat >"$fresh/pom.xml" <<POM
<project>
<modelVersion>4.0.0</modelVersion><groupId>mutator</groupId><artifactId>debezium</artifactId><version>1</version>
<dependencies>
$(dependency io.debezium debezium-embedded "$version")
$(dependency io.debezium debezium-connector-postgres "$version")
$(dependency io.debezium debezium-connector-mariadb "$version")
$(dependency org.slf4j slf4j-simple 1.7.36)
</dependencies>
</project>
POM
mvn --batch-mode --quiet --file "$fresh/pom.xml" -DoutputDirectory=lib -DincludeScope=runtime \
    dependency:copy-dependencies >"$fresh/log" 2>&1 || fail "$(sed -n 's/.*\[ERROR\] //p' "$fresh/log" | head -n 1)"
rm -rf "$directory"
mv "$fresh/lib" "$directory"  # so that the jars are either complete or absent
