#!/usr/bin/env bash
# network.sh [HOSTS [RATE [DELAY]]]
# Trains on several hosts that are network namespaces of this one, whose links have this rate and delay (default: 2 hosts,
# 1gbit, 100us): that they end with the bits of one process, how far off `wherry analyze --ranks` predicts their steps, and that a job
# ends soon, with one message and a whole checkpoint, when a host is cut off in the middle. Linux, as root; Open MPI, iproute2. WHERRY: the command.
set -eu
hosts=${1:-2} rate=${2:-1gbit} delay=${3:-100us}
here=$(cd "$(dirname "$0")/.." && pwd)
wherry=${WHERRY:-$here/build/release/wherry}
silence=5
say() { printf 'network: %s\n' "$*" >&2; }
die() {
    say "$*"
    exit 1
}

[ "$(id -u)" = 0 ] || die "needs root, for network namespaces"
for tool in ip tc mpirun unshare python3; do command -v $tool >/dev/null || die "$tool is missing"; done
[ -x "$wherry" ] || die "$wherry is not built"
case $(mpirun --version) in *'Open MPI'*) ;; *) die "needs Open MPI" ;; esac

work=$(mktemp -d)
name=wherry$$
leave() {
    for ((n = 0; n < hosts; n++)); do
        # What mpirun can't end any more on a host that is cut off.
        for process in $(ip netns pids $name-$n 2>/dev/null); do kill -KILL "$process" 2>/dev/null || true; done
        ip netns del $name-$n 2>/dev/null || true
        ip link del v$$.$n 2>/dev/null || true
    done
    ip link del br$$ 2>/dev/null || true
    rm -rf "$work"
}
# A kernel without netem has tbf, which knows no delay.
link() { # NAMESPACE
    if ip netns exec "$1" tc qdisc add dev eth0 root netem rate "$rate" delay "$delay" 2>/dev/null; then return; fi
    [ "$delay" = 0us ] || say "this kernel has no netem: links have the rate, and no delay"
    delay=0us
    ip netns exec "$1" tc qdisc add dev eth0 root tbf rate "$rate" burst 256kb latency 50ms
}
trap leave EXIT
ip link add br$$ type bridge
ip link set br$$ up
list=
for ((n = 0; n < hosts; n++)); do
    ip netns add $name-$n
    ip link add v$$.$n type veth peer name eth0 netns $name-$n
    ip link set v$$.$n master br$$ up
    ip -n $name-$n addr add 10.77.0.$((n + 1))/24 dev eth0
    ip -n $name-$n link set lo up
    ip -n $name-$n link set eth0 up
    link $name-$n
    list=$list${list:+,}10.77.0.$((n + 1)):1
done

# What mpirun takes for ssh: a host's number is its address' last.
cat >"$work/enter" <<EOF
#!/bin/sh
number=\$((\${1##*.} - 1))
shift
exec ip netns exec $name-\$number unshare --uts sh -c "hostname host\$number; \$*"
EOF
chmod +x "$work/enter"
run() { # in the first host
    ip netns exec $name-0 unshare --uts sh -c 'hostname host0; exec "$@"' sh mpirun --allow-run-as-root --bind-to none \
        --mca plm_rsh_agent "$work/enter" --mca btl tcp,self --mca btl_tcp_if_include eth0 --mca oob_tcp_if_include eth0 \
        --host "$list" -n "$hosts" "$@"
}

cd "$work"
python3 "$here/tests/cli/make_model.py" model
for ((n = 0; n < 64; n++)); do printf '{"query": "the %d", "answer": "boat %d %d water"}\n' $n $n $n; done >data.jsonl
train=("$wherry" train --model model --device cpu --no-check --task contrastive --data data.jsonl --batch 32)
"${train[@]}" --quiet --shards 8 --steps 20 --out alone
run "${train[@]}" --steps 20 --out together
cmp alone/model.safetensors together/model.safetensors || die "$hosts hosts have other bits than one process"
say "$hosts hosts have the bits of one process"

# MiniLM's size, a core a process; the rate as the command has it.
bench=(--config minilm-l6 --task contrastive --batch 4 --seq 64)
case $rate in
*gbit) link=${rate%gbit}Gbit/s ;;
*mbit) link=${rate%mbit}Mbit/s ;;
*) die "RATE: as in 1gbit or 100mbit" ;;
esac
# Alone, but at the same time, for hosts share this machine's cores.
for ((n = 0; n < hosts; n++)); do
    ip netns exec $name-$n "$wherry" bench train "${bench[@]}" --device cpu --threads 1 --steps 7 --quiet --json --output one_$n.json &
    alone[n]=$!
done
for ((n = 0; n < hosts; n++)); do wait "${alone[n]}"; done
for ((n = 0; n < hosts; n++)); do ip netns exec $name-$n tc qdisc del dev eth0 root; done
run "$wherry" bench train "${bench[@]}" --device cpu --threads 1 --steps 7 --quiet --json --output free.json
for ((n = 0; n < hosts; n++)); do link $name-$n; done
run "$wherry" bench train "${bench[@]}" --device cpu --threads 1 --steps 7 --quiet --json --output many.json
"$wherry" analyze --train "${bench[@]}" --device cpu --dtype f32 --ranks "$hosts" --link "$link,$delay" --measured one_0.json \
    --json --output predicted.json
python3 - >&2 <<'END'
import json
one, free, many, predicted = (json.load(open(name + ".json")) for name in ("one_0", "free", "many", "predicted"))
step = [1e3 * record["plans"][0]["step"]["host"]["median"] for record in (one, free, many)]
ways = ", ".join(f"{1e3 * predicted['ranks'][0][way]['exposed_seconds']:.0f} ms {way} the backward pass" for way in ("beside", "after"))
print("network: a step of one process takes {:.0f} ms, of all without a limit {:.0f} ms, through the links {:.0f} ms".format(*step))
print(f"network: links add {step[2] - step[1]:.0f} ms; predicted: {ways}")
END
begin=$SECONDS
run "${train[@]}" --steps 1000000 --save-every 10 --silence $silence --out cut 2>messages &
job=$!
for ((tries = 0; tries < 600; tries++)); do
    if [ -n "$(find cut.checkpoints -maxdepth 1 -name 'step-*' ! -name '*.unfinished' 2>/dev/null)" ]; then break; fi
    sleep 0.1
done
say "cutting off host $((hosts - 1)) after $((SECONDS - begin)) s"
begin=$SECONDS
ip link set v$$.$((hosts - 1)) down
# mpirun itself waits for the host that is gone until TCP gives it up, which may take minutes: it is ended here.
training() {
    for ((n = 0; n < hosts; n++)); do
        for process in $(ip netns pids $name-$n); do
            case $(cat /proc/"$process"/comm 2>/dev/null) in wherry) return 0 ;; esac
        done
    done
    return 1
}
while training && [ $((SECONDS - begin)) -lt 60 ]; do sleep 0.5; done
say "all processes ended $((SECONDS - begin)) s after that:"
kill -KILL $job 2>/dev/null || true
wait $job 2>/dev/null || true
grep '^wherry: ' messages | grep -v note: >&2 || die "without a message: $(cat messages)"
[ $((SECONDS - begin)) -le $((silence + 25)) ] || die "that is too late"
[ "$(grep '^wherry: ' messages | grep -cv note:)" -eq 1 ] || die "that is not one message"
last=$(find cut.checkpoints -maxdepth 1 -name 'step-*' ! -name '*.unfinished' | sort | tail -n 1)
[ -s "$last/model.safetensors" ] || die "the checkpoint is not whole"
"$wherry" embed --quiet --device cpu --model "$last" data.jsonl >/dev/null || die "the checkpoint does not open"
say "$last is whole"
