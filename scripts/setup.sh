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

wanted=${1:-}
if [ -n "$wanted" ]; then
    command -v "$wanted" >/dev/null 2>&1 || fail "PYTHON=$wanted is not a program on this machine: give a Python 3.11, 3.12 or 3.13."
    if [ -z "$(version "$wanted" || true)" ]; then
        said=$("$wanted" -c 1 2>&1 | head -n 1)
        fail "PYTHON=$wanted does not run as Python${said:+ ($said)}, and 3.11, 3.12 or 3.13 is needed: give its full path."
    fi
    supported "$wanted" || fail "PYTHON=$wanted is Python $(version "$wanted"), and 3.11, 3.12 or 3.13 is needed: give one of those."
fi

# What .venv was made of is written into two stamps, one for the packages and one for cuBLAS.
stamp=.venv/hopper-packages
gpu_stamp=.venv/hopper-gpu
packages() { printf '%s\n' "$PWD" "$(version .venv/bin/python)"; cat requirements.lock pyproject.toml scripts/setup.sh | cksum; }
is() { [ -f "$1" ] && [ "$(cat "$1")" = "$2" ]; }

# An environment whose Python is right and that was made in this very place is kept; a moved one would not work.
kept=no
if supported .venv/bin/python && is .venv/hopper-place "$PWD"; then
    if [ -z "$wanted" ] || [ "$(version "$wanted")" = "$(version .venv/bin/python)" ]; then kept=yes; fi
fi
gpu=no
if command -v nvidia-smi >/dev/null 2>&1 && nvidia-smi -L >/dev/null 2>&1; then gpu=yes; fi

unset PIP_USER PIP_TARGET PIP_PREFIX PYTHONPATH PYTHONHOME 2>/dev/null || true
pip() { .venv/bin/python -m pip --quiet --disable-pip-version-check "$@"; }

if [ "$kept" = no ]; then
    python=$wanted
    if [ -z "$python" ]; then
        for candidate in python3 python3.13 python3.12 python3.11; do
            if supported "$candidate"; then python=$candidate; break; fi
        done
        [ -n "$python" ] || fail "Python 3.11, 3.12 or 3.13 is needed and none was found: install one, or name it with 'make PYTHON=/path/to/python3'."
    fi
    "$python" -c 'import ensurepip, venv' 2>/dev/null ||
        fail "Python $(version "$python") here lacks the venv module: install it (Debian and Ubuntu: 'apt-get install python3-venv'), then run this again."
    say "setup: making .venv with Python $(version "$python")"
    "$python" -m venv --clear .venv || fail "the virtual environment .venv could not be made: see the lines above."
    printf '%s\n' "$PWD" > .venv/hopper-place
fi

if ! is "$stamp" "$(packages)"; then
    rm -f "$stamp"
    say "setup: installing the packages of requirements.lock (about 900 MB on disk, once)"
    pip install -r requirements.lock || fail "a package could not be installed: see the lines above; the machine must reach its Python package index for the first set-up."
    pip install --no-deps --editable . || fail "the project itself could not be installed: see the lines above."
    packages > "$stamp"
    say "setup: done"
fi

if [ "$gpu" = yes ] && ! is "$gpu_stamp" "$(cksum < requirements-gpu.lock)"; then
    say "setup: a GPU answers, so cuBLAS comes too (421 MB to download, once)"
    if pip install -r requirements-gpu.lock; then
        cksum < requirements-gpu.lock > "$gpu_stamp"
    else   # everything still runs; measurements then lack the yardstick, and say so
        say "setup: cuBLAS could not be installed; live measurements will have no cuBLAS beside them."
    fi
fi
