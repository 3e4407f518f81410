#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Sealed files as targets of /dev/weft/NAME.mem: who may read which, what is
# refused, and whether anything moves the blocks of one that is held.
# lab-kernel: uml
. "${0%/*}/lib.sh"

load_weft
modprobe -a xfs ext4
for n in a b c; do make_null "$n" 160; done
make_null other 512
mkdir -p /mnt/o /mnt/f
mkfs.ext4 -q /dev/other && mount /dev/other /mnt/o
ok "a volume" weftctl create v /dev/a /dev/b /dev/c --chunk 64K --force
f=/mnt/f/shard

# random PATH BYTES: of so many, written in pieces between another file's, past the page cache, where a filesystem
# would join them.
random() {
	local count=$((($2 + 65535) / 65536)) name
	rm -f "$1"
	for ((; count > 0; count--)); do
		for name in "$1" "$1.between"; do
			dd if=/dev/urandom of="$name" bs=64K count=1 oflag=append,direct conv=notrunc,fsync status=none
		done
	done
	truncate -s "$2" "$1"
	sync "$1"
}
reads() {
	local sentence=$1
	shift
	ok "$sentence" weft-memtest v file "$@"
}
hold() {
	weft-memtest v file pages $f --seconds="$(slow 600)" >/tmp/held.out 2>&1 & holder=$!
	until_true 30 grep -q held /tmp/held.out
}
let_go() {
	kill -9 $holder
	wait $holder 2>/dev/null
	until_true 30 sh -c "! fuser -s /dev/weft/v.mem"
}
# attacked TEXT COMMAND...: it fails, and says so.
attacked() {
	local text=$1 out
	shift
	out=$("$@" 2>&1)
	result $(($? == 0)) "$fs: $* is refused"
	case $out in *"$text"*) ;; *) note "$out"; result 1 "$fs: $*: $text" ;; esac
}
# unfit SENTENCE TEXT PATH: which is refused once it is immutable.
unfit() {
	chattr +i "$3"
	refused "$fs: $1" 3 "$2" weft-memtest v file pages "$3"
	chattr -i "$3"
}

# blocks_of PATH: where each piece of it is.
blocks_of() { filefrag -v "$1" | grep '^ *[0-9]*:'; }

for fs in xfs ext4; do
	case $fs in
	xfs) mkfs.xfs -q -f -m reflink=1 /dev/weft/v ;;
	ext4) mkfs.ext4 -q -F -O inline_data /dev/weft/v ;;
	esac
	ok "$fs: mounted" mount /dev/weft/v /mnt/f
	random $f 3000001
	# swapon looks at the header first.
	mkswap -q $f 2>/dev/null; sync $f
	refused "$fs: a file that is not sealed" 3 "file shard is not sealed: make it immutable first (chattr +i)" \
		weft-memtest v file pages $f
	exec 9>>$f
	unfit "one that is open for writing" "still open for writing" $f
	exec 9>&-
	cp $f /tmp/copy
	chattr +i $f
	reads "$fs: it is read" pages $f --count=400
	reads "$fs: in small pieces" pages $f --count=400 --largest=8192
	if [ -e /dev/udmabuf ] || modprobe -q udmabuf; then
		reads "$fs: into a dma-buf" udmabuf $f --bounce
	fi
	pieces=$(filefrag $f | sed 's/.*: \([0-9]*\) ext.*/\1/')
	# The array for 16 of them grows. ext4 keeps room for a file that grows.
	[ $fs = ext4 ] && least=1 || least=32
	ok "$fs: it is in pieces, which is what is tested" test "$pieces" -gt "$least"

	# Who may.
	cp "$(command -v weft-memtest)" /tmp/memtest
	nobody="setpriv --reuid=65534 --regid=65534 --clear-groups /tmp/memtest v"
	chattr -i $f; chmod 600 $f; chattr +i $f
	# shellcheck disable=SC2086
	refused "$fs: whom its mode forbids it does not read it" 3 "Permission denied" $nobody file pages $f
	chattr -i $f; chmod 644 $f; chattr +i $f
	# shellcheck disable=SC2086
	ok "$fs: who may read it needs no right to the volume" $nobody file pages $f
	# shellcheck disable=SC2086
	refused "$fs: and has none" 3 "Permission denied" $nobody verify pages

	# Held, and attacked.
	before=$(blocks_of $f)
	hold
	is "$fs: status names who has .mem open" "$(weftctl status v | grep -c '\.mem open in weft-memtest (pid ')" 1
	attacked "Operation not permitted" dd if=/dev/zero of=$f conv=notrunc bs=4k count=1
	ok "$fs: root makes it mutable while it is held" chattr -i $f
	attacked "Text file busy" dd if=/dev/zero of=$f conv=notrunc bs=4k count=1
	attacked "Text file busy" truncate -s 4096 $f
	attacked "Text file busy" fallocate -p -o 0 -l 65536 $f
	attacked "Operation not permitted" rm -f $f
	attacked "Operation not permitted" mv $f $f.moved
	attacked "Operation not permitted" mv -f /tmp/copy $f
	attacked "Text file busy" swapon $f
	attacked "busy" umount /mnt/f
	case $fs in
	xfs)
		attacked "Text file busy" cp --reflink=always $f $f.clone
		xfs_fsr -v $f >/tmp/fsr.out 2>&1
		indented </tmp/fsr.out
		;;
	ext4) e4defrag -v $f 2>&1 | tail -3 | indented ;;
	esac
	is "$fs: none of its blocks has moved" "$(blocks_of $f)" "$before"
	ok "$fs: another reader shares it" weft-memtest v file pages $f
	ok "$fs: it is what it was" cmp $f /tmp/copy
	ok "$fs: and was read all the while" kill -0 $holder
	ok "$fs: without a difference" sh -c "! grep '#' /tmp/held.out"
	let_go
	refused "$fs: it cannot be held anew" 3 "not sealed" weft-memtest v file pages $f
	ok "$fs: it can be written again" dd if=/dev/zero of=$f conv=notrunc bs=4k count=1 status=none
	chattr +i $f
	reads "$fs: and sealed again" pages $f
	chattr -i $f

	# What has not a block of its own for each byte.
	: >/mnt/f/empty
	unfit "an empty one" "is empty" /mnt/f/empty
	truncate -s 1M /mnt/f/hole
	unfit "one with a hole" "has a hole at byte 0" /mnt/f/hole
	fallocate -l 1M /mnt/f/unwritten
	unfit "one that was preallocated" "preallocated and never written" /mnt/f/unwritten
	case $fs in
	xfs)
		cp --reflink=always $f /mnt/f/clone
		unfit "one whose blocks are shared" "shared with another file (reflink)" /mnt/f/clone
		;;
	ext4)
		echo small >/mnt/f/small
		unfit "one whose contents are inline" "its contents are inline" /mnt/f/small
		;;
	esac
	ok "$fs: unmounted" umount /mnt/f
done
cp /tmp/copy /mnt/o/elsewhere
fs=elsewhere
unfit "a file of another device's filesystem" "is not on volume v itself" /mnt/o/elsewhere
refused "of none" 3 "is not on volume v itself" weft-memtest v file pages /proc/version
refused "a directory" 3 "neither the block device of volume v nor a file on it" weft-memtest v file pages /mnt/o
umount /mnt/o
ok "stopped" weftctl stop v

# --- Without the lease another host may have taken the volume, and deleted the file
beat=/sys/module/weft/parameters/heartbeat_ms
usual=$(cat $beat)
echo 100 >$beat
sectors=$(blockdev --getsz /dev/a)
linear() { echo "0 $2 linear $(readlink -f "$1") ${3:-0}"; }
# Member 0 is three devices: the owner's record is in the second, 8 KiB from byte 4096 on.
make_beaten() {
	linear /dev/a 16 8 | dmsetup create record
	linear /dev/a $((sectors - 24)) 24 | dmsetup create rest
	dmsetup mknodes
	{
		echo "0 8 linear $(readlink -f /dev/a) 0"
		echo "8 16 linear $(readlink -f /dev/mapper/record) 0"
		echo "24 $((sectors - 24)) linear $(readlink -f /dev/mapper/rest) 0"
	} | dmsetup create beaten
	dmsetup mknodes
}
# Member 1 merges the bios of a long read to requests.
make_merging() {
	linear /dev/other "$(blockdev --getsz /dev/other)" | dmsetup create under
	dmsetup mknodes
	modprobe loop
	mkfs.ext4 -q -F /dev/mapper/under && mount /dev/mapper/under /mnt/o && fallocate -l 160M /mnt/o/member
	merging=$(losetup --find --show --direct-io=on /mnt/o/member)
}
# record GOOD: it can be reached or cannot.
record() {
	if [ "$1" = 1 ]; then linear /dev/a 16 8; else echo "0 16 error"; fi | dmsetup load record
	dmsetup resume record
}
data() { local one; for one in rest under; do dmsetup "$1" --noflush --nolockfs $one; done; }
weftctl wipe /dev/a /dev/b /dev/c >/dev/null
make_beaten
make_merging
ok "a volume" weftctl create v /dev/mapper/beaten "$merging" --chunk 64K --force
mkfs.xfs -q -f /dev/weft/v
mount /dev/weft/v /mnt/f
random $f 1048576
chattr +i $f
# A filesystem that writes would shut down.
mount -o remount,ro /mnt/f
ownership_is() { [ "$(cat '/sys/block/weft!v/weft/ownership')" = "$1" ]; }
reads "a sealed file is read" pages $f --count=4
# prepare_read: of all of the file, by a process that stops itself before. Sets reader.
prepare_read() {
	weft-memtest v file pages $f --count=1 --stop >/tmp/out 2>&1 & reader=$!
	until_true 20 grep -q '^State:.T' "/proc/$reader/status"
}
prepare_read
record 0
ok "heartbeats fail" until_true 30 ownership_is failed
kill -CONT $reader
wait $reader
is "it is not read" "$? $(grep -c ' bytes at .*: -5$' /tmp/out)" "1 1"
record 1
ok "they succeed" until_true 30 ownership_is held
reads "it is read again" pages $f --count=4
# start_read: it begins with the lease, and waits for its members.
start_read() {
	prepare_read
	data suspend
	kill -CONT $reader
}
reading() { [ "$(awk '{ print $1 }' '/sys/block/weft!v/inflight')" -gt 0 ]; }
start_read
ok "a read waits for its member" until_true 30 reading
dmsetup suspend --noflush --nolockfs record
ok "the lease ends while its heartbeat hangs" until_true 30 ownership_is suspended
data resume
sleep "$(slow 1)"
ok "what the member has read then does not count" kill -0 $reader
dmsetup resume record
ok "the lease is there again" until_true 30 ownership_is held
wait $reader
result $? "it is read again"
start_read
ok "a read waits for its member" until_true 30 reading
record 0
ok "heartbeats fail" until_true 30 ownership_is failed
data resume
wait $reader
is "what was read without the lease is an error" "$? $(grep -c ' bytes at .*: -5$' /tmp/out)" "1 1"
record 1
ok "they succeed" until_true 30 ownership_is held
umount /mnt/f
ok "stopped" weftctl stop v
losetup -d "$merging"
umount /mnt/o
for one in beaten under rest record; do dmsetup remove $one; done
echo "$usual" >$beat
for n in a b c other; do remove_null "$n"; done
ok_unload
done_testing
