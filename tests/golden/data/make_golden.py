#!/usr/bin/env python3
"""Writes the expected values of tests/test_random_state.c, test_sample_order.c and test_blend.c.

Needs NumPy (written with 2.4). The rules are those of GPT-NeoX, as stated in src/data/split.h,
sample_order.h and blend.h, worked out here a second time and with NumPy's own generator. Every
file is a list of cases in plain numbers, separated by blanks; long results are given as a hash.
"""
import math
import os
import random

import numpy as np

FOLDER = os.path.dirname(os.path.abspath(__file__))
SEEDS = [0, 1, 42, 1234, 2**31, 2**32 - 1]


def fnv(values):
    """FNV-1a, taking whole 64-bit numbers in place of bytes."""
    state = 0xCBF29CE484222325
    for value in values:
        state = ((state ^ (int(value) & (2**64 - 1))) * 0x100000001B3) % 2**64
    return state


def write(name, lines):
    with open(os.path.join(FOLDER, name), "w", encoding="ascii") as file:
        for line in lines:
            file.write(" ".join(str(item) for item in line) + "\n")


def shuffles():
    """seed, count, hash of two shuffles of 0..count-1 in a row by one generator"""
    for seed in SEEDS:
        for count in [0, 1, 2, 3, 8, 10, 624, 625, 65537, 200000]:
            rng = np.random.RandomState(seed)
            first, second = np.arange(count, dtype=np.int32), np.arange(count, dtype=np.int64)
            rng.shuffle(first)
            rng.shuffle(second)
            yield seed, count, fnv(list(first) + list(second))


def intervals():
    """seed, max, hash of 1000 numbers in [0, max]"""
    for seed in SEEDS:
        for top in [1, 2, 6, 255, 2**31, 2**32 - 1, 2**32, 2**33 + 5, 2**63 - 1]:
            rng = np.random.RandomState(seed)
            yield seed, top, fnv(rng.randint(0, top + 1, size=1000, dtype=np.uint64))


def split_bounds(text, size):
    separator = "," if "," in text else "/"
    shares = ([float(share) for share in text.split(separator)] + [0.0, 0.0])[:3]
    total = shares[0] + shares[1] + shares[2]
    ends = [0]
    for share in shares:
        ends.append(ends[-1] + int(round(share / total * float(size))))
    excess = ends[-1] - size
    return [0] + [max(end - excess, 0) for end in ends[1:]]


def splits():
    """split without blanks, documents, three bounds"""
    texts = ["969,30,1", "949,50,1", "1", "100,0,0", "0,0,1", "50,50", "8/1/1", "0.9,0.05,0.05",
             "1,1,1", ".5,.25,.25", "98,1,1,7", "0,.5,.5", "3/2", "1e2,1.5e0,+0"]
    for text in texts:
        for size in list(range(0, 41)) + [399, 500, 501, 1000, 99999, 2**31 - 1, 10**12 + 7]:
            yield [text, size] + split_bounds(text, size)[1:]


def sample_order(sizes, seq, wanted, seed):
    tokens, epochs = sum(sizes), 1
    while (epochs * tokens - 1) // seq < wanted:
        epochs += 1
    rng = np.random.RandomState(seed)
    documents = np.tile(np.arange(len(sizes), dtype=np.int32), epochs)
    rng.shuffle(documents)
    samples = (epochs * tokens - 1) // seq
    # Where each token of the whole stream lies; a sample starts every `seq` of them.
    places = [(place, token) for place, document in enumerate(documents)
              for token in range(sizes[document])]
    starts = [places[i * seq] for i in range(samples + 1)]
    order = np.arange(samples, dtype=np.uint32)
    rng.shuffle(order)
    return epochs, samples, list(documents), starts, list(order)


def orders():
    """seq, wanted, seed, documents, sizes; epochs, N, hashes of documents, starts, order"""
    draw = random.Random(7)
    cases = [([5, 3, 4, 6], 4, 7, 1234), ([9], 8, 1, 1), ([9], 4, 2, 1), ([3, 0, 0, 9, 0], 2, 40, 5),
             ([33] * 40, 32, 200, 1234), ([1] * 50, 7, 100, 0), ([1000], 10, 99, 3), ([7], 3, 0, 2)]
    for _ in range(40):
        sizes = [draw.choice([0, 1, 2, 5, draw.randint(0, 60)]) for _ in range(draw.randint(1, 60))]
        sizes[draw.randrange(len(sizes))] += 70
        cases.append((sizes, draw.randint(1, 64), draw.randint(0, 400), draw.randrange(2**32)))
    for sizes, seq, wanted, seed in cases:
        epochs, samples, documents, starts, order = sample_order(sizes, seq, wanted, seed)
        flat = [number for start in starts for number in start]
        yield ([seq, wanted, seed, len(sizes)] + sizes +
               [epochs, samples, fnv(documents), fnv(flat), fnv(order)])


def blend_sets(weights, size):
    weights = np.array(weights, dtype=np.float64)
    weights /= np.sum(weights)
    counts = np.zeros(len(weights))
    chosen, numbers = [], []
    for i in range(size):
        best = int(np.argmax(weights * float(max(i, 1)) - counts))
        chosen.append(best)
        numbers.append(int(counts[best]))
        counts[best] += 1
    return chosen, numbers


def scaled(weights):
    total = 0.0
    for weight in weights:
        total += weight
    return [weight / total for weight in weights]


def blends():
    """sets, samples wanted, size, weights; samples wanted of each set, hash of (set, number)"""
    draw = random.Random(11)
    cases = [([1.0], 100, 100), ([0.5, 0.5], 100, 101), ([0.5, 0.3, 0.2], 100, 101),
             ([0.001, 0.999], 5000, 5030), ([1.0, 0.0], 64, 70), ([0.0, 1.0], 64, 70),
             ([3.5, 3.5], 33, 40), ([1 / 3, 2 / 3], 8, 8)]
    for sets in [2, 7, 8, 9, 30, 128, 129, 300]:
        cases.append(([draw.random() for _ in range(sets)], 9000, 9100))
    # Whole weights meet in ties, which the last bit of a weight decides.
    for sets in [9, 17, 60, 200]:
        cases.append(([float(draw.randint(1, 5)) for _ in range(sets)], 3000, 3010))
    for weights, wanted, size in cases:
        shares = scaled(weights)
        each = [int(math.ceil(wanted * share * 1.005)) for share in shares]
        chosen, numbers = blend_sets(shares, size)
        flat = [number for pair in zip(chosen, numbers) for number in pair]
        yield ([len(weights), wanted, size] + [weight.hex() for weight in map(float, weights)] +
               each + [fnv(flat)])


def document_weights():
    """sets, alpha, documents; weights"""
    for documents in [[10, 10], [100, 1], [7, 3, 90], [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]]:
        for alpha in [1.0, 0.3, 0.0, 2.5]:
            shares = [count / sum(documents) for count in documents]
            powers = scaled([share ** alpha for share in shares])
            weights = scaled([p * (1 - share) for p, share in zip(powers, shares)])
            yield ([len(documents), alpha] + documents + [float(w).hex() for w in weights])


write("shuffles.txt", shuffles())
write("intervals.txt", intervals())
write("splits.txt", splits())
write("orders.txt", orders())
write("blends.txt", blends())
write("document_weights.txt", document_weights())
