#!/bin/sh
# Builds Trifold twice, with the sanitizers and optimised, and runs every test on both.
# The last line tells how many passed and failed.
set -eu

cd "$(dirname "$0")"
log=build/check.log

say() {
    echo "check: $*"
}

tools/install_deps.sh
say "format"
tools/format.sh --check
mkdir -p build
: >$log
failed_presets=
for preset in dev release; do
    say "$preset: configure and build"
    cmake --preset $preset >build/configure-$preset.log 2>&1 || {
        cat build/configure-$preset.log
        exit 1
    }
    cmake --build --preset $preset
    say "$preset: tests"
    # A pipe would hide the status of ctest.
    { ctest --preset $preset --no-tests=error -j 2 </dev/null && echo "ctest: ok" ||
        echo "ctest: failed"; } 2>&1 | tee -a $log
    tail -n 1 $log | grep -q '^ctest: ok$' || failed_presets="$failed_presets $preset"
done

# "N% tests passed, N tests failed out of N", once a preset.
summary=$(sed -n 's/.*tests passed, \([0-9]*\) tests\{0,1\} failed out of \([0-9]*\).*/\1 \2/p' $log |
    awk '{ failed += $1; all += $2 } END { printf "%d passed, %d failed", all - failed, failed }')
[ -z "$failed_presets" ] || say "failed in:$failed_presets"
echo "$summary"
[ -z "$failed_presets" ]
