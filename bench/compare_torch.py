#!/usr/bin/env python3
"""Trifold beside PyTorch: tokens a second and peak memory of the same training on the same cores.

    bench/compare_torch.py [--venv FOLDER] [--shapes 14m,70m,160m] [--types fp32,bf16] [--rounds 3]

Both train a GPT-NeoX model of the shape of a Pythia model with 50304 tokens of vocabulary on random
tokens, from random weights: the same batch, sequence, optimizer and clipping. They take turns, so
that what else the machine does meets both; a ratio is the median over the rounds. PyTorch runs
eagerly and compiled, and the faster way counts. "bf16" is bf16 arithmetic over fp32 master weights:
torch.autocast there; with --pure-bf16 PyTorch's all-bf16 training is measured too, eagerly, which
keeps no fp32 weights and so does less. Peak memory is the largest resident set of the process.
"""
import argparse
import json
import os
import platform
import random
import statistics
import struct
import subprocess
import sys
import tempfile
from array import array

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "torch"))
from train_torch import SHAPES, VOCAB  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
GOALS = {"14m": 2.0, "70m": 1.2, "160m": 1.1}


class Failed(Exception):
    pass


def parse_args():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--trifold", default=os.path.join(ROOT, "build/release/trifold"))
    parser.add_argument("--venv", default=os.path.join(ROOT, "build/torch-venv"),
                        help="made by bench/torch/setup.sh where it is missing")
    parser.add_argument("--shapes", default="14m,70m,160m")
    parser.add_argument("--types", default="fp32,bf16")
    parser.add_argument("--modes", default="eager,compile", help="ways to run PyTorch")
    parser.add_argument("--pure-bf16", action="store_true")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=8, help="measured steps a run")
    parser.add_argument("--warmup", type=int, default=3, help="steps before them")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--json", help="also write every measurement to this file")
    return parser.parse_args()


def run(command, threads, cwd=None):
    """Run to the end; its standard output and its largest resident set in MB."""
    environment = dict(os.environ, OMP_NUM_THREADS=str(threads), OMPI_ALLOW_RUN_AS_ROOT="1",
                       OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as errors:
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=errors,
                                 env=environment, cwd=cwd)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        errors.seek(0)
        if child.returncode != 0:
            raise Failed(f"{' '.join(command)}: exit {child.returncode}\n{errors.read()[-2000:]}")
        return out.read(), usage.ru_maxrss / 1024


def write_tokens(prefix, documents, length):
    """A data set of random tokens, as Megatron's indexed data sets lie on disk."""
    draw = random.Random(1234)
    tokens = array("H", (draw.randrange(VOCAB) for _ in range(documents * length)))
    with open(prefix + ".bin", "wb") as out:
        tokens.tofile(out)
    with open(prefix + ".idx", "wb") as out:
        out.write(b"MMIDIDX\x00\x00" + struct.pack("<QBQQ", 1, 8, documents, documents + 1))
        array("i", [length] * documents).tofile(out)
        array("q", [2 * length * i for i in range(documents)]).tofile(out)
        array("q", range(documents + 1)).tofile(out)


def trifold_config(shape, dtype, steps, prefix, log_dir):
    return {
        "num-layers": shape["layers"], "hidden-size": shape["hidden"],
        "num-attention-heads": shape["heads"], "seq-length": shape["seq"],
        "max-position-embeddings": 2048, "pos-emb": "rotary", "rotary-pct": 0.25,
        "gpt-j-residual": True, "no-weight-tying": True, "activation": "gelu",
        "hidden-dropout": 0.0, "attention-dropout": 0.0, "vocab-size": VOCAB,
        "data-path": prefix, "split": "1,0,0",
        "train-micro-batch-size-per-gpu": shape["batch"], "gradient-accumulation-steps": 1,
        "train-iters": steps, "eval-iters": 0,
        "optimizer": {"type": "Adam",
                      "params": {"lr": 1.0e-3, "betas": [0.9, 0.95], "eps": 1.0e-8}},
        "weight-decay": 0.1, "gradient-clipping": 1.0, "lr-decay-style": "constant",
        "precision": {"fp32": "fp32", "bf16": "bfloat16"}[dtype],
        "log-interval": steps, "log-dir": log_dir,
    }


def measure_trifold(args, name, dtype):
    shape = SHAPES[name]
    steps = args.warmup + args.steps
    with tempfile.TemporaryDirectory() as folder:
        prefix = os.path.join(folder, "tokens")
        write_tokens(prefix, steps * shape["batch"] + 1, shape["seq"] + 1)
        config = os.path.join(folder, "config.yml")
        with open(config, "w", encoding="utf-8") as out:
            json.dump(trifold_config(shape, dtype, steps, prefix, folder), out)
        _, peak_mb = run([args.trifold, "train", config], args.threads)
        with open(os.path.join(folder, "metrics.jsonl"), encoding="utf-8") as lines:
            records = [json.loads(line) for line in lines]
    measured = records[args.warmup:]
    return {
        "tokens_per_sec": statistics.median(r["tokens_per_sec"] for r in measured),
        "step_ms": [r["iteration_ms"] for r in measured],
        "first_loss": records[0]["loss"], "peak_mb": peak_mb,
    }


def measure_torch(args, name, precision, mode):
    script = os.path.join(ROOT, "bench/torch/train_torch.py")
    out, peak_mb = run([os.path.join(args.venv, "bin/python"), script, "--shape", name,
                        "--precision", precision, "--mode", mode, "--steps", str(args.steps),
                        "--warmup", str(args.warmup), "--threads", str(args.threads)],
                       args.threads)
    return dict(json.loads(out.splitlines()[-1]), peak_mb=peak_mb)


def say(text):
    print(text, file=sys.stderr, flush=True)


def compare(args, name, dtype):
    """Turns of Trifold and PyTorch. All ways of PyTorch run in the first round, the best after."""
    precision = {"fp32": "fp32", "bf16": "autocast"}[dtype]
    modes = args.modes.split(",")
    ours, theirs = [], {mode: [] for mode in modes}
    ratios = []
    for turn in range(args.rounds):
        ours.append(measure_trifold(args, name, dtype))
        for mode in list(modes):
            try:
                theirs[mode].append(measure_torch(args, name, precision, mode))
            except Failed as error:
                say(f"compare: PyTorch {mode} failed: {error}")
                modes.remove(mode)
        if not modes:
            raise Failed("no way of running PyTorch worked")
        best = max(modes, key=lambda mode: theirs[mode][-1]["tokens_per_sec"])
        modes = [best]
        ratios.append(ours[-1]["tokens_per_sec"] / theirs[best][-1]["tokens_per_sec"])
        say(f"compare: {name} {dtype} round {turn + 1}: trifold "
            f"{ours[-1]['tokens_per_sec']:.0f} tokens/s {ours[-1]['peak_mb']:.0f} MB, torch {best} "
            f"{theirs[best][-1]['tokens_per_sec']:.0f} tokens/s {theirs[best][-1]['peak_mb']:.0f} MB,"
            f" ratio {ratios[-1]:.2f}")
    result = {
        "shape": name, "type": dtype, "best": best, "ratio": statistics.median(ratios),
        "ratios": ratios, "goal": GOALS[name], "trifold": ours, "torch": theirs,
    }
    if dtype == "bf16" and args.pure_bf16:
        result["pure_bf16"] = measure_torch(args, name, "bf16", "eager")
    return result


def median_of(runs, key):
    return statistics.median(run[key] for run in runs)


def table_row(result):
    shape, best = SHAPES[result["shape"]], result["torch"][result["best"]]
    pure = result.get("pure_bf16")
    return (f"| {result['shape'].upper()} | {shape['batch']} x {shape['seq']} | {result['type']} "
            f"| {median_of(result['trifold'], 'tokens_per_sec'):.0f} "
            f"| {median_of(best, 'tokens_per_sec'):.0f} ({result['best']}) "
            f"| **{result['ratio']:.2f}** "
            f"| {min(result['ratios']):.2f}-{max(result['ratios']):.2f} | {result['goal']:.1f} "
            f"| {median_of(result['trifold'], 'peak_mb'):.0f} "
            f"| {median_of(best, 'peak_mb'):.0f} "
            f"| {format(pure['tokens_per_sec'], '.0f') if pure else ''} |")


def print_table(args, results, torch_version):
    print(f"{cpu_name()}, {args.threads} threads; PyTorch {torch_version}; "
          f"{args.rounds} rounds of {args.steps} steps after {args.warmup}\n")
    print("| model | batch | type | trifold tokens/s | PyTorch tokens/s | ratio | range | goal "
          "| trifold peak MB | PyTorch peak MB | PyTorch all bf16 |")
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    for result in results:
        print(table_row(result))


def cpu_name():
    with open("/proc/cpuinfo", encoding="utf-8") as lines:
        for line in lines:
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.machine()


def main():
    args = parse_args()
    subprocess.run([os.path.join(ROOT, "bench/torch/setup.sh"), args.venv], check=True,
                   stdout=sys.stderr)
    results = []
    try:
        for name in args.shapes.split(","):
            for dtype in args.types.split(","):
                results.append(compare(args, name, dtype))
    except Failed as error:
        say(f"compare: {error}")
        return 1
    version = results[0]["torch"][results[0]["best"]][0]["torch"]
    if args.json:
        with open(args.json, "w", encoding="utf-8") as out:
            json.dump({"cpu": cpu_name(), "threads": args.threads, "torch": version,
                       "results": results}, out, indent=1)
    print_table(args, results, version)
    return 0


if __name__ == "__main__":
    sys.exit(main())
