# The same losses on every grid: see grids.py, which also has the whole list.
. "$(dirname "$0")/lib.sh"
python3 "$here/grids.py" --trifold "$TRIFOLD" --golden "$golden" || wrong "a grid strays"
exit $failed
