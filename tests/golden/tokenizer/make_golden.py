#!/usr/bin/env python3
"""Writes the tokenizers NAME.json and the cases NAME.jsonl of this folder, but for those of
tokenizer.json, with the `tokenizers` package (0.23 here); bible-kjv gives the text. The cases
vocab.jsonl are of vocab.json and merges.txt.

usage: make_golden.py FOLDER

A line of NAME.jsonl is {"text", "ids", "special"}: `special` tells whether the text of a special
token is that token.
"""

import json
import pathlib
import random
import subprocess
import sys

from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers
from tokenizers import decoders, processors, trainers

SEED = 20240607
CASES = 150
ATOMS = """the The God heaven earth beginning ab tion x's 's 't 're 've 'll 'm 'd 'S 'RE ' " 1 23 4567
½ Ⅷ ² é ﬁ Å K 가 각 ᄀ ᅡ ᆨ 日本 語 テ ﾃﾞ 😀 👍🏽 _ - -- . , ! <|endoftext|> <|bos|> <| |> <left> <right>
<both> <word> NORMAL ﬁn İ ı ſ ß Σ ς ǅ ١٢ ३ � नि ა ʼ ª ⓐ ‿ { } [] () // \\ $ % ٪ … “ ” ’ — 𝒜 𐐀
aaaaaaaa lovingkindness CamelCase""".split()
ATOMS += ["a\u0301", "\u0301", "q\u0307\u0323", "q\u0323\u0307", "\x00", "\x1c", "\x7f", "\u00ad"]
ATOMS += ["\u200d", "\u200b", "\u00a0", "\u3000", "\u2028", "\u0085", "\u180e", "\u202f", "\r\n", "\n\n"]
SPACES = [" "] * 12 + ["  ", "   ", "\t", "\n", "", "", ""]
GPT4 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|"
        r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")


def texts(seed):
    draw = random.Random(seed)
    yield from ("", " ", "  ", "\n", "a" * 200, "ab" * 100, " " * 70)
    for _ in range(CASES):
        count = draw.randint(1, draw.choice((3, 8, 25)))
        yield "".join(draw.choice(ATOMS) + draw.choice(SPACES) for _ in range(count))


def train(lines, size, alphabet):
    tok = Tokenizer(models.BPE())
    tok.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(vocab_size=size, special_tokens=["<|endoftext|>"],
                                  initial_alphabet=alphabet, show_progress=False)
    tok.train_from_iterator(lines, trainer)
    model = json.loads(tok.to_str())["model"]
    return model["vocab"], [tuple(m) for m in model["merges"]]


def build(vocab, merges, pre, normalizer=None, added=(), **model):
    tok = Tokenizer(models.BPE(vocab=vocab, merges=merges, **model))
    if normalizer:
        tok.normalizer = normalizer
    tok.pre_tokenizer = pre
    tok.decoder = decoders.ByteLevel()
    tok.add_special_tokens(["<|endoftext|>"])
    for token in added:
        tok.add_tokens([token])
    return tok


def byte_level(prefix=False, words=True):
    return pre_tokenizers.ByteLevel(add_prefix_space=prefix, use_regex=words)


def split(pattern, behavior, invert=False):
    return pre_tokenizers.Sequence([pre_tokenizers.Split(pattern, behavior, invert),
                                    byte_level(words=False)])


def tokenizers(lines):
    vocab, merges = train(lines, 640, pre_tokenizers.ByteLevel.alphabet())
    yield "gpt2", build(vocab, merges, byte_level())
    yield "prefix", build(vocab, merges, byte_level(prefix=True), added=[AddedToken("<word>")])

    tok = build(vocab, merges, split(Regex(GPT4), "isolated"), ignore_merges=True,
                added=[AddedToken("<|bos|>", special=True)])
    bos, eos = (tok.token_to_id(t) for t in ("<|bos|>", "<|endoftext|>"))
    tok.post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=False),
        processors.TemplateProcessing(single="<|bos|> $A <|endoftext|>",
                                      special_tokens=[("<|bos|>", bos), ("<|endoftext|>", eos)])])
    yield "gpt4", tok

    added = [AddedToken("<left>", lstrip=True, normalized=False),
             AddedToken("<right>", rstrip=True, normalized=False),
             AddedToken("<both>", lstrip=True, rstrip=True, special=True),
             AddedToken("<word>", single_word=True), AddedToken("NORMAL"), AddedToken("ﬁn"),
             AddedToken("the", single_word=True), AddedToken("  "), AddedToken("   ", lstrip=True)]
    yield "added", build(vocab, merges, byte_level(), normalizers.NFC(), added)
    yield "added_lower", build(vocab, merges, byte_level(),
                               normalizers.Sequence([normalizers.NFKD(), normalizers.Lowercase()]),
                               added)
    steps = [normalizers.NFKC(), normalizers.Replace(Regex(r"\s{2,}"), " "),
             normalizers.Replace("God", "Lord"), normalizers.Strip(), normalizers.Prepend("_")]
    yield "normal", build(vocab, merges, byte_level(), normalizers.Sequence(steps))
    yield "nfd_digits", build(vocab, merges, pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), byte_level()]), normalizers.NFD())
    yield "digits", build(vocab, merges, pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=False), byte_level(words=False)]))
    yield "removed", build(vocab, merges, split(" ", "removed"))
    yield "previous", build(vocab, merges, split(Regex(r"\w|-"), "merged_with_previous"))
    yield "next", build(vocab, merges, split(Regex(r"\s|\p{Lu}"), "merged_with_next"))
    yield "contiguous", build(vocab, merges, split(Regex(r"[\p{L}\p{M}]"), "contiguous", True))
    yield "empty_match", build(vocab, merges, split(Regex(r"(?=\p{Lu})|x*"), "isolated"))

    vocab, merges = train(lines, 200, [])
    vocab["<unk>"] = len(vocab)
    yield "missing", build(vocab, merges, byte_level())
    yield "unknown", build(vocab, merges, byte_level(), unk_token="<unk>")
    yield "unknown_fused", build(vocab, merges, byte_level(), unk_token="<unk>", fuse_unk=True)


def gpt2_files(folder):
    vocab = json.loads((folder / "vocab.json").read_text())
    merges = [tuple(line.split()) for line in (folder / "merges.txt").read_text().splitlines()[1:]]
    return build(vocab, merges, byte_level())


def write_cases(path, tok, seed):
    with open(path, "w") as out:
        for i, text in enumerate(texts(seed)):
            special = i % 2 == 0
            tok.encode_special_tokens = not special
            ids = tok.encode(text).ids
            case = {"text": text, "ids": ids, "special": special}
            print(json.dumps(case), file=out)


def main():
    folder = pathlib.Path(sys.argv[1])
    write_cases(folder / "vocab.jsonl", gpt2_files(folder), SEED)
    text = subprocess.run(["bible", "-f", "gen1:1-ex40:38"], capture_output=True, text=True,
                          check=True).stdout
    for i, (name, tok) in enumerate(tokenizers(text.splitlines())):
        # Both forms of merges are kept: the lists of the package, and texts.
        data = json.loads(tok.to_str())
        if i % 2:
            data["model"]["merges"] = [" ".join(m) for m in data["model"]["merges"]]
        (folder / f"{name}.json").write_text(
            json.dumps(data, ensure_ascii=False, separators=(",", ":")) + "\n")
        write_cases(folder / f"{name}.jsonl", tok, SEED + i)


if __name__ == "__main__":
    main()
