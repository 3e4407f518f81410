#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# README's commands for local devices and for two nodes, which are one here; then the commands that stand in lines of
# text of README and docs/. A whole one runs as it stands there. Of each other one, weftctl's help has verb and options.
# lab-kernel: none
# lab-not: lab debian12 debian13 previous backports
. "${0%/*}/lib.sh"

load_weft 500
mkdir /tmp/documents && cd /tmp/documents || exit
for n in 0 1; do
	make_null "doc$n" 512
	ln -s "$(readlink -f "/dev/doc$n")" "/dev/nvme${n}n1"
done

# --- README
run_each "local" < <(commands README.md "^### With local devices$")
is "the volume is there again" "$(status_of data .state)" live
# mkfs refuses what has a filesystem.
wipefs -qa /dev/weft/data
weftctl stop data >/dev/null
ok "wiped" weftctl wipe /dev/nvme0n1 /dev/nvme1n1

soft_roce 10.0.0.1
ip address add 10.1.0.1/24 dev dummy0
COMPUTE_NQN=$(weftctl host-nqn)
export COMPUTE_NQN
run_each "storage node" < <(readme "On the storage node")
# This guest has no systemd: two-nodes.t and boot.t test what a boot needs.
run_each "compute node" < <(readme "On the compute node" | grep -v -e systemctl -e fstab)
is "it is mounted" "$(findmnt -no SOURCE /mnt)" /dev/weft/data
mkdir /mnt/data
touch /mnt/data/model.bin
run_each "text" < <(in_text chattr | sed -E 's,\+i( FILE)?$,+i /mnt/data/model.bin,' | sort -u)
is "the file is sealed" "$(lsattr /mnt/data/model.bin | cut -d' ' -f1 | grep -c i)" 1
ok "unmounted" umount /mnt

# --- Lines of text
# as_before: both disks are exported by two rails, and the volume is assembled by the first.
as_before() {
	# shellcheck disable=SC2046 # two members
	weftctl stop --all && weftctl disconnect --all && weftctl unexport --all &&
		weftctl export /dev/nvme0n1 /dev/nvme1n1 --address 10.0.0.1 --address 10.1.0.1 --host "$COMPUTE_NQN" &&
		weftctl assemble data $(weftctl discover rdma://10.0.0.1) --keep-alive "$(slow 5)"
}
# What documents write for a value, and its value here.
export NAME=data VERB=create NQN=nqn.2014-08.org.example:other URI DISK
given() { sed -E 's/ (NAME|VERB|NQN|URI|DISK)\b/ "$\1"/g'; }
# whole COMMAND: it lacks no value. Some verbs need none.
whole() {
	local alone='cdi|connect|doctor|events|explain|host-nqn|metrics|report|status|top|topology'
	[[ ! $1 =~ \ [A-Z] && $1 =~ (\ data|\"\$|://|\ --all|\ --saved|^weftctl\ ($alone)$) ]]
}
# known COMMAND: weftctl has its verb, and the verb its options.
known() {
	local verb option help
	verb=$(sed -E 's/^weftctl ((path )?[a-z-]+).*/\1/' <<<"$1")
	# shellcheck disable=SC2086 # path and its verb are two words.
	help=$(weftctl $verb --help) && grep -q "weftctl $verb" <<<"$help" || return
	while read -r option; do
		grep -qE -- "^ +$option( |$)" <<<"$help" || { echo "weftctl $verb has no $option"; return 1; }
	done < <(grep -oE -- ' --[a-z-]+' <<<"$1")
}
# run COMMAND: some end at a signal only, and the doctor's status is what it finds.
run() {
	case $1 in
	*" events"* | *" top" | *" top "*) sh -c "timeout -s INT 2 $1; rc=\$?; [ \$rc = 124 ] || [ \$rc = 0 ]" ;;
	*" doctor"*) sh -c "$1; rc=\$?; [ \$rc = 0 ] || [ \$rc = 8 ] || [ \$rc = 9 ]" ;;
	*) timeout "$(slow 120)" sh -ec "$1" ;;
	esac </dev/null
}
# prepare COMMAND: what it changes is there.
prepare() {
	as_before || return
	case $1 in
	*" assemble "* | *"unexport --all"*) weftctl stop data && weftctl disconnect --all ;;
	*" disconnect "*) weftctl stop data ;;
	*"path remove"*) weftctl path add data "$URI" ;;
	*"export --saved"*) weftctl stop data && weftctl disconnect --all && weftctl unexport --all --keep-saved ;;
	*--add-address*) weftctl change-export --all --remove-address 10.1.0.1 ;;
	esac
}
# disk: that of a member's second path, or of the first one of member 0.
disk() { status_of data '"/dev/" + ([.members[].paths[1].disk, .members[0].paths[0].disk | values][0])'; }
URI=$(weftctl discover rdma://10.0.0.1 | sed -n '1s/10\.0\.0\.1/10.1.0.1/p')
DISK=$(disk)
changes=' (assemble|change-export|connect|disconnect|export|stop|unexport) | path (add|remove) '
in_text weftctl | given >commands
is "the documents name many commands" "$([ "$(wc -l <commands)" -gt 40 ]; echo $?)" 0
while IFS= read -r line; do
	if ! whole "$line"; then ok "text, not whole: $line" known "$line"; continue; fi
	[[ "$line" =~ $changes ]] || ok "text: $line" run "$line"
done <commands
run_each "text" < <(in_text blockdev; in_text echo; in_text ip; in_text rdma)
while IFS= read -r line; do
	whole "$line" && [[ "$line" =~ $changes ]] || continue
	ok "before: $line" prepare "$line"
	[[ $line != *DISK* ]] || DISK=$(disk)
	ok "text: $line" run "$line"
done <commands

ok "all as before" as_before
weftctl stop data >/dev/null
weftctl disconnect --all >/dev/null
weftctl unexport --all >/dev/null
rm /etc/weft/volumes/data.toml
cd /weft || exit
rm -r /tmp/documents
no_soft_roce
for n in 0 1; do
	rm "/dev/nvme${n}n1"
	remove_null "doc$n"
done
ok_unload
done_testing
