#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# A volume that changes hands while links, targets and hosts are taken away at
# random. The owner verifies the block device (fio), registered memory
# (weft-memtest), and generations of blocks that outlive the owner. Runs on
# host0; host0 and host1 are the initiators, host2 the target. FAULTS_SEED
# repeats the faults, SOAK_SECONDS sets how long they go on.
# lab-own: --hosts 3 --memory 1536M --peer-topology nvme
# lab-kernel: none
# lab-more: uml
. "${0%/*}/lib.sh"

nqn=nqn.2014-08.org.example
collector=10.77.1.1:7700
keep_alive=$(slow 2)
# An owner's lease is eight of these intervals, in ms.
heartbeat=$(slow 200)
# at HOST COMMAND: the shell command on that host, with the functions of the tests.
at() {
	if [ "$1" = 0 ]; then
		bash -c ". tests/system/lib.sh; $2"
	else
		on_host "host$1" ". tests/system/lib.sh; $2"
	fi
}
# Initiator N reaches the target by this network and this port.
net() { echo "10.77.$(($1 + 2))"; }
port() { echo "44$(($1 + 4))0"; }
uris() {
	local n
	for n in 0 1 2; do printf 'rdma://%s.3:%s/%s ' "$(net "$1")" "$(port "$1")" "$nqn:d$n"; done
}

# What the hosts do each time they boot. Soft-RoCE cannot send while a queueing discipline is put in place, so netem
# comes before the first packet. The kernel calls a task hung after 600 s, as I/O may wait for a path for so long.
serve="set -e; modprobe -a nvmet-rdma rdma_rxe; local_nvmes 4
	for net in $(net 0) $(net 1); do
		device=\$(net_device \$net); ip link set \$device mtu 9000; netem \$device
		rdma link add rxe_\$device type rxe netdev \$device
	done
	for n in 0 1 2; do
		nvmet_serve $nqn:d\$n \$(nvme_local nvme\$n) rdma $(net 0).3 $(port 0) \
			device_uuid=00000000-0000-0000-0000-0000000000d\$n
	done
	nvmet_port $(port 1) rdma $(net 1).3 $(port 1)
	for n in 0 1 2; do nvmet_offer $nqn:d\$n $(port 1); done"
initiate() {
	at "$1" "set -e; modprobe weft heartbeat_ms=$heartbeat
		sysctl -q -w kernel.hung_task_timeout_secs=600
		netem \$(net_device $(net "$1")); soft_roce_on \$(net_device $(net "$1"))"
}

# --- The volume's owner
owns() { # HOST [OPTION...]
	at "$1" "weftctl assemble v $(uris "$1") --keep-alive $keep_alive --reconnect-delay 1 ${*:2}"
}
releases() { at "$1" "weftctl stop v && weftctl disconnect --all"; }
state() { at "$1" "status_of v '[.state, .ownership, (.members[].state)] | join(\" \")'"; }
is_well() { [ "$(state "$1")" = "live held ok ok ok" ]; }
has_lost() { [ "$(at "$1" "cat '/sys/block/weft!v/weft/ownership'")" = lost ]; }

# Host N's own MiB for fio and for registered memory; the blocks with generations are for all. A registration may be
# refused while a target is away; a command may not.
works() {
	at "$1" "rm -f /tmp/work.*; memory_seed=\$EPOCHSECONDS
		memory() {
			local persistent=''
			memory_seed=\$((memory_seed + 1))
			[ \$((memory_seed % 2)) = 0 ] || persistent=--persistent
			weft-memtest v verify pages \$persistent --seed=\$memory_seed --count=16 --largest=65536 \
				--size=1048576 $(memory_part "$1") ||
				tail -n 1 /tmp/work.memory.out | grep -q '^weft-memtest: register: '
		}
		generations() { $generations --until=/tmp/work.end --pause=\$(awk 'BEGIN { print $LAB_SLOW * 0.02 }'); }
		work_begin fio random_verify /dev/weft/v --offset=$((32 * $1))m --size=16m
		work_begin memory memory
		work_begin generations generations
		until_true 60 grep -q 'blocks are there' /tmp/work.generations.out || { cat /tmp/work.*.out; false; }"
}
memory_part() { echo "--from=$(((64 + 32 * $1) << 20)) --span=$((32 << 20))"; }
# Each sixteenth block is on two members.
generations="tests/system/weft_generations.py write /dev/weft/v $collector --from=$(((128 << 20) + (62 << 10)))
	--blocks=192 --stride=$((68 << 10))"
generations=${generations//[$'\n\t']/ }
works_on() { at "$1" work_runs; }
work_is_over() { at "$1" "work_end 120"; }

# After its volume was taken, a host may have errors, and must have an end. What it has read is not wrong.
ends_as_loser() {
	until_true 90 has_lost "$1" || { echo "host$1 has not learnt its loss: $(state "$1")"; return 1; }
	at "$1" "touch /tmp/work.end; until_true 120 work_has_ended || { work_hangs; exit 1; }
		test -s /tmp/work.memory.out || exit 1
		wrong='verify: \|verify failed\|^wrong:\|^# 0 commands failed, [1-9]'
		! grep -h \"\$wrong\" /tmp/work.{fio,memory,generations}.out" || return
	until_true 60 releases "$1"
}

# --- Faults: host $owner has the volume, host $other is ready
# cut, heal HOST SIDE: no packet leaves the initiator (0) for the target, the target for it (1), or either (2).
nowhere="netem \$(net_device NET) loss 100%"
somewhere="netem \$(net_device NET)"
each_end() { # HOST SIDE COMMAND
	local command=${3//NET/$(net "$1")}
	[ "$2" = 1 ] || at "$1" "$command" || return
	[ "$2" = 0 ] || at 2 "$command"
}
cut() { each_end "$1" "$2" "$nowhere"; }
heal() { each_end "$1" "$2" "$somewhere"; }

lose_link() { cut "$owner" "$side" && sleep "$away" && heal "$owner" "$side"; }
lose_port() {
	at 2 "for n in $1; do nvmet_withdraw $nqn:d\$n $(port "$owner"); done; sleep $away
		for n in $1; do nvmet_offer $nqn:d\$n $(port "$owner"); done"
}
lose_target() { lab-peer host2 kill && sleep "$away" && lab-peer host2 boot && at 2 "$serve"; }
swap() { local was=$owner; owner=$other other=$was; }
move() {
	work_is_over "$owner" && releases "$owner" && owns "$other" || return
	swap
	works "$owner"
}
# A write that the target has already got may be executed late (docs/promises.md): the link stays away until the target
# has ended the association.
take_over_by_link() {
	cut "$owner" "$side" && owns "$other" --take-over && swap && works "$owner" || return
	sleep "$((3 * keep_alive))" && sleep "$away"
	heal "$other" "$side" && ends_as_loser "$other"
}
take_over_by_power() {
	at "$owner" kernel_silent && lab-peer "host$owner" kill || return
	owns "$other" --take-over && swap && works "$owner" || return
	sleep "$away"
	lab-peer "host$other" boot && initiate "$other"
}

# strike KIND: draws the fault's details, and makes it.
strike() {
	local side away subsystem ends=("leaves the initiator" "leaves the target" "passes")
	draw side 3
	draw subsystem 3
	draw_seconds away 100 12000
	case $1 in
	link) fault "host$owner's link: for $away s nothing ${ends[side]}" lose_link ;;
	port) fault "host$owner's port is withdrawn for $away s" lose_port "0 1 2" ;;
	subsystem) fault "disk $subsystem is withdrawn from host$owner's port for $away s" lose_port "$subsystem" ;;
	target) fault "the target's power is cut for $away s" lose_target ;;
	move) fault "host$owner stops, host$other assembles" move ;;
	take-over) fault "host$owner's link: nothing ${ends[side]}, host$other takes over" take_over_by_link ;;
	power)
		# The first host runs this test.
		[ "$owner" != 0 ] || strike move || return
		fault "host$owner's power is cut, and host$other takes over" take_over_by_power
		;;
	esac
}
healthy() { works_on "$owner" && until_true 120 is_well "$owner" && works_on "$owner"; }

patience=$(sysctl -n kernel.hung_task_timeout_secs)
tests/system/weft_generations.py collect $collector /tmp/generations >/tmp/collector.out 2>&1 & collecting=$!
ok "generations are collected" until_true 30 bash -c ": </dev/tcp/${collector/://}"
ok "the target serves three disks" at 2 "$serve"
ok "the first host is ready" initiate 0
ok "and the second" initiate 1
# shellcheck disable=SC2046
ok "a volume" weftctl create v $(uris 0) --chunk 64K --force --keep-alive "$keep_alive" --reconnect-delay 1
owner=0 other=1
ok "fio, registered memory and generations on it" works 0

# shellcheck disable=SC2034 # Draws set them.
bad='' pause=0 kinds=()
long=${LAB_LONG:+180}
chaos_begin "${SOAK_SECONDS:-${long:-60}}"
# Each kind of fault once, in a random order, and again until the time is over.
struck=0
is_over() { [ "$struck" -ge 7 ] && chaos_over; }
until [ -n "$bad" ] || is_over; do
	draw_order kinds link port subsystem target move take-over power
	for kind in "${kinds[@]}"; do
		strike "$kind" && healthy >/tmp/healthy.out 2>&1 || { bad=$kind; break; }
		struck=$((struck + 1))
		! is_over || break
		draw_seconds pause 100 "$(slow 4000)"
		sleep "$pause"
	done
done
is "no fault gave more than it may" "$bad" ''
[ -z "$bad" ] || { state "$owner"; cat /tmp/healthy.out; at "$owner" dmesg | tail -n 60; } 2>&1 | indented
# shellcheck disable=SC2154 # chaos_begin sets it.
note "$chaos_faults faults, $(wc -l </tmp/generations) generations acknowledged"
ok "the work of the last owner has no error" work_is_over "$owner"
at "$owner" "tail -qn 1 /tmp/work.*.out; weftctl status v" | indented
ok "it registers memory for good" at "$owner" "weft-memtest v verify pages --persistent $(memory_part "$owner")"
is "and its members have none" "$(at "$owner" "status_of v '[.members[].errors] | add'")" 0
ok "it stops" releases "$owner"
ok "the other host assembles" owns "$other"
ok "and finds all that was acknowledged to either" at "$other" "$generations"
ok "it stops" releases "$other"
is "no host was told of a write after another had the volume" "$(grep -c late /tmp/generations)" 0
kill $collecting
for host in 0 1; do
	ok "host$host: the modules unload, so nothing holds them" \
		at "$host" "rmmod weft_rdma && ok_unload && rdma link delete rxe0 && [ \$test_failed = 0 ]"
done
for host in 1 2; do ok "host$host: the kernel has nothing to report" at "$host" kernel_silent; done
sysctl -q -w kernel.hung_task_timeout_secs="$patience"
done_testing
