#!/bin/sh
# demo.sh MUTATOR DIRECTORY merges the sample products with the main job and shows three records before and after.
set -eu
mutator=$1
build=$2
sample=sample_data/product
output=$build/product

run() {
    printf '\n$ %s\n' "$*"
    "$@"
}

rm -rf "$build"  # a run never overwrites an output
mkdir -p "$build"
run "$mutator" run --config "$sample/bumu.properties" \
    --master "$sample/master" --feed "$sample/feed" --output "$output"
run "$mutator" verify "$output"

first_new() {  # the first upsert whose ID is neither in the master nor in a delete
    awk -F, 'FILENAME != ARGV[3] { seen[$1]; next } !($1 in seen) { print $1; exit }' \
        "$sample/master/base_prod.txt" "$sample/feed/del_prod.txt" "$sample/feed/ups_prod.txt"
}

show() {  # WHAT ID
    printf '\n%s\n' "$1"
    for stage in "master:$sample/master/base_prod.txt" "upsert:$sample/feed/ups_prod.txt" \
        "delete:$sample/feed/del_prod.txt" "result:$output/part-*"; do
        # shellcheck disable=SC2086  # the path of the result is a pattern
        row=$(cat ${stage#*:} | grep "^$2," || true)
        printf '  %-7s  %s\n' "${stage%%:*}" "${row:--}"
    done
}

printf '\nThree records, before and after:\n'
show "updated: the inventory, the fifth field, goes from 88 to 82" VR8NCNE7DV
show "inserted" "$(first_new)"
show "deleted" "$(head -n 1 "$sample/feed/del_prod.txt" | cut -d, -f1)"
