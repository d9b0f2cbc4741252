#!/bin/sh
# demo.sh MUTATOR DIRECTORY merges the sample products in this process and on Spark, compares both outputs, and shows
# three records before and after.
set -eu
mutator=$1
build=$2
sample=sample_data/product

run() {  # RUNNER: prints the command and the report
    set -- "$mutator" run --runner "$1" --config "$sample/bumu.properties" \
        --master "$sample/master" --feed "$sample/feed" --output "$build/$1"
    printf '\n$ %s\n' "$*"
    "$@"
}

rm -rf "$build"  # a run never overwrites an output
mkdir -p "$build"
run local
run spark | sed '/^feed rows/,/^$/d'  # the counts of the first report again
printf '\n$ %s verify %s\n' "$mutator" "$build/local"
"$mutator" verify "$build/local"

for file in "$build"/local/part-*; do
    name=${file##*/}
    number=${name#part-}
    cmp "$file" "$build/spark/part-${number%%-*}"-*  # the rest of a name is the ID of the run
done
[ "$(ls "$build/local" | wc -l)" -eq "$(ls "$build/spark" | wc -l)" ]
printf '\nThe outputs of both runs are equal, byte for byte.\n'

first_new() {  # the first upsert whose ID is neither in the master nor in a delete
    awk -F, 'FILENAME != ARGV[3] { seen[$1]; next } !($1 in seen) { print $1; exit }' \
        "$sample/master/base_prod.txt" "$sample/feed/del_prod.txt" "$sample/feed/ups_prod.txt"
}

show() {  # WHAT ID
    printf '\n%s\n' "$1"
    for stage in "master:$sample/master/base_prod.txt" "upsert:$sample/feed/ups_prod.txt" \
        "delete:$sample/feed/del_prod.txt" "result:$build/local/part-*"; do
        # shellcheck disable=SC2086  # the path of the result is a pattern
        row=$(cat ${stage#*:} | grep "^$2," || true)
        printf '  %-7s  %s\n' "${stage%%:*}" "${row:--}"
    done
}

printf '\nThree records, before and after:\n'
show "updated: the inventory, the fifth field, goes from 88 to 82" VR8NCNE7DV
show "inserted" "$(first_new)"
show "deleted" "$(head -n 1 "$sample/feed/del_prod.txt" | cut -d, -f1)"
