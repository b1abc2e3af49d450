#!/usr/bin/env bash
# A real Slurm of one node, for tests: munged, slurmctld and slurmd, with devices that pass for GPUs.
#
#   start-slurm.sh start FOLDER [PID]  install Debian's packages if they are missing, configure, start;
#                                      with PID, stop as soon as that process is gone, however it ended
#   start-slurm.sh stop FOLDER         stop the daemons that this script started there
#   start-slurm.sh node-down FOLDER    take the node away: slurmd and all that runs on it
#   start-slurm.sh node-up FOLDER      bring it back
#
# Needs root and apt. Everything lies in FOLDER, but for a link: /etc/slurm/slurm.conf, because the
# jobs that Snakemake submits drop SLURM_CONF from their environment. A file beside it says that the
# link is ours and whose: what a killed run has left of both is cleared by the next start, and a
# configuration of anybody else is never touched. Only processes named by a pid file of FOLDER, or
# started by them, are ended. Memory and GPUs are counted, not fenced. Exit status 3: this machine is
# not one for it, and here is why.
set -euo pipefail

action=${1:?start, stop, node-down or node-up}
folder=$(realpath -m "${2:?a folder}")
owner=${3:-}
config=$folder/slurm.conf
# Another place than Slurm's own is for tests of this script.
system_config=${SYSTEM_CONFIG:-/etc/slurm/slurm.conf}
# Three lines: where our link points, the process that it is for, when that process began.
mark=$system_config.of-a-test
host=$(hostname -s)
gpus=4
export SLURM_CONF=$config

fail() {
    echo "error: $1" >&2
    exit 1
}

unfit() {
    echo "$1" >&2
    exit 3
}

running() { # NAME: true if the daemon of this folder is alive
    local file=$folder/run/$1.pid words
    [ -s "$file" ] || return 1
    # The number of a daemon that is long gone may be somebody else's by now.
    words=$(tr '\0' ' ' 2>/dev/null <"/proc/$(<"$file")/cmdline") || return 1
    [[ $words = *$1* ]]
}

began() { # PID: when a process began, in the system's own ticks; nothing if it is not alive
    local stat
    stat=$(cat "/proc/$1/stat" 2>/dev/null) || return 0
    # shellcheck disable=SC2086
    set -- ${stat##*) } # its name may hold spaces and brackets
    [ "$1" = Z ] || echo "${20}"
}

marked() { # NUMBER: a line of the mark
    sed -n "$1p" "$mark" 2>/dev/null
}

link_is_ours() {
    [ -L "$system_config" ] && [ -s "$mark" ] && [ "$(readlink "$system_config")" = "$(marked 1)" ]
}

clear_leftover() { # what a run that is no longer alive has left; any other link stays
    link_is_ours || return 0
    local old pid
    old=$(dirname "$(marked 1)") pid=$(marked 2)
    [ "$old" != "$folder" ] || return 0
    if [ -n "$pid" ]; then
        [ "$(began "$pid")" != "$(marked 3)" ] ||
            unfit "the Slurm of another test run (process $pid) is alive on this machine"
    elif (folder=$old && running slurmctld); then
        unfit "a Slurm that was started by hand in $old is alive: $0 stop $old"
    fi
    "$0" stop "$old"
}

link() {
    mkdir -p "$(dirname "$system_config")"
    printf '%s\n' "$config" "$owner" "${owner:+$(began "$owner")}" >"$mark"
    ln -sfn "$config" "$system_config"
}

unlink_ours() {
    link_is_ours && [ "$(marked 1)" = "$config" ] || return 0
    rm -f "$system_config" "$mark"
}

guard() { # wait for the end of the owner, then stop; nothing to do once the link is gone
    while link_is_ours && [ "$(marked 1)" = "$config" ] && [ "$(marked 2)" = "$owner" ]; do
        if [ "$(began "$owner")" != "$(marked 3)" ]; then
            stop
            return
        fi
        sleep 1
    done
}

await() { # SECONDS COMMAND...: until it succeeds
    local end=$((SECONDS + $1))
    shift
    until "$@"; do
        [ $SECONDS -lt $end ] || return 1
        sleep 0.1
    done
}

install_packages() {
    type slurmctld slurmd munged >/dev/null 2>&1 && return
    command -v apt-get >/dev/null || unfit "Slurm is not installed and there is no apt-get"
    # A policy that refuses keeps the packages from starting daemons of their own.
    local policy=/usr/sbin/policy-rc.d ours= sign="# for a test's packages"
    if [ ! -e $policy ] || grep -qF "$sign" $policy; then # or what a killed start has left
        ours=1
        printf '#!/bin/sh\n%s\nexit 101\n' "$sign" >$policy
        chmod +x $policy
    fi
    local status=0
    local patience=(-o Acquire::Retries=1 -o Acquire::http::Timeout=10)
    { apt-get update -qq "${patience[@]}" -o APT::Update::Error-Mode=any &&
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "${patience[@]}" \
            --no-install-recommends slurm-wlm munge; } >"$folder/log/apt.log" 2>&1 || status=$?
    [ -z "$ours" ] || rm -f $policy
    [ $status = 0 ] || unfit "apt-get could not install slurm-wlm: $(tail -n 1 "$folder/log/apt.log")"
}

free_port() {
    python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

write_config() {
    # A job whose node vanished is started anew once its credential has run out: cred_expire is short.
    cat >"$config" <<CONFIG
ClusterName=draftscope
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$(free_port)
SlurmdPort=$(free_port)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$folder/run/munge.socket,cred_expire=5
CredType=cred/munge
SlurmctldPidFile=$folder/run/slurmctld.pid
SlurmdPidFile=$folder/run/slurmd.pid
SlurmctldLogFile=$folder/log/slurmctld.log
SlurmdLogFile=$folder/log/slurmd.log
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool
SlurmdParameters=config_overrides
SlurmdTimeout=60
BatchStartTimeout=1
ReturnToService=2
KillWait=2
MinJobAge=600
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=1,bf_interval=1,batch_sched_delay=0
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
GresTypes=gpu
NodeName=$host NodeAddr=127.0.0.1 CPUs=8 RealMemory=64000 Gres=gpu:$gpus State=UNKNOWN
PartitionName=main Nodes=$host Default=YES MaxTime=08:00:00 State=UP
CONFIG
    # Slurm counts a GPU only where there is a character device, and numbers CUDA_VISIBLE_DEVICES by
    # the digit in its name; these are the null device under another name.
    local i
    for ((i = 0; i < gpus; i++)); do
        [ -c "$folder/gpu$i" ] || mknod "$folder/gpu$i" c 1 3
    done
    echo "NodeName=$host Name=gpu File=$folder/gpu[0-$((gpus - 1))] Flags=nvidia_gpu_env" \
        >"$folder/gres.conf"
}

node_is_up() {
    local state
    state=$(sinfo --noheader --Node --format=%t 2>/dev/null) || return 1
    case $state in
        idle | mix | alloc) return 0 ;;
        # What an earlier run left: the node is back, but not yet trusted.
        down* | drain* | inval*) scontrol update "nodename=$host" state=resume 2>/dev/null || true ;;
    esac
    return 1
}

start() {
    [ "$(id -u)" = 0 ] || unfit "starting a Slurm of our own needs root"
    mkdir -p "$folder"/{run,log,state,spool}
    chmod 755 "$folder" "$folder/run" "$folder/log"
    install_packages
    clear_leftover
    if { [ -e "$system_config" ] || [ -L "$system_config" ]; } && ! link_is_ours; then
        unfit "$system_config exists: this machine has a Slurm already"
    fi
    link
    if [ -n "$owner" ]; then
        setsid "$0" guard "$folder" "$owner" </dev/null >/dev/null 2>&1 &
    fi
    running slurmctld || write_config
    if ! running munged; then
        [ -s "$folder/munge.key" ] || (umask 077 && head -c 128 /dev/urandom >"$folder/munge.key")
        munged --force --key-file="$folder/munge.key" --socket="$folder/run/munge.socket" \
            --pid-file="$folder/run/munged.pid" --log-file="$folder/log/munged.log" \
            --seed-file="$folder/state/munge.seed"
    fi
    running slurmctld || slurmctld
    running slurmd || slurmd
    await 30 node_is_up || fail "the node does not come up; see $folder/log"
}

end() { # NAME: stop one daemon and wait for its end
    running "$1" || return 0
    local pid
    pid=$(<"$folder/run/$1.pid")
    kill "$pid"
    await 10 eval "! running $1" || kill -9 "$pid"
}

# Jobs run under a slurmstepd that outlives slurmd; ours work in the folder of our logs.
steps() {
    local process
    for process in /proc/[0-9]*; do
        if [ "$(cat "$process/comm" 2>/dev/null)" = slurmstepd ] &&
            [ "$(readlink "$process/cwd" 2>/dev/null)" = "$folder/log" ]; then
            echo "${process#/proc/}"
        fi
    done
}

with_descendants() { # PIDS...
    local pid
    for pid; do
        # shellcheck disable=SC2046
        with_descendants $(cat "/proc/$pid/task/$pid/children" 2>/dev/null)
        echo "$pid"
    done
}

node_down() {
    running slurmd && kill -9 "$(<"$folder/run/slurmd.pid")"
    # shellcheck disable=SC2046
    kill -9 $(with_descendants $(steps)) 2>/dev/null || true
}

stop() {
    running slurmctld && scancel --user=root 2>/dev/null || true
    end slurmd
    end slurmctld
    end munged
    unlink_ours
}

node_up() {
    slurmd
    await 30 node_is_up
}

case $action in
    start) start ;;
    stop) stop ;;
    guard) guard ;;
    node-down) node_down ;;
    node-up) node_up ;;
    *) fail "unknown action $action" ;;
esac
