#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Volumes in containers of a real runtime, by their CDI specification: what a container sees, reads and writes; what it
# does not; what its user and its seccomp profile need. The kernel of uml has no cgroups.
# lab-kernel: none
# lab-needs: software:podman
# lab-not: lab debian12 uml
. "${0%/*}/lib.sh"

load_weft
for n in 0 1; do make_null c$n 64; done
weftctl create data /dev/c0 /dev/c1 >/dev/null
echo "what is on it" | dd of=/dev/weft/data oflag=direct conv=sync bs=4096 status=none
read -ra specify < <(commands docs/setup.md "^## Containers$")

# --- A runtime, and what a container is made of: busybox, and the programs of this host to look at
add_software podman
mountpoint -q /sys/fs/cgroup || mount -t cgroup2 none /sys/fs/cgroup
box=/tmp/box
mkdir -p $box/{bin,dev,proc,sys,tmp,run,etc,usr}
ln -s usr/lib $box/lib
ln -s usr/lib64 $box/lib64
cp "$(command -v busybox)" $box/bin/busybox
for name in sh cat head ls dd id; do ln -s busybox $box/bin/$name; done
# run OPTION... -- COMMAND...: in a container.
run() {
	local options=()
	while [ "$1" != -- ]; do options+=("$1"); shift; done
	shift
	podman --storage-driver vfs --cgroup-manager cgroupfs run --rm --network none --log-driver none \
		-v /usr:/usr:ro "${options[@]}" --rootfs $box "$@"
}
with=(--device weft/volume=data)
is "a container runs" "$(run -- id -u 2>/tmp/err)" 0 || indented </tmp/err
is "without the device" "$(run -- ls /dev/weft 2>&1 | grep -c 'No such file or directory')" 1
ok "the specification is written" "${specify[@]}"
is "a container has the volume" "$(run "${with[@]}" -- ls /dev/weft | tr '\n' ' ')" "data data.mem "
is "reads it" "$(run "${with[@]}" -- head -c 13 /dev/weft/data)" "what is on it"
ok "and writes it" run "${with[@]}" -- sh -c 'echo "by a container" | dd of=/dev/weft/data conv=fsync'
blockdev --flushbufs /dev/weft/data
is "as the host reads" "$(head -c 14 /dev/weft/data)" "by a container"
refused "a volume that there is not" 126 "weft/volume=other" run --device weft/volume=other -- id

# --- The volume comes again
weftctl stop data >/dev/null
make_null spacer 64
weftctl assemble data >/dev/null
is "after an assembly the same specification holds" "$(run "${with[@]}" -- head -c 14 /dev/weft/data)" "by a container"

# --- To read only
ok "a specification to read" "${specify[@]}" --read-only
is "a container reads" "$(run "${with[@]}" -- head -c 14 /dev/weft/data)" "by a container"
run "${with[@]}" -- sh -c 'echo no >/dev/weft/data' >/tmp/out 2>&1
is "and may not write" "$(grep -c "/dev/weft/data: Operation not permitted" /tmp/out)" 1
weftctl stop data >/dev/null
weftctl assemble data --read-only >/dev/null
"${specify[@]}"
run "${with[@]}" -- sh -c 'echo no >/dev/weft/data' >/tmp/out 2>&1
is "nor to a volume that is assembled read-only" "$(grep -c "/dev/weft/data: Operation not permitted" /tmp/out)" 1
weftctl stop data >/dev/null
weftctl assemble data >/dev/null
"${specify[@]}"

# --- Another user
chgrp disk /dev/weft/data && chmod 660 /dev/weft/data # as udev does on a node
"${specify[@]}"
run "${with[@]}" --user 1000 -- head -c 1 /dev/weft/data >/tmp/out 2>&1
is "another user does not reach it" "$(grep -c 'Permission denied' /tmp/out)" 1
disk=$(getent group disk | cut -d: -f3)
is "in the host's group disk it does" \
	"$(run "${with[@]}" --user 1000 --group-add "$disk" -- head -c 14 /dev/weft/data)" "by a container"

# --- io_uring
filtered() { # PROFILE COMMAND...
	local profile=$1
	shift
	run "${with[@]}" --security-opt "seccomp=$profile" -- "$@" 2>&1
}
bench=(/usr/bin/weft-bench /dev/weft/data --size 16M)
why='a seccomp filter, such as that of a container'
grep -v io_uring /usr/share/containers/seccomp.json >/tmp/without.json
is "a profile without io_uring is named as the reason" "$(filtered /tmp/without.json "${bench[@]}" | grep -c "$why")" 1
is "also by doctor" "$(filtered /tmp/without.json /usr/sbin/weftctl doctor | grep -c "$why")" 1
jq '.syscalls += [{"names": ["io_uring_setup", "io_uring_enter", "io_uring_register"], "action": "SCMP_ACT_ALLOW"}]' \
	/tmp/without.json >/tmp/with.json
ok "one with io_uring is enough" filtered /tmp/with.json "${bench[@]}"
weftctl stop data >/dev/null
for disk in c0 c1 spacer; do remove_null $disk; done
done_testing
