#!/bin/sh
# demo.sh MUTATOR DIRECTORY runs `mutator demo`, merges the same files on Spark, and compares both outputs.
set -eu
mutator=$1
build=$2
sample=$build/sample_data/product

rm -rf "$build"  # a run never overwrites an output
printf '\n$ %s demo %s\n' "$mutator" "$build"
"$mutator" demo "$build" | sed '/^Next:/d'

set -- "$mutator" run --runner spark --config "$sample/bumu.properties" \
    --master "$sample/master" --feed "$sample/feed" --output "$build/spark"
printf '$ %s\n' "$*"
"$@" | sed '/^feed rows/,/^$/d'  # the counts of the first report again
printf '\n$ %s verify %s\n' "$mutator" "$build/merged"
"$mutator" verify "$build/merged"

for file in "$build"/merged/part-*; do
    name=${file##*/}
    number=${name#part-}
    cmp "$file" "$build/spark/part-${number%%-*}"-*  # the rest of a name is the ID of the run
done
[ "$(ls "$build/merged" | wc -l)" -eq "$(ls "$build/spark" | wc -l)" ]
printf '\nThe outputs of both runs are equal, byte for byte.\n'
