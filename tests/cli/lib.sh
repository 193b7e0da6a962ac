# Functions that the tests of the program share. Each test runs in an empty folder of its own with
# TRIFOLD and TRIFOLD_SOURCE set, counts what is wrong in `failed` and exits with it.
set -u
here=$(dirname "${BASH_SOURCE[0]}")
golden=$TRIFOLD_SOURCE/tests/golden
failed=0
rm -rf ./*

# wrong TEXT...: something is not as it must be.
wrong() {
    echo "WRONG: $*"
    failed=1
}

# trifold RANKS ARGUMENT...: the program, under mpirun where there are several ranks.
trifold() {
    local ranks=$1
    shift
    if [ "$ranks" = 1 ]; then
        timeout 120 "$TRIFOLD" "$@"
    else
        timeout 120 mpirun -n "$ranks" --oversubscribe --bind-to none "$TRIFOLD" "$@"
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

# fails NAME STATUS RANKS TEXT ARGUMENT...: the program must end with STATUS within 10 s and say
# TEXT, a regular expression, in one line "trifold: ...", which is the only such line.
fails() {
    local name=$1 code=$2 ranks=$3 text=$4 begin=$SECONDS got
    shift 4
    trifold "$ranks" "$@" >"$name.log" 2>"$name.err"
    got=$?
    [ "$got" = "$code" ] || wrong "$name: exit status $got, it should be $code"
    [ $((SECONDS - begin)) -le 10 ] || wrong "$name: took $((SECONDS - begin)) s"
    [ "$(grep -c '^trifold: ' "$name.err")" = 1 ] || wrong "$name: not one line of error"
    grep '^trifold: ' "$name.err" | grep -Eq -- "$text" || wrong "$name: nothing says \"$text\""
    if grep -Eq 'Sanitizer|runtime error' "$name.err"; then wrong "$name: a sanitizer speaks"; fi
    [ "$failed" = 0 ] || grep -h . "$name.err" | tail -n 20
}

# metrics close|same ...: compare what runs wrote, see metrics.py.
metrics() {
    python3 "$here/metrics.py" "$@" || failed=1
}
