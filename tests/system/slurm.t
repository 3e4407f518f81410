#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Volumes for batch jobs: a Slurm cluster of this host, whose prolog and epilog provide volumes to the jobs of a
# partition.
# lab-kernel: none
# lab-needs: software:slurm
# lab-not: lab debian12
. "${0%/*}/lib.sh"

load_weft
for n in 0 1 2 3; do make_null s$n 384; done
for pair in data:0:1 scratch:2:3; do
	IFS=: read -r volume one other <<<"$pair"
	weftctl create "$volume" "/dev/s$one" "/dev/s$other" >/dev/null
	mkfs.xfs -q "/dev/weft/$volume"
	weftctl save "$volume" >/dev/null
	mount "/dev/weft/$volume" /mnt
	echo "$volume" >/mnt/name
	umount /mnt
	weftctl stop "$volume" >/dev/null
done
cat >/etc/weft/slurm-volumes <<'E'
# volume, how, mount point, partitions
data ro /data
scratch rw /scratch writers,others
E
is_up() { [ -e "/sys/block/weft!$1" ] && echo up || echo down; }
# The epilog has done all it does: the volume is gone from sysfs a moment before its name and members are free again.
stopped() { [ "$(is_up "$1")" = down ] && [ ! -e "/run/weft-slurm/$1" ]; }
both_stopped() { stopped data && stopped scratch; }

# --- A cluster
add_software slurm
useradd --system munge
# Debian's packages make these links when they are installed.
for program in /usr/sbin/*-wlm; do ln -sf "$program" "${program%-wlm}"; done
mkdir -p /etc/slurm /etc/munge /run/munge /var/log/munge /var/lib/munge /var/spool/slurm/{ctld,d}
hostname node17
# Slurm takes addresses of interfaces other than lo.
ip link add node type dummy
ip address add 10.0.0.17/24 dev node
ip link set node up
echo "10.0.0.17 node17" >>/etc/hosts
cat >/etc/slurm/slurm.conf <<E
ClusterName=lab
SlurmctldHost=node17
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
StateSaveLocation=/var/spool/slurm/ctld
SlurmdSpoolDir=/var/spool/slurm/d
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd.pid
SlurmctldLogFile=/tmp/slurmctld.log
SlurmdLogFile=/tmp/slurmd.log
ProctrackType=proctrack/pgid
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
ReturnToService=2
PrologFlags=Alloc
Prolog=/usr/share/weft/slurm/weft-prolog
Epilog=/usr/share/weft/slurm/weft-epilog
NodeName=node17 CPUs=$(nproc) State=UNKNOWN
PartitionName=readers Nodes=node17 Default=YES OverSubscribe=FORCE:4 State=UP
PartitionName=writers Nodes=node17 OverSubscribe=FORCE:4 State=UP
E
echo CgroupPlugin=disabled >/etc/slurm/cgroup.conf
head -c 128 /dev/urandom >/etc/munge/munge.key
chown -R munge: /etc/munge /run/munge /var/log/munge /var/lib/munge
chmod 400 /etc/munge/munge.key
setpriv --reuid munge --regid munge --init-groups munged
slurmctld
slurmd
state() { sinfo -h -p readers -o %T; }
idle() { state | grep -qx idle; }
drained() { state | grep -q '^drain'; }
until_true 60 idle || { sinfo -R; tail -n 20 /tmp/slurmctld.log /tmp/slurmd.log; } | indented
is "the cluster is up" "$(state)" idle
idle || done_testing

# --- A job reads
is "a job reads the volume" "$(srun -p readers cat /data/name)" data
ok "which is stopped after it" until_true 20 stopped data
is "nothing is mounted" "$(findmnt -n /data)" ""
is "nor are its options kept" "$(grep -c ' TARGET=/data ' /run/mount/utab)" 0
is "no state is left" "$(find /run/weft-slurm -mindepth 1 -not -name '*.lock')" ""
srun -p readers sh -c 'echo no >/data/name' >/tmp/out 2>&1
is "it does not write" "$(grep -c 'Read-only file system' /tmp/out)" 1
ok "and is stopped" until_true 20 stopped data
is "systemd unmounts it before the network goes down" \
	"$(srun -p readers grep -c ' TARGET=/data .*OPTS=.*_netdev' /run/mount/utab)" 1
ok "and it is stopped again" until_true 20 stopped data

# --- Two jobs on the node
srun -p readers sh -c 'touch /tmp/first; until [ -e /tmp/end-first ]; do sleep 0.2; done; cat /data/name' \
	>/tmp/first.out 2>&1 &
first=$!
until_true 20 test -e /tmp/first
is "a second job reads the same" "$(srun -p readers cat /data/name)" data
sleep 2
is "the volume stays for the first" "$(is_up data)" up
touch /tmp/end-first
wait $first
is "which read to its end" "$(cat /tmp/first.out)" data
ok "then it is stopped" until_true 20 stopped data

# --- A partition whose jobs write
ok "a job writes" srun -p writers sh -c 'echo result >/scratch/result && cat /data/name'
ok "both are stopped" until_true 20 both_stopped
is "the next one finds it" "$(srun -p writers cat /scratch/result)" result
ok "stopped again" until_true 20 both_stopped

# --- What was there before stays
ok "a volume is assembled by hand" weftctl assemble data --saved --read-only
mount -o ro /dev/weft/data /data
is "a job reads what is mounted already" "$(srun -p readers cat /data/name)" data
sleep 2
is "and it stays" "$(is_up data) $(findmnt -n -o TARGET /data)" "up /data"
umount /data
weftctl stop data >/dev/null

# --- What cannot be provided
mv /etc/weft/volumes/data.toml /tmp/
timeout 60 srun -p readers true >/tmp/out 2>&1 & job=$!
ok "a node without the volume is drained" until_true 60 drained
is "and slurmd's log says why" "$(grep -c 'weft-prolog: .*weftctl save data' /tmp/slurmd.log)" 1
scancel --me
wait $job
mv /tmp/data.toml /etc/weft/volumes/
prolog() { env SLURM_JOB_ID="$1" SLURM_JOB_PARTITION=readers /usr/share/weft/slurm/weft-prolog; }
epilog() { env SLURM_JOB_ID="$1" /usr/share/weft/slurm/weft-epilog; }
mount -t tmpfs none /data
refused "another filesystem at its place" 1 "is not volume data, or not ro" prolog 7
umount /data
ok "and what it had assembled" epilog 7
is "is stopped" "$(is_up data)" down
printf 'data ro /data' >/etc/weft/slurm-volumes
ok "a last line without its end counts" prolog 8
is "the volume is there" "$(cat /data/name)" data
ok "the epilog" epilog 8
is "takes it away" "$(is_up data)" down
printf '# one\ndata rx /data\n' >/etc/weft/slurm-volumes
refused "a table that is wrong" 1 "line 2: 'data rx /data' is not of the form" prolog 9
refused "no job" 2 "SLURM_JOB_ID is not set" /usr/share/weft/slurm/weft-prolog
ok "an epilog without a prolog" epilog 99

pkill slurmd
pkill slurmctld
pkill munged
for n in 0 1 2 3; do remove_null s$n; done
done_testing
