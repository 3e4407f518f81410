#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Every example that weftctl's help and man pages give, as it stands there.
# lab-own: --udev
# lab-not: lab
# lab-kernel: none
. "${0%/*}/lib.sh"

load_weft
for n in 1 2 3 4; do make_null e$n 384; ln -s "$(readlink -f /dev/e$n)" /dev/nvme${n}n1; done
for n in 5 6 7 8; do make_null e$n 64; done
make_null e0 64; ln -s "$(readlink -f /dev/e0)" /dev/nvme0n1
soft_roce 10.0.0.1
ip address add 10.0.0.2/24 dev dummy0
ip address add 10.1.0.1/24 dev dummy0

# Superblocks are at both ends. One process for all disks: this is done for each example.
cat >/tmp/clear.py <<'P'
import os, sys
for name in sys.argv[1:]:
    disk = os.open(name, os.O_WRONLY)
    for where in 0, os.lseek(disk, -(1 << 20), os.SEEK_END):
        os.pwrite(disk, bytes(1 << 20), where)
    os.fsync(disk)
    os.close(disk)
P
reset() {
	umount /mnt 2>/dev/null
	weftctl stop --all; weftctl disconnect --all; weftctl unexport --all
	python3 /tmp/clear.py /dev/e[0-8]
	rm -f /etc/weft/volumes/*.toml /sys/kernel/config/nvmet/ports/*/subsystems/nqn.2014-08.org.example:*
} >/dev/null 2>&1
example=nqn.2014-08.org.example
uuid=nqn.2014-08.org.nvmexpress:uuid:1b4e28ba-2fa1-11d2-883f-0016d3cca427
uri_a=rdma://10.0.0.1/$example:a
uri_b=rdma://10.0.0.2/$example:b
disks="/dev/nvme1n1 /dev/nvme2n1 /dev/nvme3n1 /dev/nvme4n1"
serve() { # by a target of its own: what the examples connect to
	[ -d /sys/kernel/config/nvmet/subsystems/$example:a ] || {
		nvmet_serve $example:a /dev/e5 rdma 10.0.0.1 4420
		nvmet_serve $uuid /dev/e6 rdma 10.0.0.1 4420
		nvmet_port 100 rdma 10.0.0.2
		nvmet_serve $example:b /dev/e7 rdma 10.0.0.2 100
		nvmet_port 101 tcp 10.0.0.1
		nvmet_serve $example:disk1 /dev/e8 tcp 10.0.0.1 101
		nvmet_port 102 tcp 10.0.0.1 8009
	}
	[ -d /sys/kernel/config/nvmet/ports/103 ] || nvmet_port 103 rdma 10.1.0.1
	for pair in 103:a 4420:a 100:b 101:disk1 102:disk1; do
		nvmet_offer "$example:${pair#*:}" "${pair%:*}" 2>/dev/null
	done
	return 0
}
stopped() { # DEVICE...: a volume on them that is not assembled
	weftctl create data "$@" --force
	weftctl stop data
}
prepare() { # EXAMPLE: makes what it names
	reset
	# shellcheck disable=SC2086
	case $1 in
	*create*rdma://*example:a*rdma://*example:b*) serve ;;
	*rdma://*example:a*rdma://*example:b*)
		serve
		stopped $uri_a $uri_b
		weftctl disconnect --all
		;;
	*"path add"* | *"path follow"*)
		serve
		weftctl create data $uri_a --force
		;;
	*"path remove"*)
		serve
		weftctl create data $uri_a --force
		weftctl path add data rdma://10.1.0.1/$example:a
		;;
	*"weftctl discover"* | *"weftctl connect"* | *"disconnect --all"*) serve ;;
	*"weftctl disconnect"*)
		serve
		weftctl connect rdma://10.0.0.1/$uuid
		;;
	*"export --saved"*)
		weftctl export /dev/nvme0n1 --address 10.0.0.1 --any-host
		weftctl unexport --all --keep-saved
		;;
	*gen-dhchap-key*) rm -f /etc/weft/dhchap-secret /tmp/secret-of-node17 ;;
	*export*--dhchap*) weftctl gen-dhchap-key /etc/weft/dhchap-secret --force ;;
	*gen-tls-key*) rm -f /etc/weft/tls-key /tmp/key-of-node17 ;;
	*export*--tls*) weftctl gen-tls-key /etc/weft/tls-key --force ;;
	*change-export*)
		weftctl export /dev/nvme0n1 --address 10.0.0.1 \
			--host nqn.2014-08.org.nvmexpress:uuid:11111111-2222-3333-4444-555555555555
		;;
	*unexport*) weftctl export /dev/nvme0n1 --address 10.0.0.1 --any-host ;;
	*cgroup*)
		mountpoint -q /sys/fs/cgroup || mount -t cgroup2 none /sys/fs/cgroup
		mkdir -p /sys/fs/cgroup/backup
		weftctl create data $disks --force
		;;
	*export* | *create*) ;;
	*--saved* | *"config check"*)
		weftctl create data $disks --force
		weftctl save data
		[[ $1 == *check* ]] || weftctl stop data
		;;
	*"assemble data /dev/nvme1n1 /dev/nvme2n1") stopped /dev/nvme1n1 /dev/nvme2n1 ;;
	*assemble* | *check* | *rename* | *wipe*) stopped $disks ;;
	*) weftctl create data $disks --force ;;
	esac >/dev/null 2>&1
}
verbs=$(weftctl --help | awk '/^(Subcommands|SUBCOMMANDS)/ { on = 1; next } on && /^  [a-z]/ { print $1 }')
examples=$(for verb in '' $verbs; do
	# shellcheck disable=SC2086 # none is none
	weftctl $verb --help | sed -n '/^Examples:/,$ { s/^  //p }' | sed -e ':a;/\\$/N;s/\\\n *//;ta'
done | sort -u)
is "there are many examples" "$([ "$(printf '%s\n' "$examples" | wc -l)" -gt 25 ]; echo $?)" 0
# can_authenticate: the kernel's target has secrets of hosts.
can_authenticate() {
	local host=/sys/kernel/config/nvmet/hosts/probe rc
	modprobe nvmet && mkdir -p "$host" && test -e "$host/dhchap_key"
	rc=$?
	rmdir "$host"
	return $rc
}
# can_encrypt: the kernel's target has TLS.
can_encrypt() {
	local port=/sys/kernel/config/nvmet/ports/99 rc
	modprobe nvmet-tcp && mkdir -p "$port" && echo tcp >"$port/addr_trtype" && test -e "$port/addr_tsas" &&
		echo tls1.3 >"$port/addr_tsas"
	rc=$?
	rmdir "$port"
	return $rc
}
volume_of() { weftctl examine "$1" --json | json '.members[0].volume_uuid'; }
while IFS= read -r line; do
	case $line in
	*export*--dhchap*)
		can_authenticate || { skip "example: $line" "this kernel's target has no secrets"; continue; }
		;;
	*export*--tls*) can_encrypt || { skip "example: $line" "this kernel's target has no TLS"; continue; } ;;
	esac
	prepare "$line"
	run=$line
	case $line in
	*7c9e6679*) run=$(sed -E "s/7c9e6679-[0-9a-f-]{27}/$(volume_of /dev/nvme1n1)/" <<<"$line") ;;
	esac
	case $line in
	*"weftctl events"* | *"weftctl top" | *"weftctl top "* | *--watch*)
		ok "example: $line" sh -c "timeout -s INT 2 $line; rc=\$?; [ \$rc = 124 ] || [ \$rc = 0 ]"
		;;
	*"weftctl doctor"*) ok "example: $line" sh -c "$line; rc=\$?; [ \$rc = 0 ] || [ \$rc = 8 ]" ;;
	# This guest has no systemd: boot.t tests it.
	systemctl*) ok "example: $line" sh -c "${line/--now /}" ;;
	*) ok "example: $line" sh -c "cd /tmp && $run" </dev/null ;;
	esac
done <<<"$examples"
done_testing
