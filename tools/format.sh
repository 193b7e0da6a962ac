#!/bin/sh
# Formats the C and CUDA sources with clang-format 14, or with --check names those that differ.
set -eu

cd "$(dirname "$0")/.."
mode=-i
case "${1-}" in
"") ;;
--check) mode="--dry-run -Werror" ;;
*)
    echo "format: unknown option \"$1\"; --check or nothing" >&2
    exit 2
    ;;
esac

for tool in clang-format-14 clang-format ""; do
    if [ -z "$tool" ]; then
        echo "format: no clang-format 14 (Debian 12: clang-format-14): not checked"
        exit 0
    fi
    $tool --version 2>/dev/null | grep -q 'version 14\.' && break
done

# Other versions of the tool format otherwise, so the version is part of the style.
find src tools tests bench \( -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' \) -print0 |
    xargs -0 -r $tool $mode
[ "$mode" = -i ] || echo "format: all sources are formatted"
