# What users get wrong in a configuration or on the command line: one line that names it, exit
# status 2, on every number of ranks, and nothing is written.
. "$(dirname "$0")/lib.sh"

toy toy.yml 'save: saved' 'extra-save-iters: [1]'

# refuses NAME RANKS TEXT ARGUMENT...: training the toy so is a configuration error that says TEXT.
refuses() {
    local name=$1 ranks=$2 text=$3
    shift 3
    fails "$name" 2 "$ranks" "$text" train toy.yml "$@"
    [ ! -e saved ] || wrong "$name: made a checkpoint folder"
    rm -rf saved
}

# The command line.
fails no_command 2 1 'no sub-command'
fails command 2 1 'unknown sub-command "tarin"' tarin
fails command_4 2 4 'unknown sub-command "tarin"' tarin
fails option_2 2 2 'unknown option "--dryrun"' train toy.yml --dryrun
fails no_file 2 1 'no configuration; name at least one' train
fails missing_2 2 2 'nowhere.yml' train nowhere.yml
refuses device 1 'device' --device abacus

# M01: unknown keys, with their place and the nearest one.
echo 'train_micro_batch_size_per_gpus: 4' >typo1.yml
echo 'fp16: {fp16: true}' >typo3.yml
fails typo1 2 1 'typo1.yml:1:.*train_micro_batch_size_per_gpu[^s]' train toy.yml typo1.yml
sed 's/betas: \[/beta: [/' toy.yml >typo2.yml
fails typo2 2 2 'typo2.yml:9:.*betas' train typo2.yml
fails typo4 2 1 'fp16.*nearest' train toy.yml --set 'fp16={enabled: true, fp17: true}'
fails typo3 2 1 'typo3.yml:1:.*enabled' train toy.yml typo3.yml

# M02: numbers and what is none.
for number in '"fast"' 1e 0x10 nan -1; do
    refuses "number" 1 'lr' --set "optimizer.params.lr=$number"
done
bits=
for number in 1e-3 1E-3 1.0e-3 .001 +1e-3 0.001; do
    works number 1 train toy.yml --set "optimizer.params.lr=$number" --set log-dir=number \
        --set train-iters=2 --set lr-decay-iters=20 --set save=number
    line=$(sed -E 's/"samples_per_sec.*//' number/metrics.jsonl)
    [ -z "$bits" ] || [ "$line" = "$bits" ] || wrong "lr $number is another number"
    bits=$line
    rm -r number
done

# M03: batch sums on two data ranks.
sums=(train toy3.yml)
grep -v micro_batch toy.yml >toy3.yml
fails sum1 2 2 '10.*2.*2.*(8|12)' "${sums[@]}" --set train_batch_size=10 \
    --set train_micro_batch_size_per_gpu=2
fails sum2 2 2 '4' "${sums[@]}" --set train_batch_size=4 --set train_micro_batch_size_per_gpu=4
works sum3 2 "${sums[@]}" --set train_micro_batch_size_per_gpu=2 \
    --set gradient_accumulation_steps=3 --dry-run
grep -q 'batch: 12 samples' sum3.log || wrong "sum3: the batch is not 12"
fails sum4 2 2 'alone does not fix the batch; give' "${sums[@]}" --set gradient_accumulation_steps=3
fails sum5 2 2 '12.*16' "${sums[@]}" --set train_batch_size=12 \
    --set train_micro_batch_size_per_gpu=2 --set gradient_accumulation_steps=4

# M04: grids that do not fit.
refuses grid1 4 '4.*8' --set pipe-parallel-size=4 --set model-parallel-size=2
refuses grid2 3 '3.*2' --set pipe-parallel-size=2
refuses grid3 4 '6.*4' --set model-parallel-size=4 --set num-attention-heads=6 \
    --set hidden-size=96
refuses grid4 1 '62.*4' --set hidden-size=62
refuses grid5 1 'model.parallel.size' --set model-parallel-size=0
refuses grid6 1 'pipe.parallel.size' --set pipe-parallel-size=-1

# M11: weights that are not there, or of another model.
mkdir empty
refuses load1 2 '/nowhere' --set load=/nowhere
refuses load2 1 'empty' --set load=empty
works first 1 train toy.yml --set train-iters=1 --set save=first
refuses load3 2 'hidden-size is 64 there, 128' --set load=first --set hidden-size=128
fails no_load 2 1 '--load' eval toy.yml
for load in /nowhere empty; do
    works present 1 train toy.yml --set load=$load --set load-if-present=true \
        --set train-iters=1 --set save=present
    grep -q 'starting anew' present.log || wrong "load-if-present says nothing of $load"
done

# M13, M14: blends and parts that are too small.
grep -v data-path toy.yml >blend.yml
paths=(--set valid-data-paths='[d40]' --set test-data-paths='[d40]' --set save=null)
fails blend 2 2 'train_data_weights has 3 entries and train_data_paths 2' train blend.yml \
    "${paths[@]}" --set 'train-data-paths=[d40, d40]' --set 'train-data-weights=[1, 2, 3]'
for weights in '[5, 3, 2]' '[0.5, 0.3, 0.2]'; do
    works blend3 2 train blend.yml "${paths[@]}" --set 'train-data-paths=[d40, d40, d40]' \
        --set "train-data-weights=$weights" --set train-iters=1 --set log-dir="blend$weights"
done
metrics same 'blend[5, 3, 2]/metrics.jsonl' 'blend[0.5, 0.3, 0.2]/metrics.jsonl' 1 1
data d3 d3
refuses tiny1 1 'train.*9 tokens' --set data-path=d3
data uneven "$(seq -s , 100)" 1,2,3
refuses tiny2 2 'valid: .* 3 tokens' --set eval-iters=1 --set split=50,50,0 --set data-path=uneven
refuses tiny3 1 'valid: .* 0 documents' --set eval-iters=1 --set split=99,1,0 --set data-path=uneven
works tiny4 1 train toy.yml --set split=50,50,0 --set data-path=uneven --set train-iters=1 \
    --set save=null
refuses no_data 2 'gone' --set data-path=gone

# M21: the wrong launcher.
for variable in OMPI_COMM_WORLD_SIZE PMI_SIZE; do
    export $variable=4
    refuses launcher 1 'launcher and libmpi differ'
    unset $variable
done
refuses alone 1 '1.*2.*mpirun' --set pipe-parallel-size=2
exit $failed
