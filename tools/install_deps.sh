#!/bin/sh
# Installs the Debian packages that Trifold is built from, only those that are missing; as root, or
# with sudo. With --list it only names them, with --bench it adds what bench/ needs.
set -eu

# libdnnl-dev looks for OpenCL when it is found by CMake, but does not depend on it.
build="gcc libc6-dev cmake ninja-build pkg-config
    openmpi-bin libopenmpi-dev libdnnl-dev ocl-icd-opencl-dev libzfp-dev libyaml-dev libpcre2-dev libutf8proc-dev
    libjansson-dev libxxhash-dev libcmocka-dev"
use="bible-kjv python3"
check="clang-format-14"
bench="python3-venv g++"

wanted="$build $use"
list=no
for option in "$@"; do
    case $option in
    --list) list=yes ;;
    --bench) wanted="$wanted $bench" ;;
    *)
        echo "install_deps: unknown option \"$option\"; --list or --bench" >&2
        exit 2
        ;;
    esac
done
if [ $list = yes ]; then
    echo $wanted $check
    exit 0
fi
if ! command -v apt-get >/dev/null; then
    echo "install_deps: no apt-get: install the equivalents of:" $wanted >&2
    exit 1
fi

installed() {
    [ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

missing=
for package in $wanted; do
    installed "$package" || missing="$missing $package"
done
# Releases after Debian 12 have another clang-format; tools/format.sh tells when it cannot check.
for package in $check; do
    installed "$package" || want_check="${want_check-} $package"
done
if [ -z "$missing${want_check-}" ]; then
    echo "install_deps: nothing is missing"
    exit 0
fi

as_root=
if [ "$(id -u)" != 0 ]; then
    as_root=sudo
    if ! command -v sudo >/dev/null; then
        echo "install_deps: neither root nor sudo; as root: apt-get install$missing" >&2
        exit 1
    fi
fi
apt() {
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=300 "$@" \
        </dev/null >/dev/null
}

# Where the lists cannot be fetched, those that are there may do.
apt update || echo "install_deps: the package lists could not be updated; going on with the old ones"
for package in ${want_check-}; do
    if apt-cache show "$package" >/dev/null 2>&1; then
        missing="$missing $package"
    else
        echo "install_deps: no package $package here: the format will not be checked"
    fi
done
[ -n "$missing" ] || exit 0
echo "install_deps: installing$missing"
apt install -y --no-install-recommends $missing
