# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-only
#
# For the tests that run in a guest: TAP, members of every kind, and what a
# test may not leave behind. Sourced by bash; see any *.t beside this file.

set -u
test_number=0
test_failed=0

note() { printf '# %s\n' "$*"; }

# result STATUS SENTENCE: one line of TAP.
result() {
	test_number=$((test_number + 1))
	if [ "$1" -eq 0 ]; then
		printf 'ok %d - %s\n' "$test_number" "$2"
	else
		test_failed=$((test_failed + 1))
		printf 'not ok %d - %s\n' "$test_number" "$2"
	fi
}

skip() {
	test_number=$((test_number + 1))
	printf 'ok %d - %s # SKIP %s\n' "$test_number" "$1" "$2"
}

# ok SENTENCE COMMAND...: the command succeeds. Its output is shown when not.
ok() {
	local sentence=$1 out rc
	shift
	out=$("$@" 2>&1)
	rc=$?
	[ $rc -eq 0 ] || { note "$*: status $rc"; printf '%s\n' "$out" | sed 's/^/#   /'; }
	result "$rc" "$sentence"
}

# is SENTENCE GOT WANTED
is() {
	[ "$2" = "$3" ] && { result 0 "$1"; return; }
	note "got '$2', wanted '$3'"
	result 1 "$1"
}

# refused SENTENCE STATUS TEXT COMMAND...: the command ends with that status,
# and says one sentence that holds TEXT.
refused() {
	local sentence=$1 status=$2 text=$3 out rc bad=0
	shift 3
	out=$("$@" 2>&1)
	rc=$?
	[ $rc -eq "$status" ] || { note "status $rc, wanted $status"; bad=1; }
	case $out in *"$text"*) ;; *) note "does not say '$text'"; bad=1 ;; esac
	[ "$(printf '%s\n' "$out" | wc -l)" -eq 1 ] || { note "more than one line"; bad=1; }
	[ $bad -eq 0 ] || { note "$*"; printf '%s\n' "$out" | sed 's/^/#   /'; }
	result $bad "$sentence"
}

# tap SENTENCE COMMAND...: of a program that speaks TAP itself, each result.
tap() {
	local sentence=$1 line
	shift
	"$@" >/tmp/tap.out 2>&1 || echo "not ok 0 - status $?" >>/tmp/tap.out
	while read -r line; do
		case $line in
		"ok "*) result 0 "$sentence: ${line#* - }" ;;
		"not ok "*) result 1 "$sentence: ${line#* - }" ;;
		1..*) ;;
		*) note "$line" ;;
		esac
	done </tmp/tap.out
}

done_testing() {
	printf '1..%d\n' "$test_number"
	exit $((test_failed > 0))
}

# until_true SECONDS COMMAND...: wait for it.
until_true() {
	local end=$(($(date +%s) + $1))
	shift
	until "$@" >/dev/null 2>&1; do
		[ "$(date +%s)" -lt "$end" ] || return 1
		sleep 0.1
	done
}

# The module with a fast heart, so that ownership costs a test tenths of seconds.
load_weft() { modprobe weft heartbeat_ms="${1:-100}"; }

# make_null NAME MIB [ATTRIBUTE=VALUE...]: a null_blk disk /dev/NAME with memory.
make_null() {
	local dir=/sys/kernel/config/nullb/$1 pair
	[ -d /sys/kernel/config/nullb ] || modprobe null_blk nr_devices=0
	mkdir "$dir"
	echo "$2" >"$dir/size"
	echo 1 >"$dir/memory_backed"
	shift 2
	for pair in "$@"; do echo "${pair#*=}" >"$dir/${pair%%=*}"; done
	echo 1 >"$dir/power"
	# 6.1 names the disk by its number.
	[ -b "/dev/${dir##*/}" ] || ln -s "/dev/nullb$(cat "$dir/index")" "/dev/${dir##*/}"
}

remove_null() {
	echo 0 >"/sys/kernel/config/nullb/$1/power"
	rmdir "/sys/kernel/config/nullb/$1"
	[ ! -L "/dev/$1" ] || rm "/dev/$1"
}

# make_loop NAME MIB [OPTION...]: a loop device linked to /dev/NAME.
make_loop() {
	local name=$1 mib=$2
	shift 2
	modprobe loop
	truncate -s "${mib}M" "/tmp/$name.img"
	ln -s "$(losetup -f --show "$@" "/tmp/$name.img")" "/dev/$name"
}

remove_loop() {
	losetup -d "$(readlink -f "/dev/$1")"
	rm "/dev/$1"
}

# nvmet_offer, nvmet_withdraw SUBNQN [PORT]: by a port that is there; who was connected by it is not any more.
nvmet_offer() { ln -s "/sys/kernel/config/nvmet/subsystems/$1" "/sys/kernel/config/nvmet/ports/${2:-4420}/subsystems/$1"; }
nvmet_withdraw() { rm "/sys/kernel/config/nvmet/ports/${2:-4420}/subsystems/$1"; }

# nvmet_serve SUBNQN DEVICE TRANSPORT ADDRESS [PORT]: the kernel's own target.
nvmet_serve() {
	local base=/sys/kernel/config/nvmet nqn=$1 device=$2 type=$3 address=$4 port=${5:-4420}
	modprobe nvmet
	modprobe "nvmet-$type"
	mkdir -p "$base/subsystems/$nqn/namespaces/1" "$base/ports/$port"
	echo 1 >"$base/subsystems/$nqn/attr_allow_any_host"
	echo "$device" >"$base/subsystems/$nqn/namespaces/1/device_path"
	echo 1 >"$base/subsystems/$nqn/namespaces/1/enable"
	if [ "$(cat "$base/ports/$port/addr_trtype")" != "$type" ]; then
		echo "$type" >"$base/ports/$port/addr_trtype"
		echo ipv4 >"$base/ports/$port/addr_adrfam"
		echo "$address" >"$base/ports/$port/addr_traddr"
		echo "$port" >"$base/ports/$port/addr_trsvcid"
	fi
	nvmet_offer "$nqn" "$port"
}

nvmet_unserve() {
	local base=/sys/kernel/config/nvmet nqn=$1 port=${2:-4420}
	rm -f "$base/ports/$port/subsystems/$nqn"
	rmdir "$base/ports/$port" 2>/dev/null
	echo 0 >"$base/subsystems/$nqn/namespaces/1/enable"
	rmdir "$base/subsystems/$nqn/namespaces/1" "$base/subsystems/$nqn"
}

# nvmet_set SUBNQN ATTRIBUTE=VALUE...: of its namespace, which is disabled meanwhile.
nvmet_set() {
	local namespace=/sys/kernel/config/nvmet/subsystems/$1/namespaces/1 pair
	shift
	echo 0 >"$namespace/enable"
	for pair in "$@"; do echo "${pair#*=}" >"$namespace/${pair%%=*}"; done
	echo 1 >"$namespace/enable"
}

# nvme_local SERIAL: the local disk with that serial number; their numbers are as they happen to answer.
nvme_local() {
	local disk
	for disk in /sys/block/nvme*n1; do
		[ "$(tr -d ' ' 2>/dev/null <"$disk/device/serial")" = "$1" ] && { echo "/dev/${disk##*/}"; return; }
	done
	return 1
}

# nvme_disk SUBNQN: the block device of a connected subsystem.
nvme_disk() {
	local dir
	for dir in /sys/class/nvme-subsystem/*; do
		[ "$(cat "$dir/subsysnqn" 2>/dev/null)" = "$1" ] || continue
		for disk in "$dir"/nvme*n*; do
			[ -b "/dev/${disk##*/}" ] && { echo "/dev/${disk##*/}"; return; }
		done
	done
	return 1
}

# nvme_connect SUBNQN TRANSPORT ADDRESS [PORT]: prints the block device.
nvme_connect() {
	modprobe "nvme-$2"
	nvme connect -t "$2" -a "$3" -s "${4:-4420}" -n "$1" >/dev/null || return 1
	until_true 20 nvme_disk "$1" && nvme_disk "$1"
}

# soft_roce ADDRESS: an RDMA device over a dummy interface.
soft_roce() {
	modprobe rdma_rxe
	ip link show dummy0 >/dev/null 2>&1 || ip link add dummy0 type dummy
	ip address add "$1/24" dev dummy0
	# Whole RDMA packets of 4096 bytes, where 1500 would make four of each.
	ip link set dummy0 mtu 9000 up
	rdma link add rxe0 type rxe netdev dummy0
}

no_soft_roce() {
	rdma link delete rxe0
	ip link delete dummy0
}

# softhca [COUNT]: two adapters (tests/kmod/softhca) in the topology hca, or more, with the addresses 10.9.0.1, 10.9.1.1, ...;
# or the test ends here, where there is none.
softhca() {
	local n names='' last=$((${1:-2} - 1))
	if ! modprobe -qn weft_softhca; then
		skip "the test adapter" "it is written to the newest kernel alone"
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

# bind DRIVER DEVICE: a PCI device to that driver, whatever its own is.
bind() {
	echo "$1" >"/sys/bus/pci/devices/$2/driver_override"
	echo "$2" >/sys/bus/pci/drivers_probe
	test -e "/sys/bus/pci/drivers/$1/$2"
}

# peer_bars: sets near and far, ivshmem's memory below the adapters' switch and below another root port, and switch.
# shellcheck disable=SC2034 # They are the caller's.
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

# adapter N: its PCI address.
adapter() { sed -n "$(($1 + 1))p" /tmp/adapters; }

no_softhca() {
	local link
	for link in /sys/class/net/hca*; do ip link delete "${link##*/}"; done
}

# knob ADAPTER NAME [VALUE]: of the test adapter, set or read.
knob() {
	local file=/sys/kernel/debug/weft_softhca/softhca$1/$2
	[ $# -eq 3 ] && echo "$3" >"$file" || cat "$file"
}

# mib N: that much for fio to write; a quarter unless LAB_LONG asks for the long way, which check-all does.
mib() { [ -n "${LAB_LONG:-}" ] && echo "$1m" || echo "$((($1 + 3) / 4))m"; }

# verify DEVICE [KEY=VALUE...]: the verify job with some of its settings changed. (Options on fio's command line are but
# defaults for what a job file does not say.)
verify() {
	local device=$1 pair job
	shift
	job=$(cat /weft/fio-jobs/verify.fio)
	for pair in "$@"; do
		job=$(printf '%s\n' "$job" | sed "/^${pair%%=*}=/d"; printf '%s\n' "$pair")
	done
	printf '%s\n' "$job" >/tmp/verify.fio
	WEFT_DEV=$device fio /tmp/verify.fio
}

# verify_while SENTENCE DEVICE MIB RATE COMMAND...: fio verifies so much at that rate, the command runs meanwhile, and fio
# is still at it when that ends.
verify_while() {
	local sentence=$1 device=$2 mib=$3 rate=$4 fio rc=0
	shift 4
	verify "$device" size="${mib}m" bsrange=4k-200k rate="$rate,$rate" >/tmp/fio.out 2>&1 & fio=$!
	sleep 1
	"$@" >/tmp/while.out 2>&1
	kill -0 $fio 2>/dev/null || { note "fio ended before '$*' did"; rc=1; }
	wait $fio || rc=1
	[ $rc = 0 ] || sed 's/^/# /' /tmp/while.out /tmp/fio.out
	result $rc "$sentence"
}

# ok_members SENTENCE DEVICE...: a volume on them, fio's verification, its data after a second assembly.
ok_members() {
	local sentence=$1
	shift
	ok "a volume on $sentence" weftctl create v "$@" --chunk 64K --force
	ok "verified on $sentence" verify /dev/weft/v size="$(mib 24)" bsrange=4k-300k
	dd if=/dev/weft/v bs=1M count=8 iflag=direct status=none | sha256sum >/tmp/sum
	ok "stopped" weftctl stop v
	# Any order, as udev may find them.
	# shellcheck disable=SC2046
	ok "assembled again, members in reverse" weftctl assemble v $(printf '%s\n' "$@" | tac)
	is "with its data" "$(dd if=/dev/weft/v bs=1M count=8 iflag=direct status=none | sha256sum)" "$(cat /tmp/sum)"
	ok "stopped again" weftctl stop v
	ok "wiped" weftctl wipe "$@"
}

# Nothing of a volume is left: the module can be unloaded.
ok_unload() {
	# Loaded by itself where a member was rdma://.
	[ ! -d /sys/module/weft_rdma ] || rmmod weft_rdma
	[ ! -d /sys/module/weft_p2p ] || rmmod weft_p2p
	ok "weft.ko unloads, so nothing holds it" rmmod weft
}

# json FILTER: of standard input.
json() { jq -r "$1"; }
