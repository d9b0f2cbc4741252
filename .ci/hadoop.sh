#!/bin/sh
# hadoop.sh PYTHON DIRECTORY fetches the jar with HDFS's servers for the tests; pyspark includes the rest of Hadoop.
set -eu
here=$(dirname "$0")
python=$1
directory=$2

jars=$("$python" -c 'import os, pyspark; print(os.path.join(os.path.dirname(pyspark.__file__), "jars"))')
version=$(basename "$jars"/hadoop-client-api-*.jar .jar)
version=${version#hadoop-client-api-}
jar=hadoop-client-minicluster-$version.jar
[ ! -e "$directory/$jar" ] || exit 0

skip() {  # without the jar only the tests of HDFS are skipped
    echo "$jar cannot be fetched ($1); the tests that need HDFS will be skipped."
    exit 0
}

command -v mvn >/dev/null || "$here/apt.sh" "Maven" maven || skip "Maven is missing"
fresh=$directory/fetch
rm -rf "$fresh"
mkdir -p "$fresh"
trap 'rm -rf "$fresh"' EXIT
# Only the jar, without its dependencies, which pyspark has.
mvn --batch-mode --quiet -Dartifact="org.apache.hadoop:hadoop-client-minicluster:$version" \
    -DoutputDirectory="$fresh" dependency:copy >"$fresh/log" 2>&1 || skip "$(sed -n 's/.*\[ERROR\] //p' "$fresh/log" | head -n 1)"
mv "$fresh/$jar" "$directory/$jar"  # so that the jar is either complete or absent
