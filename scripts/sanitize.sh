#!/bin/sh
# Runs the emulator's tests with its runtime under AddressSanitizer and UndefinedBehaviorSanitizer: `make sanitize`.
# Arguments go to pytest instead of the list of tests. Takes about ten minutes.
set -eu
cd "$(dirname "$0")/.."

tests="tests/test_emulator*.py tests/test_verify_emulator.py tests/conformance tests/test_bug_shelf.py tests/test_soak.py"
[ $# -gt 0 ] || set -- $tests

# Python itself is not instrumented, so the sanitizer's library must be there before it starts: g++ has it as one.
export CXX=g++
library=$(g++ -print-file-name=libasan.so) || exit 1
[ "$library" != libasan.so ] || { echo "g++ has no AddressSanitizer: install libasan (a part of g++ on Debian)." >&2; exit 1; }

export HOPPER_SANITIZE=address,undefined
export HOPPER_CACHE="$PWD/build/sanitize"   # libraries of its own, beside those of every day
export MPLBACKEND=Agg
# Faults of kernels are the emulator's to handle. Python frees little of its memory at the end.
# pytest would keep for itself what a sanitizer writes before it ends the process: it goes to a file.
mkdir -p "$HOPPER_CACHE"
rm -f "$HOPPER_CACHE"/report.*
export ASAN_OPTIONS="handle_segv=0:handle_sigbus=0:handle_sigfpe=0:handle_sigill=0:handle_abort=0:detect_leaks=0"
# Quoted once more for the sanitizers: a space or a colon in the path would end their option.
ASAN_OPTIONS="$ASAN_OPTIONS:log_path=\"$HOPPER_CACHE/report\""
export UBSAN_OPTIONS="print_stacktrace=1:log_path=\"$HOPPER_CACHE/report\""
# Sanitized code is slow, wants much address space, and needs the library of its own compiler: left out are tests that
# measure seconds, limit the address space, or take clang beside g++.
left_out="in_time or in_good_time or target_of_a_quarter or address_space or clang"
LD_PRELOAD=$library .venv/bin/python -m pytest -q -k "not ($left_out)" "$@" || failed=1
for report in "$HOPPER_CACHE"/report.*; do   # a mere warning: that a fiber's stack is none of an OS thread's
    if grep -qs "ERROR: \|runtime error: " "$report"; then
        cat "$report" >&2
        failed=1
    fi
done
exit ${failed:-0}
