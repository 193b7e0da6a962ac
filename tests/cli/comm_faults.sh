# What happens to a job when a rank is late, dies or disagrees, and when the launcher is foreign.
set -u
faults=$(dirname "$TRIFOLD")/tests/comm_faults
failed=0

# expect NAME STATUS SECONDS TEXT COMMAND...: exit status (or "nonzero"), time and a line of output.
expect() {
    local name=$1 code=$2 limit=$3 text=$4
    shift 4
    local begin=$SECONDS
    timeout 60 "$@" >"$name.log" 2>&1
    local got=$? took=$((SECONDS - begin))
    if [ "$got" = "$code" ] || { [ "$code" = nonzero ] && [ "$got" != 0 ]; }; then :; else
        echo "$name: exit status $got, expected $code"
        failed=1
    fi
    if [ "$took" -gt "$limit" ]; then
        echo "$name: took $took s, allowed $limit s"
        failed=1
    fi
    if ! grep -q "$text" "$name.log"; then
        echo "$name: nothing says \"$text\":"
        cat "$name.log"
        failed=1
    fi
}

run="mpirun -n 3 --oversubscribe --bind-to none $faults"
expect none 0 20 '^3 ranks$' $run none
expect late 1 20 'allreduce of gradients along data (100000 elements of fp32) has not moved for .* waiting for rank 1;' $run late
expect killed nonzero 20 'signal 9' $run killed
expect after_killed 0 20 '^3 ranks$' $run none # nothing is left that hinders the next start
expect lengths 1 20 'broadcast of parameters (data): world rank 0 sent more bytes than this rank expects' $run lengths
expect differ 1 20 'call 1 of the group: world rank 2 calls allreduce of 100000 elements of int32 .*, rank 0 calls allreduce of 100000 elements of fp32' $run differ
expect abort 7 20 '' $run abort 7

# Without mpirun it is a job of one; where another MPI's launcher started it, it must not be.
differ='trifold: launcher and libmpi differ: .* is 4 but MPI sees 1 rank'
expect alone 0 20 '^1 ranks$' "$faults" none
expect open_mpi 2 20 "$differ" env OMPI_COMM_WORLD_SIZE=4 "$faults" none
expect hydra 2 20 "$differ" env PMI_SIZE=4 PMI_RANK=1 "$faults" none
expect srun 2 20 "$differ" env SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=4 SLURM_NTASKS=4 "$faults" none
expect batch 0 20 '^1 ranks$' env SLURM_JOB_ID=5 SLURM_NTASKS=4 "$faults" none
expect garbled 0 20 '^1 ranks$' env PMI_SIZE=4x "$faults" none
exit $failed
