#!/bin/sh
# Makes the virtual environment of the comparison with PyTorch: bench/torch/setup.sh [FOLDER]
# (default build/torch-venv). Run again, it only looks whether all is there.
set -eu

root=$(cd "$(dirname "$0")/../.." && pwd)
venv=${1:-$root/build/torch-venv}

if "$venv/bin/python" -c 'import torch, transformers' 2>/dev/null; then
    echo "torch/setup: $venv is complete"
    exit 0
fi
echo "torch/setup: installing torch and transformers into $venv"
python3 -m venv "$venv"
"$venv/bin/pip" install --quiet --disable-pip-version-check numpy torch transformers
"$venv/bin/python" -c 'import torch, transformers
print("torch/setup: torch", torch.__version__, "transformers", transformers.__version__)'

# torch.compile writes C++ and has it built by the system's compiler.
command -v g++ >/dev/null || echo "torch/setup: no g++: torch.compile will not work (Debian: g++)"
