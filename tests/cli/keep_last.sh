# Old checkpoints are removed, but for those asked for by number and the one just saved.
. "$(dirname "$0")/lib.sh"

toy toy.yml 'save: saved' 'checkpoint-factor: 2' 'keep-last-n-checkpoints: 2' \
    'extra-save-iters: [2]'

# holds STEP...: the complete checkpoints in `saved`.
holds() {
    local found
    found=$(ls saved/*/manifest.json | sed -E 's/.*global_step([0-9]+).*/\1/' | sort -n | xargs)
    [ "$found" = "$*" ] || wrong "saved holds $found, not $*"
    [ "$(ls -A saved | grep -c '^\.')" = 0 ] || wrong "saved holds temporary folders"
}

works first 1 train toy.yml --set exit-interval=10
holds 2 8 10

# A run that goes back to an earlier step keeps what it saves; what is not complete does not count.
mkdir saved/global_step99
works back 1 train toy.yml --set load=saved/global_step2 --set exit-interval=4
holds 2 4 10
[ "$(cat saved/latest)" = global_step4 ] || wrong "latest is $(cat saved/latest)"
[ -d saved/global_step99 ] || wrong "removed what is not its own"
exit $failed
