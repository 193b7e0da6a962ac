#!/usr/bin/env python3
"""trifold prep beside the `tokenizers` package: text a second on the same text and cores.

    python3 -m venv build/tokenizers-venv && build/tokenizers-venv/bin/pip install tokenizers
    build/tokenizers-venv/bin/python bench/bench_tokenizer.py [--workers 1,2] [--rounds 5] [FILE...]

Without files the text is that of the King James Bible (package bible-kjv), a line a document, and of
the dictionary GCIDE (package dict-gcide) where it is installed, a paragraph a document. The package
is given the documents in memory, and its encode_batch() alone is timed; trifold is timed as a whole
program, from reading the tokenizer and the text to the finished set on disk. The two take turns; a
ratio is the median over the rounds. All ids are compared first.
"""
import argparse
import array
import gzip
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
GOLDEN = os.path.join(ROOT, "tests/golden/tokenizer")
GCIDE = "/usr/share/dictd/gcide.dict.dz"
# The pool of threads of the package takes its size when it starts, so each count is a process.
CHILD = "--peer"


def parse_args():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("files", nargs="*", help="text, a paragraph a document")
    parser.add_argument("--trifold", default=os.path.join(ROOT, "build/release/trifold"))
    parser.add_argument("--tokenizers", default="tokenizer.json,gpt4.json",
                        help="files of tests/golden/tokenizer, or paths")
    parser.add_argument("--workers", default="1,2")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", help="also write every measurement to this file")
    return parser.parse_args()


def texts(files):
    """(name, how to split, bytes) of each text."""
    for path in files:
        with open(path, "rb") as file:
            yield os.path.basename(path), "paragraphs", file.read()
    if files:
        return
    bible = subprocess.run(["bible", "-f", "Gen1:1-Rev22:21"], stdout=subprocess.PIPE, check=True)
    yield "kjv", "lines", bible.stdout
    if os.path.exists(GCIDE):
        with gzip.open(GCIDE) as file:
            yield "gcide", "paragraphs", file.read()


def documents_of(text, split):
    if split == "lines":
        return [line for line in text.split("\n") if line]
    return [p.strip("\n") for p in re.split(r"\n(?:[ \t\r]*\n)+", text) if p.strip("\n")]


def peer(path, tokenizer, split):
    """The package in a process of its own: answers each line on standard input with a time."""
    from tokenizers import Tokenizer
    tok = Tokenizer.from_file(tokenizer)
    tok.encode_special_tokens = True
    with open(path, encoding="utf-8", newline="") as file:
        documents = documents_of(file.read(), split)
    for command in sys.stdin:
        begin = time.perf_counter()
        encodings = tok.encode_batch(documents)
        seconds = time.perf_counter() - begin
        if command.strip() == "ids":
            with open(path + ".ids", "wb") as out:
                for encoding in encodings:
                    array.array("i", encoding.ids).tofile(out)
        print(seconds, flush=True)
        del encodings


class Peer:
    def __init__(self, path, tokenizer, split, workers):
        environment = dict(os.environ, RAYON_NUM_THREADS=str(workers), TOKENIZERS_PARALLELISM="true")
        self.process = subprocess.Popen([sys.executable, __file__, CHILD, path, tokenizer, split],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env=environment)

    def run(self, command="time"):
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def run_trifold(args, path, tokenizer, split, workers):
    begin = time.perf_counter()
    subprocess.run([args.trifold, "prep", "--input", path, "--format", "text", "--output", path,
                    "--tokenizer", "HFTokenizer", "--vocab", tokenizer, "--split", split,
                    "--workers", str(workers)], check=True, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL)
    return time.perf_counter() - begin


def check_ids(path):
    ours, theirs = array.array("H"), array.array("i")
    for ids, name in ((ours, ".bin"), (theirs, ".ids")):
        with open(path + name, "rb") as file:
            ids.frombytes(file.read())
    if list(ours) != list(theirs):
        sys.exit(f"the ids differ: {len(ours)} of trifold, {len(theirs)} of the package")
    return len(ours)


def measure(args, name, path, tokenizer, split, workers):
    size = os.path.getsize(path) / 1e6
    package = Peer(path, tokenizer, split, workers)
    package.run("ids")
    run_trifold(args, path, tokenizer, split, workers)
    tokens = check_ids(path)
    pairs = [(package.run(), run_trifold(args, path, tokenizer, split, workers))
             for _ in range(args.rounds)]
    package.close()
    ratios = sorted(a / b for a, b in pairs)
    row = {"text": name, "tokenizer": os.path.basename(tokenizer), "workers": workers,
           "tokens": tokens, "package_mb_s": size / statistics.median(a for a, _ in pairs),
           "trifold_mb_s": size / statistics.median(b for _, b in pairs),
           "ratio": statistics.median(ratios), "ratio_min": ratios[0], "ratio_max": ratios[-1]}
    print(f"| {name} | {row['tokenizer']} | {workers} | {row['package_mb_s']:.1f} | "
          f"{row['trifold_mb_s']:.1f} | {row['ratio']:.1f} | {ratios[0]:.1f} to {ratios[-1]:.1f} |",
          flush=True)
    return row


def main():
    args = parse_args()
    rows = []
    print("| text | tokenizer | workers | tokenizers MB/s | trifold MB/s | ratio | range |\n"
          "|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for name, split, data in texts(args.files):
            path = os.path.join(folder, name)
            # The package takes characters only, so what is not UTF-8 is replaced for both.
            with open(path, "w", encoding="utf-8", newline="") as file:
                file.write(data.decode("utf-8", "replace"))
            for tokenizer in args.tokenizers.split(","):
                if not os.path.exists(tokenizer):
                    tokenizer = os.path.join(GOLDEN, tokenizer)
                for workers in args.workers.split(","):
                    rows.append(measure(args, name, path, tokenizer, split, int(workers)))
    if args.json:
        with open(args.json, "w") as file:
            json.dump(rows, file, indent=1)


if __name__ == "__main__":
    if len(sys.argv) > 1 and sys.argv[1] == CHILD:
        peer(*sys.argv[2:])
    else:
        main()
