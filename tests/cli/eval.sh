# trifold eval gives what training's own evaluation gave for the same weights, on any number of
# ranks.
. "$(dirname "$0")/lib.sh"

toy toy.yml
set_up=(toy.yml --set split=60,20,20 --set eval-interval=2 --set eval-iters=2)

# loss LOG: the loss that trifold eval printed.
loss() {
    sed -nE 's/^(train|valid|test) loss ([0-9.]+) .*/\2/p' "$1"
}

# near A B: equal within 1e-6 relative, beyond the 6 decimals that are printed.
near() {
    python3 -c 'import sys
a, b = map(float, sys.argv[1:])
sys.exit(abs(a - b) > 1e-6 * abs(b) + 1e-6)' "$1" "$2" || wrong "$3: $1 is not $2"
}

# Training evaluates after iteration 2, from the first validation batch on, and the test part at the
# end; dropout must not count.
works train 1 train "${set_up[@]}" --set exit-interval=2 --set save=saved --set hidden-dropout=0.2 \
    --set 'extra-save-iters=[2]' --set log-dir=log
valid=$(python3 -c 'import json
rows = [json.loads(line) for line in open("log/evaluations.jsonl")]
print(*(row["loss"] for row in rows if row["iteration"] == 2 and row["part"] == "validation"))')
for ranks in 1 2; do
    works valid_$ranks $ranks eval "${set_up[@]}" --load saved \
        --set train_micro_batch_size_per_gpu=$((2 / ranks))
    near "$(loss valid_$ranks.log)" "$valid" "valid on $ranks"
    grep -q 'tokens 128$' valid_$ranks.log || wrong "not 2 batches of 2 samples of 32 tokens"
done
works train_part 2 eval "${set_up[@]}" --load saved/global_step2 --split train \
    --set train_micro_batch_size_per_gpu=1
works train_part_1 1 eval "${set_up[@]}" --load saved/global_step2 --split train
near "$(loss train_part.log)" "$(loss train_part_1.log)" "train"
works test_part 1 eval "${set_up[@]}" --load saved --split test --set precision=bfloat16
[ -n "$(loss test_part.log)" ] || wrong "test: no loss"
fails split 2 1 'it is train, valid or test' eval "${set_up[@]}" --load saved --split all
fails no_iters 2 1 'eval_iters' eval toy.yml --load saved
exit $failed
