"""Compares the scalars that runs wrote, one JSON object an iteration.

    metrics.py close FILE REFERENCE COUNT LOSS_TOLERANCE NORM_TOLERANCE   relative
    metrics.py near FILE REFERENCE FIRST LAST LOSS_TOLERANCE NORM_TOLERANCE
    metrics.py same FILE REFERENCE FIRST LAST                             bit for bit

A file may be the sum of several runs that one log folder saw: the last line of an iteration counts.
"""

import json
import math
import sys


def read(path):
    with open(path, encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    return {row["iteration"]: row for row in rows if "loss" in row}


def close(path, reference, count, loss_tolerance, norm_tolerance):
    return near(path, reference, 1, count, loss_tolerance, norm_tolerance)


def near(path, reference, first, last, loss_tolerance, norm_tolerance):
    got, wanted = read(path), read(reference)
    worst = {"loss": (0.0, 0), "grad_norm": (0.0, 0)}
    for i in range(int(first), int(last) + 1):
        if i not in got:
            return f"iteration {i} is missing"
        for key, old in worst.items():
            value = got[i][key]
            if value is None or not math.isfinite(value):
                return f"iteration {i}: {key} is {value}"
            worst[key] = max(old, (abs(value / wanted[i][key] - 1), i))
        if not math.isclose(got[i]["lr"], wanted[i]["lr"], rel_tol=1e-12):
            return f"iteration {i}: lr is {got[i]['lr']}, not {wanted[i]['lr']}"
    print(path, *(f"{key} {error:.2e} at {i}" for key, (error, i) in worst.items()))
    if worst["loss"][0] > float(loss_tolerance) or worst["grad_norm"][0] > float(norm_tolerance):
        return f"allowed are {loss_tolerance} and {norm_tolerance}"
    return None


def same(path, reference, first, last):
    got, wanted = read(path), read(reference)
    for i in range(int(first), int(last) + 1):
        for key in ("loss", "grad_norm", "lr", "loss_scale", "skipped"):
            if i not in got or i not in wanted:
                return f"iteration {i} is missing"
            if got[i][key] != wanted[i][key]:
                return f"iteration {i}: {key} is {got[i][key]!r}, not {wanted[i][key]!r}"
    return None


fault = {"close": close, "near": near, "same": same}[sys.argv[1]](*sys.argv[2:])
if fault:
    print(f"WRONG: {sys.argv[2]}: {fault}")
    sys.exit(1)
