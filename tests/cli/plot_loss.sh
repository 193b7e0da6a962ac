# tools/plot_loss.py: draws well-formed XML with the curves, and names what it cannot read.
set -u

plot="python3 $TRIFOLD_SOURCE/tools/plot_loss.py"
failures=0
check() {
    "$@" || {
        echo "failed: $*"
        failures=$((failures + 1))
    }
}
says() {
    grep -q -- "$1" "$2" || {
        echo "\"$1\" is not in $2:"
        cat "$2"
        failures=$((failures + 1))
    }
}

rm -rf runs && mkdir -p runs/raw runs/bad runs/empty
for i in $(seq 1 200); do
    echo "{\"iteration\": $i, \"loss\": $((400 - i)).5}"
done >runs/raw/metrics.jsonl
# A loss that was not finite, and a line that is still being written.
printf '{"iteration": 201, "loss": null}\n{"iteration": 202, "lo' >>runs/raw/metrics.jsonl
echo '{"iteration": 100, "part": "validation", "loss": 310, "perplexity": null}' \
    >runs/raw/evaluations.jsonl
echo '{"iteration": 1}' >runs/bad/metrics.jsonl
: >runs/empty/metrics.jsonl

check $plot -o one.svg --title 'a < b & c' runs/raw >out 2>err
check python3 -c 'import xml.dom.minidom; xml.dom.minidom.parse("one.svg")'
says 'a &lt; b &amp; c' one.svg
says 'training 205.000' one.svg
says 'validation 310.000' one.svg
says '<circle' one.svg
check $plot -o two.svg --tokens 4096 'raw=runs/raw' 'again=runs/raw/metrics.jsonl' >out
check python3 -c 'import xml.dom.minidom; xml.dom.minidom.parse("two.svg")'
says 'again: validation' two.svg
says '>tokens<' two.svg

for run in bad empty absent; do
    $plot -o none.svg runs/$run 2>err
    check [ $? -eq 2 ]
    check [ ! -e none.svg ]
    says "runs/$run" err
done
exit $((failures > 0))
