# What goes wrong with files and ranks: one line that names it, on any number of ranks, and what was
# saved before stays loadable.
. "$(dirname "$0")/lib.sh"

toy toy.yml
works first 1 train toy.yml --set train-iters=1 --set lr-decay-iters=20 --set save=saved \
    --set 'extra-save-iters=[1]'

# A token past the vocabulary: in which document, where.
data foreign "$(seq -s , 1 60)" "$(seq -s , 100 200)"
for ranks in 1 2; do
    fails foreign 2 $ranks 'foreign.bin: token [0-9]+ of document 1 is 1[0-9]+; .* 0 to 127' \
        train toy.yml --set data-path=foreign
done

# change FILE OFFSET BYTE: overwrite a byte.
change() {
    printf "\\x$3" | dd of="$1" bs=1 seek="$2" conv=notrunc status=none
}

# Damaged data: the magic, the type, the length of a document, and files cut short.
damaged() {
    fails "index_$1" 2 "$2" "$3" train toy.yml --set data-path=bad
    data bad d40
}
data bad d40
change bad.idx 0 58
damaged magic 1 'bad.idx'
change bad.idx 16 63
damaged type 1 'bad.idx'
change bad.idx 37 7f
damaged size 2 'bad'
head -c 100 d40.idx >bad.idx
damaged cut_index 2 'bad.idx'
head -c 100 d40.bin >bad.bin
damaged cut_tokens 2 'bad.idx: .* the .bin has 100'

# A damaged checkpoint: a flipped bit, a file cut short, one that is gone.
hurt() {
    local name=$1 file=$2
    fails "hurt_$name" 2 1 "hurt/global_step1/$file" train toy.yml --set load=hurt
    fails "hurt_eval_$name" 2 2 "hurt/global_step1/$file" eval toy.yml --load hurt \
        --split train --set eval-iters=1
    rm -r hurt
    cp -r saved hurt
}
cp -r saved hurt
change hurt/global_step1/model.safetensors 5000 55
hurt flipped model.safetensors
truncate -s -4 hurt/global_step1/model.safetensors
hurt cut model.safetensors
rm hurt/global_step1/state.json
hurt gone state.json
echo '{' >hurt/global_step1/manifest.json
hurt manifest manifest.json
change hurt/global_step1/optimizer.safetensors 5000 55
fails hurt_optimizer 2 2 'optimizer.safetensors: is damaged' train toy.yml --set load=hurt \
    --set train_micro_batch_size_per_gpu=1

# An incomplete checkpoint is passed over, with a warning that names it.
mkdir saved/global_step7
works incomplete 1 train toy.yml --set load=saved --set exit-interval=2
grep -q 'warning: saved/global_step7' incomplete.log || wrong "incomplete: nothing warns"
grep -q 'loaded saved/global_step1' incomplete.log || wrong "incomplete: loaded something else"

# A folder that cannot be written and a disk that is full end the run with their names, and the
# checkpoint that was there before still loads.
cannot_save() {
    local name=$1 ranks=$2
    fails "$name" 1 "$ranks" "$3" train toy.yml --set load="$4" --set save="$4" \
        --set exit-interval=2 --set train_micro_batch_size_per_gpu=$((2 / ranks))
    works "$name.after" 1 train toy.yml --set load="$4" --set exit-interval=2
    grep -q "loaded $4/global_step1" "$name.after.log" || wrong "$name: loaded something else"
}
echo 'extra-save-iters: [1]' >>toy.yml
echo file >file
fails not_a_folder 1 2 'file' train toy.yml --set save=file/saved --set exit-interval=1
rmdir saved/global_step7
mkdir small
if mount -t tmpfs -o size=2m none small 2>/dev/null; then
    cp -r saved small/saved
    cannot_save full_1 1 'small/saved/.tmp-global_step2/.*: No space left' small/saved
    cannot_save full_2 2 'small/saved/.tmp-global_step2/.*: No space left' small/saved
    mount -o remount,ro small
    cannot_save read_only 2 'small/saved/.*: Read-only' small/saved
    umount small
fi
(
    ulimit -f 500
    cannot_save limited 1 'saved/.tmp-global_step2/.*: File too large' saved
    exit $failed
) || failed=1

# One rank that fails alone, at start and at work, ends all of them and is named.
cat >other.sh <<'END'
if [ "$OMPI_COMM_WORLD_RANK" = 1 ]; then exec "$TRIFOLD" "$@" --set "$OTHER"; fi
exec "$TRIFOLD" "$@"
END
alone() {
    export OTHER=$4
    launch=(bash other.sh)
    fails "$1" "$2" 2 "$3" train toy.yml
    launch=()
}
alone alone_config 2 'rank 1: .*hidden_size' hidden-size=62
alone alone_data 2 'rank 1: gone.idx' data-path=gone
alone alone_weights 2 'rank 1: load: /nowhere' load=/nowhere
alone alone_token 2 'rank 1: foreign.bin: token' data-path=foreign

# A rank that is killed takes the job with it.
launch=(bash -c 'echo $$ >pid.$OMPI_COMM_WORLD_RANK; exec "$TRIFOLD" "$@"' trifold)
trifold 2 train toy.yml --set log-dir=killed --set train-iters=100000 >killed.log 2>&1 &
pid=$!
while kill -0 $pid && [ "$(cat killed/metrics.jsonl 2>/dev/null | wc -l)" -lt 2 ]; do sleep 0.05; done
begin=$SECONDS
kill -KILL "$(cat pid.1)"
wait $pid && wrong "killed: exit status 0"
[ $((SECONDS - begin)) -le 30 ] || wrong "killed: the others went on for $((SECONDS - begin)) s"
exit $failed
