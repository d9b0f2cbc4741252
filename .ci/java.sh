#!/bin/sh
# java.sh [COMMAND...] runs the command with JAVA_HOME set to a Java that Spark can use; without a command it only checks that one exists.
set -eu
here=$(dirname "$0")
oldest=17  # Spark 4 does not start on an older one
newest=${NEWEST_JAVA:-99}  # set by the make target of an older Spark
range="$oldest or newer"
[ "$newest" -eq 99 ] || range="$oldest to $newest"

major() {  # prints the major version of a java binary; 1 for 1.8, 0 if unknown
    number=$("$1" -version 2>&1 | sed -n 's/.* version "\([0-9]*\).*/\1/p' | head -n 1) || true
    echo "${number:-0}"
}

find_java() {  # prints a JAVA_HOME; JAVA_HOME comes first because Spark prefers it to PATH
    for java in "${JAVA_HOME:-/nonexistent}/bin/java" "$(command -v java || true)" /usr/lib/jvm/*/bin/java; do
        [ -x "$java" ] || continue
        number=$(major "$java")
        if [ "$number" -ge "$oldest" ] && [ "$number" -le "$newest" ]; then
            dirname "$(dirname "$(readlink -f "$java")")"
            return
        fi
    done
    return 1
}

if ! found=$(find_java); then
    # Spark is tested with 17 and 21; the default may be older, so its version is checked again
    "$here/apt.sh" "A Java that this Spark can use ($range)" \
        openjdk-17-jre-headless openjdk-21-jre-headless default-jre-headless
    if ! found=$(find_java); then
        echo "The Java that was installed is not $range. Set JAVA_HOME to one that is." >&2
        exit 1
    fi
fi

if [ "$found" != "$(readlink -f "${JAVA_HOME:-$found}")" ]; then
    echo "JAVA_HOME is not a Java that this Spark can use; using $found instead" >&2
fi
export JAVA_HOME="$found"
if [ $# -eq 0 ]; then
    echo "Java $(major "$found/bin/java")"
else
    exec "$@"
fi
