#!/usr/bin/env bash
# Run a program under Open MPI on an emulated cluster: one network namespace a host, joined by veth
# pairs on a bridge, each link shaped at both ends by a token bucket. Needs root, iproute2 and Open
# MPI 4. All that it makes goes when it ends; several may run at once.
#
#   tools/emulate_cluster.sh [-n HOSTS] [-r RATE] [-p RANKS] [-c PERCENT] PROGRAM [ARGUMENT...]
#
#   -n HOSTS    hosts, 2 to 200 (4)
#   -r RATE     rate of each link as tc writes it, or "none" (1gbit)
#   -p RANKS    ranks on each host (1)
#   -c PERCENT  hold each host to this share of one core, for timings: without it a rank that waits
#               lends its core to the others (no limit)
#
# Example, all-reduce over four hosts with 1 Gbit/s links:
#
#   tools/emulate_cluster.sh build/release/bench/bench_comm 33554432 33554432
set -euo pipefail

hosts=4 rate=1gbit ranks=1 share=
usage() {
    sed -n 's/^#   tools/usage: tools/p' "$0" | head -1 >&2
    exit 2
}
while getopts n:r:p:c: option; do
    case $option in
    n) hosts=$OPTARG ;;
    r) rate=$OPTARG ;;
    p) ranks=$OPTARG ;;
    c) share=$OPTARG ;;
    *) usage ;;
    esac
done
shift $((OPTIND - 1))
[ $# -ge 1 ] || usage
for number in "$hosts" "$ranks" "${share:-1}"; do
    case $number in
    '' | *[!0-9]* | 0) usage ;;
    esac
done
[ "$hosts" -ge 2 ] && [ "$hosts" -le 200 ] || usage

id=tf$$
net=10.$((RANDOM % 100 + 100)).$((RANDOM % 256))
work=$(mktemp -d)

cgroup_of() { # HOST: its folder, version 1 or 2
    if [ -d /sys/fs/cgroup/cpu ]; then
        echo "/sys/fs/cgroup/cpu/$1"
    else
        echo "/sys/fs/cgroup/$1"
    fi
}

clean_up() {
    for ((i = 0; i < hosts; i++)); do
        ip netns del "$id-$i" 2>/dev/null || true
        rm -rf "/etc/netns/$id-$i"
        [ -z "$share" ] || rmdir "$(cgroup_of "$id-$i")" 2>/dev/null || true
    done
    ip link del "$id" 2>/dev/null || true
    rm -rf "$work"
}
trap clean_up EXIT

shape() { # the rest is the device, perhaps in a namespace
    [ "$rate" = none ] ||
        "$@" root tbf rate "$rate" burst 256kb latency 400ms
}

# A host's names are its own: `ip netns exec` puts the files of /etc/netns/NAME over those of /etc.
ip link add "$id" type bridge
ip link set "$id" up
for ((i = 0; i < hosts; i++)); do
    echo "$net.$((i + 1)) $id-$i" >>"$work/hosts"
done
echo "127.0.0.1 localhost" >>"$work/hosts"
for ((i = 0; i < hosts; i++)); do
    host=$id-$i
    mkdir -p "/etc/netns/$host"
    cp "$work/hosts" "/etc/netns/$host/hosts"
    ip netns add "$host"
    ip link add "$id.$i" type veth peer name eth0 netns "$host"
    ip link set "$id.$i" master "$id" up
    ip netns exec "$host" ip link set lo up
    ip netns exec "$host" ip addr add "$net.$((i + 1))/24" dev eth0
    ip netns exec "$host" ip link set eth0 up
    shape tc qdisc add dev "$id.$i"
    shape ip netns exec "$host" tc qdisc add dev eth0
    if [ -n "$share" ]; then
        group=$(cgroup_of "$host")
        mkdir "$group"
        if [ -f "$group/cpu.max" ]; then
            echo "$((share * 200)) 20000" >"$group/cpu.max"
        else
            echo 20000 >"$group/cpu.cfs_period_us"
            echo $((share * 200)) >"$group/cpu.cfs_quota_us"
        fi
    fi
done

# What mpirun uses for ssh: HOST COMMAND..., the command being words for a shell.
cat >"$work/enter" <<EOF
#!/bin/sh
host=\$1
shift
group=$(cgroup_of '')\$host
[ ! -d "\$group" ] || echo \$\$ >"\$group/cgroup.procs"
exec ip netns exec "\$host" unshare -u sh -c "hostname \$host; \$*"
EOF
chmod +x "$work/enter"

list=
for ((i = 0; i < hosts; i++)); do
    list=$list,$id-$i:$ranks
done
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
printf -v command '%q ' mpirun --host "${list#,}" -n $((hosts * ranks)) \
    --bind-to none --oversubscribe \
    --mca plm_rsh_agent "$work/enter" --mca plm_rsh_no_tree_spawn 1 \
    --mca btl tcp,self,vader --mca btl_vader_single_copy_mechanism none \
    --mca btl_tcp_if_include "$net.0/24" --mca oob_tcp_if_include "$net.0/24" \
    "$@"
"$work/enter" "$id-0" "$command"
