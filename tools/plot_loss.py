#!/usr/bin/env python3
"""Draws the loss curves of runs as an SVG, with Python's standard library only.

    tools/plot_loss.py [-o loss.svg] [--title TEXT] [--tokens N] RUN...

RUN is the log folder of a run or its metrics.jsonl, optionally with a label: "raw=runs/raw". The
validation losses of evaluations.jsonl beside it are drawn as dots on a dashed line. With
`--tokens N`, tokens a step, the axis counts tokens.
"""
import argparse
import json
import math
import os
import sys
from xml.sax.saxutils import escape

COLOURS = ["#2563eb", "#dc2626", "#059669", "#d97706", "#7c3aed", "#0891b2", "#be185d", "#4d7c0f"]
WIDTH, HEIGHT = 860, 480
LEFT, RIGHT, TOP, BOTTOM = 66, 28, 64, 56
SMOOTH_FROM = 150  # points, from which a mean is drawn over the raw curve


class BadInput(Exception):
    pass


def read_points(path, keep):
    """(iteration, loss) of each line that `keep` accepts and that has a finite loss."""
    points = []
    with open(path, encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            try:
                record = json.loads(line)
                if keep(record) and record["loss"] is not None:
                    points.append((int(record["iteration"]), float(record["loss"])))
            except (ValueError, KeyError, TypeError) as error:
                if not line.endswith("\n"):
                    break  # still being written
                raise BadInput(f"{path}:{number}: is not a line of metrics ({error})") from error
    return points


def read_run(argument):
    label, _, path = argument.rpartition("=")
    if os.path.isdir(path):
        path = os.path.join(path, "metrics.jsonl")
    folder = os.path.dirname(os.path.abspath(path))
    if not os.path.isfile(path):
        raise BadInput(f"{path}: no such file; name the log folder of a run")
    train = read_points(path, lambda record: True)
    if not train:
        raise BadInput(f"{path}: has no iteration with a finite loss")
    evaluations = os.path.join(folder, "evaluations.jsonl")
    valid = []
    if os.path.isfile(evaluations):
        valid = read_points(evaluations, lambda record: record["part"] == "validation")
    return {"label": label or os.path.basename(folder), "train": train, "valid": valid}


def smooth(points):
    """A mean over a window of a fortieth of the curve, centred; narrow where the fall is steep."""
    half = max(1, len(points) // 80)
    sums = [0.0]
    for _, loss in points:
        sums.append(sums[-1] + loss)
    result = []
    for i, (x, _) in enumerate(points):
        reach = min(half, i)
        low, high = i - reach, min(len(points), i + reach + 1)
        result.append((x, (sums[high] - sums[low]) / (high - low)))
    return result


def nice_ticks(low, high, wanted):
    """Round values, `wanted` of them or fewer, that lie within [low, high]."""
    span = (high - low) or 1.0
    step = 10.0 ** math.floor(math.log10(span / wanted))
    for factor in (1, 2, 5, 10):
        if span / (step * factor) <= wanted:
            step *= factor
            break
    first = math.ceil(low / step - 1e-9)
    return [i * step for i in range(first, int(math.floor(high / step + 1e-9)) + 1)]


def number_text(value):
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e4)):
        if abs(value) >= size:
            return f"{value / (1e3 if unit == 'k' else size):g}{unit}"
    return f"{value:.10g}"


class Chart:
    def __init__(self, runs, tokens):
        self.tokens = tokens
        curves = [points for run in runs for points in (run["train"], run["valid"]) if points]
        self.x_low, self.x_high = 0, max(self.x_of(p[-1][0]) for p in curves)
        losses = [loss for points in curves for _, loss in points]
        low, high = min(losses), max(losses)
        margin = (high - low or 1.0) * 0.04
        self.y_low, self.y_high = low - margin, high + margin

    def x_of(self, iteration):
        return iteration * self.tokens

    def place(self, iteration, loss):
        x = LEFT + (self.x_of(iteration) - self.x_low) / (self.x_high - self.x_low) * (
            WIDTH - LEFT - RIGHT)
        y = TOP + (self.y_high - loss) / (self.y_high - self.y_low) * (HEIGHT - TOP - BOTTOM)
        return x, y

    def path(self, points):
        places = (self.place(*point) for point in points)
        return "M" + "L".join(f"{x:.1f},{y:.1f}" for x, y in places)


def draw_grid(chart, x_title):
    parts = []
    bottom, right = HEIGHT - BOTTOM, WIDTH - RIGHT
    for value in nice_ticks(chart.y_low, chart.y_high, 7):
        y = chart.place(0, value)[1]
        parts.append(f'<path class="grid" d="M{LEFT},{y:.1f}H{right}"/>'
                     f'<text class="tick" x="{LEFT - 10}" y="{y + 4:.1f}" text-anchor="end">'
                     f'{number_text(value)}</text>')
    for value in nice_ticks(chart.x_low, chart.x_high, 9):
        x = LEFT + value / chart.x_high * (right - LEFT)
        parts.append(f'<path class="grid" d="M{x:.1f},{TOP}V{bottom}"/>'
                     f'<text class="tick" x="{x:.1f}" y="{bottom + 20}" text-anchor="middle">'
                     f'{number_text(value)}</text>')
    middle = (TOP + bottom) / 2
    parts.append(f'<path class="axis" d="M{LEFT},{TOP}V{bottom}H{right}"/>')
    parts.append(f'<text class="name" x="{(LEFT + right) / 2}" y="{HEIGHT - 14}" '
                 f'text-anchor="middle">{x_title}</text>')
    parts.append(f'<text class="name" x="18" y="{middle}" text-anchor="middle" '
                 f'transform="rotate(-90 18 {middle})">loss (nats a token)</text>')
    return parts


def draw_run(chart, run, colour):
    parts = []
    train = run["train"]
    if len(train) >= SMOOTH_FROM:
        parts.append(f'<path class="curve" stroke="{colour}" stroke-width="1" opacity="0.3" '
                     f'd="{chart.path(train)}"/>')
        train = smooth(train)
    parts.append(f'<path class="curve" stroke="{colour}" stroke-width="2" '
                 f'd="{chart.path(train)}"/>')
    if run["valid"]:
        parts.append(f'<path class="curve" stroke="{colour}" stroke-width="1.5" '
                     f'stroke-dasharray="5 4" d="{chart.path(run["valid"])}"/>')
        for point in run["valid"]:
            x, y = chart.place(*point)
            parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="#fff" '
                         f'stroke="{colour}" stroke-width="2"/>')
    return parts


def draw_legend(runs):
    entries = []
    for run, colour in zip(runs, cycle_colours()):
        name = "" if len(runs) == 1 else run["label"] + ": "
        last = run["train"][-min(10, len(run["train"])):]
        mean = sum(loss for _, loss in last) / len(last)
        entries.append((f"{name}training {mean:.3f}", colour, ""))
        if run["valid"]:
            entries.append((f"{name}validation {run['valid'][-1][1]:.3f}", colour, "5 4"))
    # The curves fall, so the upper right corner is free.
    widest = max(len(text) for text, _, _ in entries) * 7.2
    x, y = WIDTH - RIGHT - widest - 52, TOP + 12
    parts = [f'<rect x="{x - 10:.0f}" y="{y - 8}" width="{widest + 56:.0f}" '
             f'height="{20 * len(entries) + 8}" rx="4" fill="#fff" opacity="0.9"/>']
    for i, (text, colour, dashes) in enumerate(entries):
        line = y + 8 + 20 * i
        parts.append(f'<path d="M{x:.0f},{line}h28" stroke="{colour}" stroke-width="2" '
                     f'stroke-dasharray="{dashes or "none"}"/>'
                     f'<text class="legend" x="{x + 36:.0f}" y="{line + 4}">{escape(text)}</text>')
    return parts


def cycle_colours():
    while True:
        yield from COLOURS


def draw(runs, title, tokens):
    chart = Chart(runs, tokens or 1)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'width="{WIDTH}" height="{HEIGHT}" role="img" aria-label="{escape(title)}">',
        "<style>text{font-family:system-ui,'Segoe UI',Helvetica,Arial,sans-serif;fill:#374151}"
        ".title{font-size:17px;font-weight:600;fill:#111827}.name,.legend{font-size:13px}"
        ".tick{font-size:12px;fill:#6b7280}.grid{stroke:#e5e7eb;fill:none}"
        ".axis{stroke:#9ca3af;fill:none}"
        ".curve{fill:none;stroke-linejoin:round;stroke-linecap:round}</style>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
        f'<text class="title" x="{LEFT}" y="36">{escape(title)}</text>',
    ]
    parts += draw_grid(chart, "tokens" if tokens else "iteration")
    for run, colour in zip(runs, cycle_colours()):
        parts += draw_run(chart, run, colour)
    parts += draw_legend(runs)
    parts.append("</svg>")
    return "\n".join(parts) + "\n"


def main():
    parser = argparse.ArgumentParser(description="Draws the loss curves of runs as an SVG.")
    parser.add_argument("runs", nargs="+", metavar="RUN",
                        help="log folder or metrics.jsonl, optionally LABEL=PATH")
    parser.add_argument("-o", "--output", default="loss.svg")
    parser.add_argument("--title", default="Loss")
    parser.add_argument("--tokens", type=int, help="tokens a step: the axis counts tokens")
    args = parser.parse_args()
    try:
        svg = draw([read_run(run) for run in args.runs], args.title, args.tokens)
        with open(args.output, "w", encoding="utf-8") as out:
            out.write(svg)
    except (BadInput, OSError) as error:
        print(f"plot_loss: {error}", file=sys.stderr)
        return 2
    print(args.output)
    return 0


if __name__ == "__main__":
    sys.exit(main())
