#!/bin/sh
# venv.sh DIRECTORY PYTHON REQUIREMENT... creates a fresh virtual environment and installs the requirements in it.
set -eu
here=$(dirname "$0")
directory=$1
python=$2
shift 2

if ! command -v "$python" >/dev/null; then
    echo "$python was not found. Install Python 3.11 or newer, or select one: make PYTHON=/path/to/python3.11" >&2
    exit 1
fi
version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
    echo "$python is Python $version, and mutator needs 3.11 or newer." >&2
    echo "Install a newer one and select it: make PYTHON=/path/to/python3.11" >&2
    exit 1
fi

# Debian and Ubuntu ship Python without the packages that `python -m venv` needs.
if ! "$python" -c 'import ensurepip' 2>/dev/null; then
    "$here/apt.sh" "The venv module of Python $version" "python$version-venv" python3-venv
fi

"$python" -m venv --clear "$directory"
"$directory/bin/python" -m pip install --disable-pip-version-check --quiet "$@"
