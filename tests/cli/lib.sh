# Functions that the tests of the program share. Each test runs in an empty folder of its own with
# TRIFOLD and TRIFOLD_SOURCE set, counts what is wrong in `failed` and exits with it.
set -u
here=$(dirname "${BASH_SOURCE[0]}")
golden=$TRIFOLD_SOURCE/tests/golden
failed=0
umount small 2>/dev/null # what a test that was ended has left
rm -rf ./*

# wrong TEXT...: something is not as it must be.
wrong() {
    echo "WRONG: $*"
    failed=1
}

# trifold RANKS ARGUMENT...: the program, under mpirun where there are several ranks, or what
# `launch` holds in its place.
launch=()
trifold() {
    local ranks=$1
    shift
    if [ "$ranks" = 1 ]; then
        timeout 120 "$TRIFOLD" "$@"
    else
        timeout 120 mpirun -n "$ranks" --oversubscribe --bind-to none \
            "${launch[@]:-$TRIFOLD}" "$@"
    fi
}

# works NAME RANKS ARGUMENT...: the program must exit with 0; what it says goes to NAME.log.
works() {
    local name=$1 code
    shift
    trifold "$@" >"$name.log" 2>&1
    code=$?
    if [ "$code" != 0 ]; then
        wrong "$name: exit status $code"
        cat "$name.log"
    fi
}

# fails NAME STATUS RANKS TEXT ARGUMENT...: the program must end with STATUS within 10 s (30 s here,
# since the machine may be busy) and say TEXT, a regular expression, in one line "trifold: ...",
# which is the only such line.
fails() {
    local name=$1 code=$2 ranks=$3 text=$4 begin=$SECONDS got before=$failed
    shift 4
    failed=0
    trifold "$ranks" "$@" >"$name.log" 2>"$name.err"
    got=$?
    if [ "$got:$code" = 1:2 ] && [ "$ranks" != 1 ] && ! grep -q 'Exit code:' "$name.err"; then
        # Rarely mpirun ends with 1 of its own, without its report of which rank ended how.
        trifold "$ranks" "$@" >"$name.log" 2>"$name.err"
        got=$?
    fi
    [ "$got" = "$code" ] || wrong "$name: exit status $got, it should be $code"
    [ $((SECONDS - begin)) -le 30 ] || wrong "$name: took $((SECONDS - begin)) s"
    [ "$(grep -c '^trifold: ' "$name.err")" = 1 ] || wrong "$name: not one line of error"
    grep '^trifold: ' "$name.err" | grep -Eq -- "$text" || wrong "$name: nothing says \"$text\""
    if grep -Eq 'Sanitizer|runtime error' "$name.err"; then wrong "$name: a sanitizer speaks"; fi
    [ "$failed" = 0 ] || grep -h . "$name.err" | tail -n 20
    [ "$before" = 0 ] || failed=1
}

# metrics close|same ...: compare what runs wrote, see metrics.py.
metrics() {
    python3 "$here/metrics.py" "$@" || failed=1
}

# data PREFIX KIND...: see make_data.py.
data() {
    python3 "$here/make_data.py" "$@"
}

# toy FILE LINE...: the configuration of a small model on the data set d40, with more lines.
toy() {
    local file=$1
    shift
    cat >"$file" - <(printf '%s\n' "$@") <<'END'
num-layers: 2
hidden-size: 64
num-attention-heads: 4
seq-length: 32
max-position-embeddings: 32
pos-emb: rotary
no-weight-tying: true
vocab-size: 128
optimizer: {type: Adam, params: {lr: 1e-3, betas: [0.9, 0.95]}}
min-lr: 1e-4
lr-decay-style: cosine
warmup: 0.1
train_micro_batch_size_per_gpu: 2
hidden-dropout: 0
attention-dropout: 0
split: "100,0,0"
train-iters: 20
eval-iters: 0
data-path: d40
seed: 1234
END
    [ -e d40.bin ] || data d40 d40
}
