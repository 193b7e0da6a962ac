#!/usr/bin/env python3
"""Trains Hugging Face's GPTNeoXForCausalLM on random tokens and prints one JSON object.

The peer that bench/compare_torch.py measures Trifold against. Weights are drawn from the
configuration, every step takes fresh random tokens, the loss is the model's own, gradients are
clipped to norm 1 and AdamW updates in its fused form, the fastest that PyTorch has on a CPU.

  --precision fp32       everything in fp32
  --precision autocast   bf16 products by torch.autocast, fp32 master weights
  --precision bf16       weights, gradients and optimizer state in bf16
  --mode eager|compile   torch.compile of the model with its loss, or not
"""
import argparse
import contextlib
import json
import os
import statistics
import sys
import time

SHAPES = {
    "14m": {"layers": 6, "hidden": 128, "heads": 4, "batch": 4, "seq": 512},
    "70m": {"layers": 6, "hidden": 512, "heads": 8, "batch": 2, "seq": 512},
    "160m": {"layers": 12, "hidden": 768, "heads": 12, "batch": 1, "seq": 1024},
}
VOCAB = 50304


def parse_args():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--shape", choices=SHAPES, required=True)
    parser.add_argument("--precision", choices=["fp32", "autocast", "bf16"], required=True)
    parser.add_argument("--mode", choices=["eager", "compile"], default="eager")
    parser.add_argument("--steps", type=int, default=10, help="measured steps")
    parser.add_argument("--warmup", type=int, default=3, help="steps before them")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1234)
    return parser.parse_args()


def memory_mb(field):
    with open("/proc/self/status", encoding="ascii") as status:
        for line in status:
            if line.startswith(field + ":"):
                return int(line.split()[1]) / 1024
    return float("nan")


def build_model(shape, precision):
    import torch
    from transformers import GPTNeoXConfig, GPTNeoXForCausalLM

    config = GPTNeoXConfig(
        vocab_size=VOCAB, hidden_size=shape["hidden"], num_hidden_layers=shape["layers"],
        num_attention_heads=shape["heads"], intermediate_size=4 * shape["hidden"],
        hidden_act="gelu", rotary_pct=0.25, max_position_embeddings=2048,
        use_parallel_residual=True, tie_word_embeddings=False, use_cache=False,
        hidden_dropout=0.0, attention_dropout=0.0)
    config._attn_implementation = "sdpa"
    model = GPTNeoXForCausalLM(config)
    if precision == "bf16":
        model = model.to(torch.bfloat16)
    return model.train()


def train(args):
    import torch

    torch.manual_seed(args.seed)
    torch.set_num_threads(args.threads)
    shape = SHAPES[args.shape]
    model = build_model(shape, args.precision)
    base_mb = memory_mb("VmRSS")
    parameters = list(model.parameters())
    optimizer = torch.optim.AdamW(parameters, lr=1e-3, betas=(0.9, 0.95), eps=1e-8,
                                  weight_decay=0.1, fused=True)
    forward = torch.compile(model) if args.mode == "compile" else model
    cast = (torch.autocast("cpu", dtype=torch.bfloat16) if args.precision == "autocast"
            else contextlib.nullcontext())
    seconds, cpu_seconds, losses = [], [], []
    for _ in range(args.warmup + args.steps):
        tokens = torch.randint(0, VOCAB, (shape["batch"], shape["seq"]))
        begin, cpu_begin = time.perf_counter(), time.process_time()
        with cast:
            loss = forward(input_ids=tokens, labels=tokens).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        seconds.append(time.perf_counter() - begin)
        cpu_seconds.append(time.process_time() - cpu_begin)
        losses.append(loss.item())
    measured = seconds[args.warmup:]
    count = shape["batch"] * shape["seq"]
    return {
        "shape": args.shape, "precision": args.precision, "mode": args.mode,
        "torch": torch.__version__, "threads": args.threads,
        "parameters": sum(p.numel() for p in parameters),
        "tokens_per_sec": count / statistics.median(measured),
        "step_ms": [round(1e3 * s, 2) for s in measured],
        "cpu_ms": 1e3 * statistics.median(cpu_seconds[args.warmup:]),
        "first_loss": losses[0], "last_loss": losses[-1],
        "peak_mb": memory_mb("VmHWM"), "model_loaded_mb": base_mb,
    }


def main():
    args = parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", str(args.threads))
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    json.dump(train(args), sys.stdout)
    print()


if __name__ == "__main__":
    main()
