# What a run leaves behind: the line of progress once, one object an iteration, a table and event
# files where asked, the same after a second start.
. "$(dirname "$0")/lib.sh"

toy toy.yml "log-dir: log" "metrics-csv: true" "tensorboard-dir: events" "log-interval: 5" "save: ck" \
    "extra-save-iters: [10]"

# 12 iterations, saved at 10; then on from 10 to 20 in the same folders.
evaluate="--set split=80,20,0 --set eval-iters=1 --set eval-interval=4"
works first 2 train toy.yml $evaluate --set exit-interval=12
works second 2 train toy.yml $evaluate --set load=ck/global_step10

python3 - <<'END' || wrong "the files of the log folder"
import csv, json

steps = [json.loads(line) for line in open("log/metrics.jsonl")]
assert [step["iteration"] for step in steps] == list(range(1, 21)), "each iteration once"
keys = ("iteration loss lr grad_norm loss_scale skipped samples_per_sec tokens_per_sec tflops "
        "iteration_ms compute_ms comm_ms mem_peak_mb comm").split()
for step in steps:
    assert sorted(step) == sorted(keys), step
    assert sorted(step["comm"]) == ["data", "pipe", "tensor", "zero"]
    data = step["comm"]["data"]
    assert data["raw_bytes"] > 0 and data["wire_bytes"] > 0 and data["ms"] > 0
    assert abs(data["ratio"] - data["raw_bytes"] / data["wire_bytes"]) < 1e-12
    assert abs(step["tokens_per_sec"] / step["samples_per_sec"] - 32) < 1e-9
    # 4 samples an iteration, and time that is either waiting or work.
    assert abs(step["samples_per_sec"] * step["iteration_ms"] / 4000 - 1) < 1e-9
    assert abs(step["compute_ms"] + step["comm_ms"] - step["iteration_ms"]) < 1e-6

table = list(csv.DictReader(open("log/metrics.csv")))
assert [int(row["iteration"]) for row in table] == list(range(1, 21))
for row, step in zip(table, steps):
    assert float(row["loss"]) == step["loss"]
    assert float(row["data_wire_bytes"]) == step["comm"]["data"]["wire_bytes"]

evaluations = [json.loads(line) for line in open("log/evaluations.jsonl")]
seen = [(line["iteration"], line["part"]) for line in evaluations]
assert seen == [(i, "validation") for i in (4, 8, 12, 16, 20)], seen
END

[ "$(ls events/events.out.tfevents.* | wc -l)" = 2 ] || wrong "a start gives one event file"
fields='samples/sec: [0-9.]+ \| iteration +5/ +20 \| elapsed time per iteration \(ms\): [0-9.]+ \|'
fields="$fields learning rate: .*\| approx flops per GPU: .*FLOPS \| lm_loss: .*\|"
[ "$(grep -Ec "^$fields.* ratio data: 1\.00 \|" first.log)" = 1 ] ||
    wrong "the line of iteration 5 is not there once: $(grep iteration first.log)"
grep -q '^validation results at iteration 4 | lm_loss value: ' first.log ||
    wrong "no line of the evaluation"

python3 "$TRIFOLD_SOURCE/tools/plot_loss.py" -o loss.svg log >plot.log 2>&1 ||
    wrong "plot_loss: $(cat plot.log)"

# Folders that cannot be written end the run before it works.
: >file
fails no_folder 2 1 'file: is not a folder' train toy.yml --set log-dir=file/log
echo 'my notes' >log/metrics.jsonl
fails foreign 2 2 'log/metrics.jsonl:1: is not a line' train toy.yml
grep -q 'my notes' log/metrics.jsonl || wrong "a foreign file was changed"
exit $failed
