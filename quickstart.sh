#!/bin/sh
# From a fresh checkout to a trained model: installs what is missing, builds, prepares the King James
# Bible, trains a character model on it with two ranks and draws the loss. About five minutes on two
# cores. Run again it repeats the training only.
set -eu

cd "$(dirname "$0")"
trifold=build/release/trifold
run=runs/quickstart
started=$(date +%s)

say() {
    echo "quickstart: $*"
}

say "1/6 packages"
tools/install_deps.sh

say "2/6 build"
mkdir -p build
{ cmake --preset release && cmake --build --preset release --target trifold; } \
    >build/quickstart.log 2>&1 || {
    tail -n 30 build/quickstart.log
    say "the build failed; the whole log is build/quickstart.log"
    exit 1
}

say "3/6 text: the King James Bible, a chapter a document"
[ -s data/bible.jsonl ] || data/bible.sh

say "4/6 tokens: one character a token"
[ -s data/bible.bin ] && [ -s data/bible.idx ] ||
    $trifold prep --input data/bible.jsonl --output data/bible --tokenizer CharLevelTokenizer \
        --append-eod

say "5/6 training: 3.4 million parameters, two ranks, 300 steps"
# Ranks that wait for each other leave the core to the other one.
export OMP_WAIT_POLICY=passive
as_root=
if [ "$(id -u)" = 0 ]; then
    as_root=" --allow-run-as-root"
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi
rm -rf $run
mpirun -n 2 --oversubscribe --bind-to none $trifold train configs/quickstart.yml </dev/null || {
    status=$?
    say "the training ended early, with exit status $status; what it wrote is in $run"
    exit $status
}

say "6/6 the loss curve"
python3 tools/plot_loss.py -o $run/loss.svg --title "King James Bible, one character a token" $run \
    >/dev/null

say "done in $(($(date +%s) - started)) s: the loss curve is $PWD/$run/loss.svg"
say "try next: mpirun -n 2 --oversubscribe$as_root $trifold train configs/quickstart.yml --set train-iters=1000 --set log-dir=runs/longer --set save=runs/longer/checkpoints"
