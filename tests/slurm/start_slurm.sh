#!/usr/bin/env bash
# Start Slurm with three virtual nodes on this machine, as root, or stop it again; start a node that failed.
#
#   start_slurm.sh start DIR     everything lies in DIR; clients use it with SLURM_CONF=DIR/slurm.conf
#   start_slurm.sh stop DIR      cancels what runs and ends the daemons
#   start_slurm.sh node DIR NAME  starts the daemon of a node that was killed, and waits until the node is idle
#
# The nodes of the partition "test", one and two, pretend to have four processors each, and bind no task to any.
# Jobs in the partition "patient", on the same nodes, make way for those in "urgent" after a grace of a second.
# The node of the partition "gpu", bound, has the processors of this machine and binds tasks to them. Each has
# 8000 MiB and two GPUs. Nothing of an installed Slurm's own configuration is read or changed.
set -euo pipefail

action=$1
mkdir -p "$2"
dir=$(realpath "$2")
export SLURM_CONF=$dir/slurm.conf

free_ports() {
    python3 - "$1" <<'PYTHON'
import socket, sys
sockets = [socket.socket() for _ in range(int(sys.argv[1]))]
for one in sockets:
    one.bind(("127.0.0.1", 0))
print(*(one.getsockname()[1] for one in sockets))
PYTHON
}

write_configuration() {
    local host processors controller first second third
    host=$(hostname -s)
    # Not as many as OpenMP may have threads, which a test that ran before can have changed.
    processors=$(env -u OMP_NUM_THREADS -u OMP_THREAD_LIMIT nproc)
    read -r controller first second third < <(free_ports 4)
    cat >"$SLURM_CONF" <<CONF
ClusterName=papilio
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$controller
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
# Credentials of five seconds: a requeued job starts after so long, by default after two minutes.
AuthInfo=socket=$dir/munge.socket,cred_expire=5
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/spool-%n
SlurmctldPidFile=$dir/slurmctld.pid
SlurmdPidFile=$dir/slurmd-%n.pid
SlurmctldLogFile=$dir/slurmctld.log
SlurmdLogFile=$dir/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SlurmdParameters=config_overrides
SchedulerParameters=sched_interval=1,bf_interval=1,batch_sched_delay=0,sched_min_interval=0
GresTypes=gpu
MinJobAge=3600
DefMemPerCPU=500
KillWait=10
ReturnToService=2
MpiDefault=none
NodeName=one NodeHostname=$host NodeAddr=127.0.0.1 Port=$first CPUs=4 RealMemory=8000 Gres=gpu:2
NodeName=two NodeHostname=$host NodeAddr=127.0.0.1 Port=$second CPUs=4 RealMemory=8000 Gres=gpu:2
NodeName=bound NodeHostname=$host NodeAddr=127.0.0.1 Port=$third CPUs=$processors RealMemory=8000 Gres=gpu:test:2
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
PartitionName=test Nodes=one,two Default=YES MaxTime=60 State=UP PreemptMode=OFF
PartitionName=patient Nodes=one,two MaxTime=60 State=UP GraceTime=1
PartitionName=urgent Nodes=one,two MaxTime=60 State=UP PriorityTier=10 PreemptMode=OFF
PartitionName=gpu Nodes=bound MaxTime=60 State=UP PreemptMode=OFF
DebugFlags=NO_CONF_HASH
CONF
    # Character devices that every machine has stand for the GPUs.
    cat >"$dir/gres.conf" <<CONF
NodeName=one,two Name=gpu File=/dev/null,/dev/zero
NodeName=bound Name=gpu Type=test File=/dev/null,/dev/zero
CONF
    mkdir -p "$dir/bound"
    sed 's,^TaskPlugin=.*,TaskPlugin=task/affinity,' "$SLURM_CONF" >"$dir/bound/slurm.conf"
    cp "$dir/gres.conf" "$dir/bound"
}

start() {
    chmod 755 "$dir"
    mkdir -p "$dir/state"
    write_configuration
    (umask 077 && dd if=/dev/urandom of="$dir/munge.key" bs=128 count=1 status=none)
    munged --force --key-file="$dir/munge.key" --socket="$dir/munge.socket" --pid-file="$dir/munged.pid" \
        --log-file="$dir/munged.log" --seed-file="$dir/munged.seed" --num-threads=2
    slurmctld -c -f "$SLURM_CONF"
    slurmd -N one -f "$SLURM_CONF"
    slurmd -N two -f "$SLURM_CONF"
    slurmd -N bound -f "$dir/bound/slurm.conf"
    wait_until_idle || { stop; return 1; }
}

# Wait until all nodes are idle: those given, or all.
wait_until_idle() {
    local tries
    for ((tries = 0; tries < 900; tries++)); do
        if [[ $(sinfo --noheader --Node --format=%T ${1:+--nodes="$1"} 2>/dev/null | sort --unique) == idle ]]; then
            return
        fi
        sleep 0.1
    done
    echo "not idle after 90 s:" >&2
    sinfo --Node --long >&2 || true
    tail -n 20 "$dir"/*.log >&2
    return 1
}

start_node() {
    slurmd -N "$1" -f "$SLURM_CONF"
    scontrol update NodeName="$1" State=RESUME || true
    wait_until_idle "$1"
}

stop() {
    local file pid tries pids=()
    timeout 5 scancel --user=root 2>/dev/null || true
    for ((tries = 0; tries < 100; tries++)); do
        [[ -n $(timeout 5 squeue --noheader 2>/dev/null) ]] || break
        sleep 0.1
    done
    for file in "$dir"/slurmd-*.pid "$dir/slurmctld.pid" "$dir/munged.pid"; do
        [[ -f $file ]] || continue
        pid=$(<"$file")
        kill "$pid" 2>/dev/null || continue
        pids+=("$pid")
    done
    for ((tries = 0; tries < 50; tries++)); do
        [[ ${#pids[@]} -gt 0 ]] && kill -0 "${pids[@]}" 2>/dev/null || return 0
        sleep 0.1
    done
    kill -KILL "${pids[@]}" 2>/dev/null || true
}

case $action in
    start) start ;;
    stop) stop ;;
    node) start_node "$3" ;;
    *) echo "usage: start_slurm.sh start|stop DIR, or node DIR NAME" >&2; exit 2 ;;
esac
