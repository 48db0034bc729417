#!/bin/sh
# Makes .venv with everything the project needs; does nothing when it is already right.
#
#   sh scripts/setup.sh [PYTHON]
#
# PYTHON is the interpreter to use; without it the first of python3, python3.13, python3.12 and
# python3.11 that is a Python 3.11, 3.12 or 3.13. When `nvidia-smi` answers, cuBLAS comes too
# (421 MB), as the yardstick of live measurements.
set -eu
cd "$(dirname "$0")/.."

say() { printf '%s\n' "$*" >&2; }
fail() { say "setup: $*"; exit 1; }
version() { "$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null; }
supported() { case "$(version "$1")" in 3.11 | 3.12 | 3.13) ;; *) return 1 ;; esac; }

# A virtual environment of another place (a moved folder) or of a removed Python is made anew.
wanted=${1:-}
if [ -n "$wanted" ]; then
    command -v "$wanted" >/dev/null 2>&1 || fail "PYTHON=$wanted is not a program on this machine: give a Python 3.11, 3.12 or 3.13."
    supported "$wanted" || fail "PYTHON=$wanted is Python $(version "$wanted" || echo '(version unknown)'), and 3.11, 3.12 or 3.13 is needed: give one of those."
fi

gpu=no
if command -v nvidia-smi >/dev/null 2>&1 && nvidia-smi -L >/dev/null 2>&1; then gpu=yes; fi

stamp=.venv/hopper-setup
# What the environment was made from: any change to it makes the next line differ.
state() {
    printf '%s|python %s|gpu %s|%s\n' "$PWD" "$(version .venv/bin/python)" "$gpu" \
        "$(cat requirements.lock requirements-gpu.lock pyproject.toml scripts/setup.sh | cksum)"
}
if [ -x .venv/bin/python ] && supported .venv/bin/python; then
    if [ -z "$wanted" ] || [ "$(version "$wanted")" = "$(version .venv/bin/python)" ]; then
        [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$(state)" ] && exit 0
    fi
fi

python=$wanted
if [ -z "$python" ]; then
    for candidate in python3 python3.13 python3.12 python3.11; do
        if supported "$candidate"; then python=$candidate; break; fi
    done
    [ -n "$python" ] || fail "Python 3.11, 3.12 or 3.13 is needed and none was found: install one, or name it with 'make PYTHON=/path/to/python3'."
fi
"$python" -c 'import ensurepip, venv' 2>/dev/null ||
    fail "Python $(version "$python") here lacks the venv module: install it (Debian and Ubuntu: 'apt-get install python3-venv'), then run this again."

rm -f "$stamp"
place() { [ -f .venv/hopper-place ] && cat .venv/hopper-place; }
if ! [ -x .venv/bin/python ] || [ "$(version .venv/bin/python || echo none)" != "$(version "$python")" ] || [ "$(place)" != "$PWD" ]; then
    say "setup: making .venv with Python $(version "$python")"
    "$python" -m venv --clear .venv || fail "the virtual environment .venv could not be made: see the lines above."
    printf '%s\n' "$PWD" > .venv/hopper-place
fi

unset PIP_USER PIP_TARGET PIP_PREFIX PYTHONPATH PYTHONHOME 2>/dev/null || true
pip() { .venv/bin/python -m pip --quiet --disable-pip-version-check "$@"; }
say "setup: installing the packages of requirements.lock (about 850 MB on disk, once)"
pip install -r requirements.lock || fail "a package could not be installed: see the lines above; the machine must reach its Python package index for the first set-up."
pip install --no-deps --editable . || fail "the project itself could not be installed: see the lines above."
if [ "$gpu" = yes ]; then
    say "setup: a GPU answers, so cuBLAS comes too (421 MB to download, once)"
    # Without cuBLAS everything still runs; measurements then lack the yardstick, and say so.
    pip install -r requirements-gpu.lock || say "setup: cuBLAS could not be installed; live measurements will have no cuBLAS beside them."
fi
state > "$stamp"
say "setup: done"
