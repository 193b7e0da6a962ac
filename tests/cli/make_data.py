"""Writes a small indexed data set, as GPT-NeoX lays it out.

    make_data.py PREFIX d40                 40 documents of 33 tokens, k, k+1, ... modulo 127, plus 1
    make_data.py PREFIX d3                  three documents: 1 2 3 0, 4 5 0, 6 0
    make_data.py PREFIX TOKENS TOKENS ...   documents of the tokens named, by commas
"""

import struct
import sys

prefix, kind = sys.argv[1:3]
if kind == "d40":
    documents = [[(k + i) % 127 + 1 for i in range(33)] for k in range(40)]
elif kind == "d3":
    documents = [[1, 2, 3, 0], [4, 5, 0], [6, 0]]
else:
    documents = [[int(token) for token in text.split(",")] for text in sys.argv[2:]]

sizes = [len(document) for document in documents]
pointers = [2 * sum(sizes[:k]) for k in range(len(sizes))]
with open(prefix + ".bin", "wb") as out:
    for document in documents:
        out.write(struct.pack(f"<{len(document)}H", *document))
with open(prefix + ".idx", "wb") as out:
    out.write(b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, 8, len(sizes), len(sizes) + 1))
    out.write(struct.pack(f"<{len(sizes)}i", *sizes))
    out.write(struct.pack(f"<{len(sizes)}q", *pointers))
    out.write(struct.pack(f"<{len(sizes) + 1}q", *range(len(sizes) + 1)))
