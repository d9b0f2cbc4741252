#!/bin/sh
# browser.sh DIRECTORY looks for Chromium and its driver, or installs them as root on Debian or Ubuntu, and fetches axe-core,
# for the tests of HTML pages.
set -eu
here=$(dirname "$0")
directory=$1
axe=4.14.1  # its rules change with its version

skip() {  # without a browser only the tests of pages are skipped
    echo "$1; the tests of HTML pages in a browser will be skipped."
    exit 0
}

command -v chromium >/dev/null || "$here/apt.sh" Chromium chromium || skip "Chromium is missing"
command -v chromedriver >/dev/null || "$here/apt.sh" "Chromium's driver" chromium-driver || skip "Chromium's driver is missing"
[ ! -e "$directory/axe-$axe.min.js" ] || exit 0
command -v npm >/dev/null || "$here/apt.sh" npm npm || skip "npm is missing"
fresh=$directory/fetch
rm -rf "$fresh"
mkdir -p "$fresh"
trap 'rm -rf "$fresh"' EXIT
(cd "$fresh" && npm pack --silent "axe-core@$axe" >log 2>&1 && tar -xzf axe-core-*.tgz package/axe.min.js) ||
    skip "axe-core cannot be fetched"
mv "$fresh/package/axe.min.js" "$directory/axe-$axe.min.js"  # so that the file is either complete or absent
