# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-only
#
# RDMA devices: soft-RoCE and the test adapter.

# soft_roce_on INTERFACE: makes a soft-RoCE device on that interface.
soft_roce_on() {
	modprobe rdma_rxe
	# One RDMA packet for 4096 bytes; an MTU of 1500 would need four.
	ip link set "$1" mtu 9000 up
	rdma link add rxe0 type rxe netdev "$1"
}

# soft_roce ADDRESS: makes a soft-RoCE device on a dummy interface.
soft_roce() {
	ip link show dummy0 >/dev/null 2>&1 || ip link add dummy0 type dummy
	ip address add "$1/24" dev dummy0
	soft_roce_on dummy0
}

no_soft_roce() {
	rdma link delete rxe0
	ip link delete dummy0
}

# losses: the lines since the mark in which weft_rdma reports why an association ended.
losses() { log_since | grep 'weft_rdma: weft-rdma.*; recovering'; }

# ends [REASON]: how many associations of all controllers ended by an error; for a reason (an expression), or for all.
ends() {
	awk -v reason="${1:-.*}" '$1 ~ "^(" reason ")$" { sum += $2 } END { print sum + 0 }' /sys/class/weft-rdma/*/ends
}
# not_soft_roce: all reasons but one. Soft-RoCE that has to send again, as on a starved machine or after a moment in
# which it stood still, executes a registration twice, and ends the queue pair.
not_soft_roce() { echo 'timeout|keep-alive|connection|device|protocol|scan|memory|ana|reset'; }

# softhca [COUNT]: two or more test adapters (tests/hardware/softhca, topology hca) with the addresses 10.9.0.1,
# 10.9.1.1 and so on. Skips the test if the kernel does not have them.
softhca() {
	local n names='' last=$((${1:-2} - 1))
	if [ ! -d /sys/bus/pci/devices ]; then
		skip "the test adapter" "it is a PCI device, and this machine has no PCI"
		done_testing
	fi
	if ! modprobe -qn weft_softhca; then
		case ${LAB_KERNEL:-} in
		backports | lab) result 1 "this kernel has the test adapter" ;;
		*) skip "the test adapter" "it is written to the newest kernel alone" ;;
		esac
		done_testing
	fi
	for n in $(seq 0 $last); do
		ip link add "hca$n" type dummy
		ip address add "10.9.$n.1/24" dev "hca$n"
		ip link set "hca$n" up
		names=$names${names:+,}hca$n
	done
	mountpoint -q /sys/kernel/debug || mount -t debugfs debugfs /sys/kernel/debug
	ok "the adapters are there" modprobe weft_softhca netdevs="$names"
	is "and their links" "$(rdma link | grep -c '^link softhca')" $((last + 1))
	(cd /sys/bus/pci/drivers/weft_softhca && ls -d 0*) >/tmp/adapters
}

no_softhca() {
	local link
	for link in /sys/class/net/hca*; do ip link delete "${link##*/}"; done
}

# adapter N: its PCI address.
adapter() { sed -n "$(($1 + 1))p" /tmp/adapters; }

# pull_adapter N [SECONDS]: removes the PCI function, and rescans the bus after that many seconds times LAB_SLOW.
pull_adapter() {
	local device
	device=/sys/bus/pci/devices/$(adapter "$1")
	echo 1 >"$device/remove" || return
	[ ! -e "$device" ] || return
	sleep "$(slow "${2:-2}")"
	echo 1 >/sys/bus/pci/rescan
}

# knob ADAPTER NAME [VALUE]: sets or reads a fault switch of the test adapter.
knob() {
	local file=/sys/kernel/debug/weft_softhca/softhca$1/$2
	if [ $# -eq 3 ]; then echo "$3" >"$file"; else cat "$file"; fi
}

# bind DRIVER DEVICE: binds the PCI device to that driver.
bind() {
	echo "$1" >"/sys/bus/pci/devices/$2/driver_override"
	echo "$2" >/sys/bus/pci/drivers_probe
	test -e "/sys/bus/pci/drivers/$1/$2"
}

# peer_bars: sets near and far (ivshmem devices below the adapters' switch and below another root port) and switch.
# shellcheck disable=SC2034 # The caller uses them.
peer_bars() {
	local device
	switch=$(realpath "/sys/bus/pci/devices/$(adapter 0)" | cut -d/ -f5)
	for device in $(lspci -Dn -d 1af4:1110 | cut -d' ' -f1); do
		case $(realpath "/sys/bus/pci/devices/$device") in
		*/"$switch"/*) near=$device ;;
		*) far=$device ;;
		esac
	done
}

# roce_services COUNT PERCENT COMMAND...: the types of service of the RoCE packets that leave this host while it runs,
# but of those that fewer than PERCENT % have, such as a heartbeat's. Nothing with fewer than COUNT packets.
roce_services() {
	local count=$1 percent=$2 looking
	shift 2
	python3 - "$count" "$percent" >/tmp/services <<-'P' &
		import collections, signal, socket, sys
		packets = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(3))
		packets.setsockopt(socket.SOL_SOCKET, 33, 1 << 25) # SO_RCVBUFFORCE: this program may be late.
		found, count, percent = collections.Counter(), int(sys.argv[1]), int(sys.argv[2])
		def end(*_):
		    total = sum(found.values())
		    if total >= count:
		        print(*sorted(service for service, n in found.items() if 100 * n >= percent * total))
		    sys.exit()
		signal.signal(signal.SIGTERM, end)
		print("looking", flush=True)
		while True:
		    data, (_, _, kind, _, _) = packets.recvfrom(100)
		    # IPv4 with UDP, to RoCE's port.
		    roce = data[0] == 0x45 and data[9] == 17 and data[22:24] == b"\x12\xb7"
		    if kind == socket.PACKET_OUTGOING and roce:
		        found[data[1]] += 1
	P
	looking=$!
	until_true 20 grep -q looking /tmp/services
	"$@" >/dev/null 2>&1
	kill "$looking"
	wait "$looking"
	sed 1d /tmp/services
}

# netem DEVICE [OPTION...]: what leaves by it is treated like that, or let through. The queueing discipline stays then:
# a packet that Soft-RoCE sends while one is put in place or taken away is an error to it. After one, its queue pair 1
# is dead, and nothing connects again.
netem() { tc qdisc replace dev "$1" root netem limit 20000 "${@:2}"; }

# Nothing leaves this host for longer than a keep-alive of 4 s, times LAB_SLOW.
cable() {
	netem eth0 loss 100%
	sleep "$(slow 8)"
	# After a moment in which the machine stood still, it takes longer.
	until_true 30 some_lost
	netem eth0
}
# Are all controllers connected?
all_live() { [ "$(cat /sys/class/weft-rdma/*/state | sort -u)" = live ]; }
some_lost() { ! all_live; }
# All controllers connect again. Where they do not, the kernels of this host and of the target may say why.
connect_again() {
	until_true 60 all_live && return
	grep . /sys/class/weft-rdma/*/state
	rdma resource show qp
	dmesg | tail -40
	on_target "rdma resource show qp; dmesg | tail -40"
	return 1
}
