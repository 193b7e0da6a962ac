# A run that stops, is saved and goes on in a new process repeats the uninterrupted one bit for bit.
. "$(dirname "$0")/lib.sh"

# resumes NAME RANKS OPTION...: 20 iterations saved at 10 (into NAME.ref), and, from that
# checkpoint, 11 to 20 again in a new process.
resumes() {
    local name=$1 ranks=$2
    shift 2
    works "$name.ref" "$ranks" train toy.yml --set log-dir="$name.ref" --set save="$name.ref" \
        --set 'extra-save-iters=[10]' "$@"
    works "$name" "$ranks" train toy.yml --set log-dir="$name" --set load="$name.ref/global_step10" \
        "$@"
    metrics same "$name/metrics.jsonl" "$name.ref/metrics.jsonl" 11 20
}

# same_folder A B: all files have the same bytes.
same_folder() {
    diff -r "$1" "$2" || wrong "$1 and $2 differ"
}

# An epoch has 41 samples, so that 10 iterations of 8 or 12 end in the middle of one.
toy toy.yml
resumes plain 1
resumes accumulation 1 --set gradient_accumulation_steps=4 --set hidden-dropout=0.1 \
    --set attention-dropout=0.1
resumes data_ranks 2 --set gradient_accumulation_steps=3 --set hidden-dropout=0.1
resumes bf16 1 --set precision=bfloat16
# Scales that shrink and grow on both sides of the checkpoint.
resumes fp16 1 --set precision=fp16 \
    --set 'fp16={enabled: true, initial_scale_power: 28, loss_scale_window: 3, hysteresis: 2}'
python3 - <<'END' || wrong "fp16: the run skipped nothing, or never changed its scale"
import json
rows = [json.loads(line) for line in open("fp16.ref/metrics.jsonl")]
skipped = [row["skipped"] for row in rows]
scales = {row["loss_scale"] for row in rows[10:]}
raise SystemExit(not (skipped[9] > 0 and len(scales) > 1))
END

# Any grid goes on from what any other has saved; the same one bit for bit.
split='--set num-layers=4 --set gradient_accumulation_steps=4 --set hidden-dropout=0.1'
resumes grid 4 $split --set pipe-parallel-size=2 --set model-parallel-size=2
resumes interleaved 2 $split --set pipe-parallel-size=2 --set pipe-schedule=interleaved \
    --set virtual-pipe-stages=2 --set sequence-parallel=true
works other_grid 2 train toy.yml --set log-dir=other_grid --set load=grid.ref/global_step10 $split \
    --set model-parallel-size=2 --set sequence-parallel=true
works no_grid 1 train toy.yml --set log-dir=no_grid --set load=grid.ref/global_step10 $split
metrics near no_grid/metrics.jsonl grid.ref/metrics.jsonl 11 20 5e-6 5e-5
metrics near other_grid/metrics.jsonl grid.ref/metrics.jsonl 11 20 5e-6 5e-5

# Evaluating changes no bit of training.
works silent 1 train toy.yml --set split=80,20,0 --set log-dir=silent --set hidden-dropout=0.1
works evaluated 1 train toy.yml --set split=80,20,0 --set log-dir=evaluated \
    --set hidden-dropout=0.1 --set eval-interval=3 --set eval-iters=2
metrics same evaluated/metrics.jsonl silent/metrics.jsonl 1 20
[ "$(grep -c validation evaluated.log)" = 7 ] || wrong "evaluated: not 7 evaluations"

# Nothing left to do: what is saved is what was loaded, on any number of ranks.
often='extra-save-iters=[1]'
works no_step 1 train toy.yml --set load=plain.ref --set save=no_step --set "$often"
same_folder plain.ref/global_step20 no_step/global_step20
works no_step_2 2 train toy.yml --set load=data_ranks.ref --set save=no_step_2 --set "$often" \
    --set gradient_accumulation_steps=3
same_folder data_ranks.ref/global_step20 no_step_2/global_step20
works at_zero 1 train toy.yml --set train-iters=0 --set save=at_zero --set "$often"
works at_zero_again 1 train toy.yml --set train-iters=0 --set load=at_zero \
    --set save=at_zero_again --set "$often"
same_folder at_zero at_zero_again

# stopped NAME RANKS SIGNAL: a run that gets a signal saves, exits with 75, and goes on from there
# for two iterations as one that was never stopped.
stopped() {
    local name=$1 ranks=$2 signal=$3 pid at end
    local start=() options=(--set train-iters=100000 --set gradient_accumulation_steps=4)
    [ "$ranks" = 1 ] || start=(mpirun -n "$ranks" --oversubscribe --bind-to none)
    "${start[@]}" "$TRIFOLD" train toy.yml "${options[@]}" --set log-dir="$name" \
        --set save="$name" --set 'extra-save-iters=[100000]' >"$name.log" 2>&1 &
    pid=$!
    while kill -0 $pid && [ "$(cat "$name/metrics.jsonl" 2>/dev/null | wc -l)" -lt 2 ]; do
        sleep 0.05
    done
    kill "-$signal" $pid
    wait $pid
    code=$?
    at=$(sed 's/global_step//' "$name/latest")
    if [ "$code" != 75 ] || [ -z "$at" ]; then
        wrong "$name: exit status $code, saved at iteration $at"
        tail -n 20 "$name.log"
        return
    fi
    grep -q "stopping after iteration $at: a rank was sent" "$name.log" ||
        wrong "$name: no line tells of the signal"
    end=$((at + 2))
    works "$name.on" "$ranks" train toy.yml "${options[@]}" --set log-dir="$name.on" \
        --set load="$name" --set exit-interval=$end
    works "$name.ref" "$ranks" train toy.yml "${options[@]}" --set log-dir="$name.ref" \
        --set exit-interval=$end
    metrics same "$name/metrics.jsonl" "$name.ref/metrics.jsonl" 1 "$at"
    metrics same "$name.on/metrics.jsonl" "$name.ref/metrics.jsonl" $((at + 1)) $end
}

stopped terminated 1 TERM
stopped interrupted 1 INT
stopped preempted 2 USR1
exit $failed
