"""Trains the same models on many grids and compares every loss and gradient norm.

    grids.py --trifold PROGRAM --golden FOLDER [--all] [--only TEXT]

The models are those of tests/golden (par and seq, 40 iterations, against Hugging Face's numbers)
and one of odd sizes: 4 layers, hidden 96, 6 heads, vocabulary 101, 50 iterations, against its own
run on one process. --all takes every grid of up to 8 ranks with each way to train on it, and random
mixtures of them; without it a few of each kind. Bounds, relative: 5e-6 for losses, 5e-5 for norms.
Writes into the current folder; the exit status is 1 where a run fails or strays.
"""
import argparse
import itertools
import json
import os
import random
import subprocess
import sys

LOSS, NORM = 5e-6, 5e-5
BATCH = 8  # samples an iteration, whatever the grid
MODELS = {  # layers, heads, iterations
    "par": (3, 4, 40),
    "seq": (4, 6, 40),
    "odd": (4, 6, 50),
}
ODD = {
    "num-layers": 4, "hidden-size": 96, "num-attention-heads": 6, "seq-length": 24,
    "max-position-embeddings": 24, "vocab-size": 101, "pos-emb": "rotary", "rotary-pct": 0.5,
    "gpt-j-residual": True, "no-weight-tying": False, "data-path": "odd", "split": "100,0,0",
    "optimizer": {"type": "Adam", "params": {"lr": 2.0e-3, "betas": [0.9, 0.95]}},
    "lr-decay-style": "cosine", "min-lr": 1.0e-4, "warmup": 0.1, "train-iters": 50, "eval-iters": 0,
    "weight-decay": 0.1, "gradient-clipping": 1.0, "seed": 11, "log-interval": 100,
    "train-micro-batch-size-per-gpu": 2, "gradient-accumulation-steps": 4,
}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--trifold", required=True)
    parser.add_argument("--golden", required=True)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--only", default="", help="runs whose name has this text")
    return parser.parse_args()


class Case:
    """A model on a grid, trained in a certain way."""

    def __init__(self, model, pipe, tensor, data, accumulation, **ways):
        self.model, self.pipe, self.tensor, self.data = model, pipe, tensor, data
        self.accumulation, self.ways = accumulation, ways

    def ranks(self):
        return self.pipe * self.tensor * self.data

    def name(self):
        ways = "".join(f" {key}={value}" for key, value in sorted(self.ways.items()))
        return (f"{self.model} pp{self.pipe} tp{self.tensor} dp{self.data} "
                f"acc{self.accumulation}{ways}")

    def fits(self):
        layers, heads, _ = MODELS[self.model]
        chunks = self.ways.get("virtual-pipe-stages", 1)
        zero = self.ways.get("zero", 0)
        schedule = self.ways.get("pipe-schedule", "1f1b")
        return (self.pipe * chunks <= layers and heads % self.tensor == 0
                and BATCH % (self.data * self.accumulation) == 0
                and (self.pipe > 1 or schedule == "1f1b")
                and (chunks == 1 or self.accumulation % self.pipe == 0)
                and (self.tensor > 1 or "sequence-parallel" not in self.ways)
                and (self.model == "odd" or "dropout" not in self.ways)
                and not (schedule == "zero-bubble" and "checkpoint-activations" in self.ways)
                and not (zero >= 3 and self.pipe > 1)
                and not (zero >= 2 and schedule == "zero-bubble"))

    def settings(self):
        settings = {"pipe-parallel-size": self.pipe, "model-parallel-size": self.tensor,
                    "gradient_accumulation_steps": self.accumulation,
                    "train_micro_batch_size_per_gpu": BATCH // self.data // self.accumulation,
                    "train_batch_size": BATCH, "threads": 1}
        for key, value in self.ways.items():
            if key == "zero":
                settings["zero_optimization"] = "{stage: %d}" % value
            elif key == "dropout":
                settings.update({"hidden-dropout": value, "attention-dropout": value})
            else:
                settings[key] = value
        return settings


def run(args, case, log):
    golden = os.path.join(args.golden, case.model)
    config = "odd.yml" if case.model == "odd" else os.path.join(golden, "config.yml")
    command = [args.trifold, "train", config, "--set", f"log-dir={log}"]
    if case.ranks() > 1:
        command = ["mpirun", "-n", str(case.ranks()), "--oversubscribe", "--bind-to", "none",
                   *command]
    settings = case.settings()
    if case.model != "odd":
        settings.update({"data-path": os.path.join(golden, "data"), "load": case.model})
    for key, value in settings.items():
        command += ["--set", f"{key}={value}"]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=300, check=False)
    if done.returncode != 0:
        return f"exit status {done.returncode}\n{done.stdout[-1500:]}"
    return None


def read(path):
    with open(path, encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def compare(log, reference, iterations):
    got, wanted = read(os.path.join(log, "metrics.jsonl")), read(reference)
    if len(got) != iterations:
        return f"{len(got)} iterations of {iterations}", 0, 0
    loss = max(abs(a["loss"] / b["loss"] - 1) for a, b in zip(got, wanted))
    norm = max(abs(a["grad_norm"] / b["grad_norm"] - 1) for a, b in zip(got, wanted))
    return None if loss <= LOSS and norm <= NORM else "strays", loss, norm


WAYS = {
    "zero": [1, 2, 3],
    "sequence-parallel": ["true"],
    "checkpoint-activations": ["true"],
    "pipe-schedule": ["gpipe", "zero-bubble", "interleaved"],
    "dropout": [0.1],  # of hidden states and attention: masks do not depend on the grid
}


def with_way(case, key, value):
    ways = dict(case.ways, **{key: value})
    if value == "interleaved":
        ways["virtual-pipe-stages"] = 2
    return Case(case.model, case.pipe, case.tensor, case.data, case.accumulation, **ways)


def all_cases():
    """Every grid with every accumulation, each way alone, and three mixtures."""
    draw = random.Random(5)
    cases = []
    for model in MODELS:
        for pipe, tensor, data in itertools.product(range(1, 9), repeat=3):
            if pipe * tensor * data > 8:
                continue
            plain = [Case(model, pipe, tensor, data, a) for a in (1, 2, 4)]
            plain = [case for case in plain if case.fits()]
            cases += plain
            for case in plain[-1:]:
                cases += [with_way(case, key, value) for key in WAYS for value in WAYS[key]]
            for case in draw.choices(plain, k=3) if plain else []:
                for key in WAYS:
                    case = with_way(case, key, draw.choice(WAYS[key])) if draw.random() < 0.6 else case
                cases.append(case)
    return cases


def some_cases():
    return [
        Case("par", 1, 4, 2, 1), Case("par", 3, 1, 2, 4), Case("par", 3, 2, 1, 4),
        Case("seq", 2, 2, 2, 2), Case("seq", 3, 1, 1, 4),
        Case("odd", 1, 2, 1, 4), Case("odd", 1, 3, 2, 2), Case("odd", 4, 1, 1, 4),
        Case("odd", 2, 2, 2, 4), Case("odd", 1, 6, 1, 1),
        Case("odd", 1, 2, 2, 4, **{"sequence-parallel": "true"}),
        Case("odd", 1, 3, 1, 2, **{"sequence-parallel": "true", "checkpoint-activations": "true"}),
        Case("odd", 2, 1, 1, 4, **{"pipe-schedule": "gpipe", "checkpoint-activations": "true"}),
        Case("odd", 2, 1, 2, 4, **{"pipe-schedule": "zero-bubble"}),
        Case("odd", 2, 2, 1, 4, **{"pipe-schedule": "interleaved", "virtual-pipe-stages": 2}),
        Case("odd", 2, 2, 2, 4, dropout=0.1),
        Case("odd", 2, 3, 1, 2, **{"dropout": 0.1, "sequence-parallel": "true",
                                   "pipe-schedule": "zero-bubble"}),
    ]


def prepare(args):
    """The odd model's data and reference run, and the golden weights as checkpoints."""
    here = os.path.dirname(os.path.abspath(__file__))
    draw = random.Random(3)
    documents = [",".join(str((3 * i + k + draw.randrange(4)) % 101) for i in range(70))
                 for k in range(40)]
    subprocess.run([sys.executable, os.path.join(here, "make_data.py"), "odd", *documents],
                   check=True)
    with open("odd.yml", "w", encoding="utf-8") as out:
        json.dump(ODD, out)
    for model in ("par", "seq"):
        subprocess.run([args.trifold, "convert", "--from", "hf", os.path.join(args.golden, model),
                        "--to", "checkpoint", model], check=True, capture_output=True)
    return (run(args, Case("odd", 1, 1, 1, 4), "reference")
            or run(args, Case("odd", 1, 1, 1, 4, dropout=0.1), "reference-dropout"))


def reference_of(args, case):
    if case.model != "odd":
        return os.path.join(args.golden, case.model, "expected.jsonl")
    return ("reference-dropout" if "dropout" in case.ways else "reference") + "/metrics.jsonl"


def main():
    args = arguments()
    fault = prepare(args)
    if fault:
        print(f"reference: {fault}")
        return 1
    cases = [case for case in (all_cases() if args.all else some_cases())
             if case.fits() and args.only in case.name()]
    names, failed, worst = set(), 0, [0, 0]
    for case in cases:
        if case.name() in names:
            continue
        names.add(case.name())
        log = "run%d" % len(names)
        reference = reference_of(args, case)
        fault, loss, norm = run(args, case, log), 0, 0
        if not fault:
            fault, loss, norm = compare(log, reference, MODELS[case.model][2])
        failed += fault is not None
        worst = [max(worst[0], loss), max(worst[1], norm)]
        print(f"{case.name():70} loss {loss:.1e} norm {norm:.1e}"
              f"{'  WRONG: ' + fault if fault else ''}", flush=True)
    print(f"{len(names) - failed} passed, {failed} failed; worst loss {worst[0]:.1e}, "
          f"norm {worst[1]:.1e}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
