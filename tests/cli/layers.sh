# The layers: a module includes only itself and modules below it; MPI is called in src/comm only,
# oneDNN and CUDA in src/device only, codec libraries in src/compress only.
set -u

cd "$TRIFOLD_SOURCE" || exit 1

# From the bottom; modules of one line do not know each other. config is read by train and tools,
# who hand plain options on.
layers="base
device config
compress
comm
parallel
model zero data
checkpoint
train
tools"

failures=0
complain() {
    echo "layers: $*"
    failures=$((failures + 1))
}

declare -A level
height=0
while read -r names; do
    height=$((height + 1))
    for name in $names; do
        level[$name]=$height
    done
done <<<"$layers"

# check_include FILE:LINE MODULE INCLUDED
check_include() {
    local from=${level[$2]-} to=${level[$3]-}
    if [ -z "$from" ] || [ -z "$to" ]; then
        complain "$1: \"$2\" or \"$3\" has no place in the order of layers"
    elif [ "$2" = "$3" ]; then
        return
    elif [ "$to" -ge "$from" ]; then
        complain "$1: $2 includes $3, which is not below it"
    elif [ "$3" = config ] && [ "$2" != train ] && [ "$2" != tools ]; then
        complain "$1: $2 reads the configuration; give it plain options"
    fi
}

included=$(grep -rnoE --include='*.[ch]' --include='*.cu' --include='*.cuh' \
    '^ *# *include "[a-z_]+/' src tools | sed 's/: *# *include "/:/; s|/$||')
[ -n "$included" ] || complain "no includes found: the test looks in the wrong place"
while IFS=: read -r file line target; do
    case $file in
    tools/*) module=tools ;;
    *)
        module=${file#src/}
        module=${module%%/*}
        ;;
    esac
    check_include "$file:$line" "$module" "$target"
done <<<"$included"

# only_in MODULE WHAT PATTERN: no source outside src/MODULE matches.
only_in() {
    local hits
    hits=$(grep -rnE --include='*.[ch]' --include='*.cu' --include='*.cuh' "$3" src tools |
        grep -v "^src/$1/")
    [ -z "$hits" ] || complain "$2 belongs in src/$1:
$hits"
}
only_in comm MPI '# *include <mpi\.h>|\bMPI_[A-Z][a-z]'
only_in device oneDNN '# *include [<"](oneapi/|dnnl)|\bdnnl_[a-z]'
only_in device CUDA '# *include [<"](cuda|cublas|cudnn)|\bcu(da|blas|dnn)[A-Z]'
only_in compress zfp '# *include [<"]zfp'

[ $failures -eq 0 ] || exit 1
echo "layers: $(echo "$included" | wc -l) includes go down"
