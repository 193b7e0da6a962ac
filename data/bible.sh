#!/bin/sh
# Writes the King James Bible (Debian package bible-kjv) to data/bible.jsonl: one chapter a document,
# one verse a line. 1189 documents, 4.1 MB.
set -eu

cd "$(dirname "$0")"
PATH=$PATH:/usr/games:/usr/bin
if ! command -v bible >/dev/null; then
    echo "bible: no command \"bible\"; install the package bible-kjv" >&2
    exit 1
fi

# Lines come as "Ge1:1 In the beginning ...".
bible -f Gen1:1-Rev22:21 </dev/null | awk '
    {
        split($1, reference, ":")
        text = substr($0, length($1) + 2)
        gsub(/\\/, "\\\\", text)
        gsub(/"/, "\\\"", text)
        if (reference[1] != chapter) {
            if (chapter != "")
                printf "\"}\n"
            chapter = reference[1]
            printf "{\"text\": \"%s", text
        } else
            printf "\\n%s", text
    }
    END { printf "\"}\n" }' >bible.jsonl.part
mv bible.jsonl.part bible.jsonl
