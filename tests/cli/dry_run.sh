# A dry run describes any grid, also one that is not there, and writes nothing.
. "$(dirname "$0")/lib.sh"

toy toy.yml 'save: saved' 'log-dir: log' 'extra-save-iters: [1]'

# describes NAME TEXT...: a dry run says each of the texts.
describes() {
    local name=$1 text
    shift
    for text; do
        grep -Eq -- "$text" "$name.log" || wrong "$name: nothing says \"$text\""
    done
    [ ! -e saved ] && [ ! -e log ] || wrong "$name: wrote something"
}

works one 1 train toy.yml --dry-run
describes one '2 layers, hidden 64, 4 heads' '0.12 million parameters' 'memory a rank: ' \
    'traffic a rank' 'batch: 2 samples' 'data 0$'
works grid 1 train toy.yml --dry-run --set pipe-parallel-size=2 --set model-parallel-size=2 \
    --set gradient_accumulation_steps=4
describes grid 'pipe 0 +0' 'pipe 1 +2' 'memory a rank of stage 1: .* layers 1-1' 'traffic a rank' \
    'zero stage: 0' 'pipeline: 1f1b, 2 stages x 1 part, 4 micro-batches, bubble 20.0%'
works eight 8 train toy.yml --dry-run --set pipe-parallel-size=2 --set model-parallel-size=2 \
    --set 'zero_optimization={stage: 1}'
describes eight 'data 0 +data 1' 'pipe 1 +4' 'zero stage: 1' 'x 2 data ranks'

# Grids that the model does not fit are refused before anything is allocated.
fails layers 2 4 'pipe_parallel_size 4 is more than num_layers 2' train toy.yml --set pipe-parallel-size=4
fails heads 2 8 'num_attention_heads 4.*model_parallel_size 8' \
    train toy.yml --set model-parallel-size=8
fails odd_batches 2 2 'multiple of the 2 stages, not 3; gradient-accumulation-steps of 4' \
    train toy.yml --set pipe-parallel-size=2 --set pipe-schedule=interleaved \
    --set virtual-pipe-stages=2 --set num-layers=4 --set gradient_accumulation_steps=3
fails no_chunks 2 2 'interleaved takes several' train toy.yml --set pipe-parallel-size=2 \
    --set virtual-pipe-stages=2
# Without the dry run what this version lacks is refused, by name.
fails zero_refused 2 2 'zero' train toy.yml --set 'zero_optimization={stage: 1}'

# A model that no machine holds is described or refused, and nothing wraps.
works large 1 train toy.yml --dry-run --set hidden-size=65536 --set num-layers=100
describes large 'parameters'
trifold 1 train toy.yml --dry-run --set hidden-size=2147483640 >huge.log 2>&1
[ $? -le 2 ] || wrong "huge: ended by a signal"
if grep -Eq 'Sanitizer|runtime error' huge.log; then wrong "huge: a sanitizer speaks"; fi

# The configurations that come with the program, on other data.
data text "$(seq -s , 1 500),$(seq -s , 1 500),$(seq -s , 1 500),$(seq -s , 1 500),$(seq -s , 1 99)"
for config in "$TRIFOLD_SOURCE"/configs/*.yml; do
    name=$(basename "$config" .yml)
    vocab=()
    grep -q CharLevel "$config" || vocab=(--set vocab-size=50257 --set vocab-file=null)
    works "$name" 1 train "$config" --dry-run --set data-path=text --set split=100,0,0 \
        --set train-data-paths=null --set valid-data-paths=null --set test-data-paths=null \
        --set eval-iters=0 --set save=null --set log-dir=null --set checkpoint-factor=null \
        --set train-iters=10 "${vocab[@]}"
    describes "$name" 'million parameters' 'memory a rank'
done
exit $failed
