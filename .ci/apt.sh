#!/bin/sh
# apt.sh WHAT PACKAGE... installs the first package that this Debian or Ubuntu has, or prints how to install it.
set -eu
what=$1
shift

if ! command -v apt-get >/dev/null; then
    echo "$what is missing. Install it with the system's package manager, then run make again." >&2
    exit 1
fi
if [ "$(id -u)" -ne 0 ]; then
    echo "$what is missing. Install it with" >&2
    echo "    sudo apt-get update && sudo apt-get install --yes --no-install-recommends $1" >&2
    echo "then run make again." >&2
    exit 1
fi

echo "$what is missing; installing it." >&2
apt-get update -qq >&2
for package; do
    # A package that does not exist has no candidate, or no entry at all.
    if LC_ALL=C apt-cache policy "$package" | grep -q 'Candidate: [^(]'; then
        DEBIAN_FRONTEND=noninteractive apt-get install -qq --yes --no-install-recommends "$package" >&2
        exit 0
    fi
done
echo "$what: this system has none of these packages: $*" >&2
exit 1
