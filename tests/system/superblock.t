#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Superblocks that are flipped, torn, hostile or of another volume: one good
# copy serves, and the kernel itself refuses impossible fields.
# lab-kernel: uml
. "${0%/*}/lib.sh"

load_weft
for n in 0 1; do make_null "b$n" 32; done
weftctl create v /dev/b0 /dev/b1 --chunk 64K >/dev/null
dd if=/dev/urandom of=/tmp/data bs=1M count=8 status=none
dd if=/tmp/data of=/dev/weft/v bs=1M oflag=direct status=none
weftctl stop v >/dev/null
copy_at=$((32 * 1048576 - 4096))
for d in b0 b1; do dd if=/dev/$d of=/tmp/$d.sb bs=4096 count=1 status=none; done

# sb FILE EDIT: a superblock with a field changed and a right checksum.
sb() {
	python3 - "$1" "$2" <<-'PY'
	import struct, sys
	table = []
	for crc in range(256):
	    for _ in range(8):
	        crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
	    table.append(crc)
	def crc32c(data):
	    crc = 0xffffffff
	    for byte in data:
	        crc = crc >> 8 ^ table[(crc ^ byte) & 255]
	    return crc ^ 0xffffffff
	b = bytearray(open(sys.argv[1], "rb").read())
	exec(sys.argv[2])
	b[8:12] = bytes(4)
	b[8:12] = struct.pack("<I", crc32c(bytes(b)))
	sys.stdout.buffer.write(b)
	PY
}
whole() { for d in b0 b1; do put_block $d 0 </tmp/$d.sb; put_block $d $copy_at </tmp/$d.sb; done; }
flip() { # DEVICE BYTE: one bit
	python3 -c 'import os, sys, mmap
f = os.open("/dev/" + sys.argv[1], os.O_RDWR | os.O_DIRECT); at = int(sys.argv[2]); m = mmap.mmap(-1, 4096)
os.preadv(f, [m], at // 4096 * 4096); m[at % 4096] ^= 1; os.pwritev(f, [m], at // 4096 * 4096)' "$1" "$2"
}

is "the two copies are the same" "$(sb /tmp/b0.sb '' | sha256sum)" \
	"$(dd if=/dev/b0 bs=4096 skip=$((copy_at / 4096)) count=1 status=none | sha256sum)"

# --- Damage to one copy is tolerated, reported and repaired
for byte in 9 60 104 4095; do
	flip b1 $byte
	ok "the first superblock flipped at byte $byte: it assembles" weftctl assemble v
	cmp -s -n 8388608 /tmp/data /dev/weft/v
	result $? "with its data"
	weftctl stop v >/dev/null
	whole
done
raw_assemble() { python3 /weft/tests/system/weft_netlink.py assemble v "$@"; }
# kernel_refuses SENTENCE TEXT DEVICE...: to assemble v of them.
kernel_refuses() {
	local sentence=$1 text=$2 out
	shift 2
	out=$(raw_assemble "$@")
	case $out in
	"refused: "*"$text"*) result 0 "$sentence" ;;
	*) note "$out"; weftctl stop v; result 1 "$sentence" ;;
	esac
}
# What wrote over the start of a former member may have left its end alone.
flip b1 0
kernel_refuses "no superblock at its start: its copy alone is not enough" "but a copy at its end" /dev/b0 /dev/b1
dd if=/dev/b1 of=/tmp/front bs=4096 count=1 iflag=direct status=none
mkswap -q /dev/b1
refused "--repair does not write over what somebody put there" 6 "it holds swap" weftctl check /dev/b1 --repair
ok "it is there still" sh -c "blkid -p /dev/b1 | grep -q swap"
dd if=/tmp/front of=/dev/b1 bs=4096 count=1 oflag=direct status=none
ok "with --repair it is" weftctl check /dev/b1 --repair
ok "it assembles" weftctl assemble v
weftctl stop v >/dev/null
# A former member: only what is weft's is erased.
flip b1 0
mkswap -q /dev/b1
refused "create names what is on it, and not whose it was" 6 "holds swap" weftctl create w /dev/b1
ok "its copy is wiped" weftctl wipe /dev/b1
no_copy() { dd if=/dev/b1 bs=4096 skip=$((copy_at / 4096)) count=1 iflag=direct status=none | cmp -n 4096 - /dev/zero; }
ok "and is gone" no_copy
ok "what is there now stays" sh -c "blkid -p /dev/b1 | grep -q swap"
whole
# Of a former member 0, what was put over the owner record says nothing of an owner.
flip b0 0
mkswap -q /dev/b0
dd if=/dev/urandom of=/dev/b0 bs=4096 seek=1 count=2 oflag=direct status=none
ok "the copy of a former member 0 is wiped" weftctl wipe /dev/b0
ok "and nothing else" sh -c "blkid -p /dev/b0 | grep -q swap && ! cmp -s -n 8192 /dev/b0 /dev/zero 4096 0"
whole
for at in 4096 8192; do head -c 4096 /dev/zero | put_block b0 $at; done
# A RAID signature behind a superblock that is there still: DDF's is 257 sectors before the end.
ddf() { printf '\xde\x11\xde\x11'; head -c 4092 /dev/zero; }
put_ddf() { dd of="$1" bs=512 seek=$((65536 - 257)) oflag=direct status=none iflag=fullblock; }
ddf | put_ddf /dev/b1
refused "a RAID signature behind weft's superblock" 3 "ddf_raid_member; --force" weftctl wipe /dev/b1
head -c 4096 /dev/zero | put_ddf /dev/b1
make_null e 32
ddf | put_ddf /dev/e
refused "a RAID signature at the end is seen" 6 "ddf_raid_member" weftctl create w /dev/e
ok "with --force it is overwritten" weftctl create w /dev/e --force --no-assemble
is "so that no other program takes the disk" "$(blkid -p -s TYPE -o value /dev/e)" ""
ok "and it is a member" weftctl check /dev/e
remove_null e
# A disk of which the member is the last partition ends with the same bytes.
make_loop last 33
dd if=/dev/b1 of=/dev/last bs=1M seek=1 oflag=direct status=none
kernel_refuses "the copy of a partition at the end of its disk is not the disk's" "no weft superblock" /dev/b0 /dev/last
is "nor is it for check" "$(weftctl check /dev/last --json | json '.findings[0].state')" absent
weftctl check /dev/last --repair >/dev/null
ok "and --repair writes nothing there" cmp -n 1048576 /dev/last /dev/zero
remove_loop last
dd if=/dev/urandom bs=512 count=4 status=none | dd of=/dev/b1 bs=512 seek=2 oflag=direct status=none
weftctl check v >/tmp/check.out
is "check sees a torn first superblock" $? 5
ok "and says so" grep -q 'b1: .*first superblock is damaged.*copy is good' /tmp/check.out
log_mark
assemble_says() { weftctl assemble v && weftctl stop v && log_says "$1"; }
ok "the kernel log does, too" assemble_says "b1: the superblock.s checksum is wrong; its copy is used"
ok "repair with a dry run writes nothing" sh -c 'weftctl check v --repair --dry-run; ! weftctl check v'
ok "repair mends it" weftctl check v --repair
ok "and then all is good" weftctl check v
flip b0 $((copy_at + 50))
weftctl check v >/tmp/check.out
is "check sees a damaged copy" $? 5
ok "it assembles" weftctl assemble v
weftctl stop v >/dev/null
ok "and is mended" weftctl check v --repair
flip b0 $((copy_at + 50))
make_null used 64
ok "another volume is in use" weftctl create u /dev/used
weftctl check --repair >/dev/null
ok "a repair of all members repairs this one, too" weftctl check v
ok "the other one is stopped" weftctl stop u
remove_null used
is "with the same bytes" "$(dd if=/dev/b0 bs=4096 skip=$((copy_at / 4096)) count=1 status=none | sha256sum)" \
	"$(sha256sum </tmp/b0.sb)"
flip b0 100; flip b0 $((copy_at + 100))
refused "both copies damaged" 5 "checksum is wrong" weftctl assemble v /dev/b0 /dev/b1
is "check says it cannot help" "$(weftctl check /dev/b0 --json | json '.findings[0].state')" both-damaged
whole

# --- Each field impossible, in both copies, with a right checksum: straight to the kernel
while read -r edit sentence; do
	sb /tmp/b1.sb "$edit" >/tmp/edited
	for at in 0 $copy_at; do put_block b1 "$at" </tmp/edited; done
	kernel_refuses "the kernel refuses $edit" "$sentence" /dev/b0 /dev/b1
done <<-'EDITS'
	b[0]=0 no weft superblock
	b[12]=9 format version 9
	b[24:32]=b"\1"*8 disagrees
	b[32:40]=b"\1"*8 features this version does not know
	b[40]^=1 belongs to another volume
	b[56]=0x2f other than letters
	b[56:88]=b"a"*32 has no end
	b[56]=0x77 calls the volume w
	b[88:104]=open("/tmp/b0.sb","rb").read()[88:104] both claim to be member
	b[104]=0 both claim to be member
	b[104]=7 member 7 of 2
	b[106]=0 0 members
	b[106]=3 disagrees
	b[108:112]=struct.pack("<I",65535) chunks of 65535
	b[108:112]=struct.pack("<I",131072) chunks of 131072
	b[112:116]=struct.pack("<I",1024) blocks of 1024
	b[112:116]=struct.pack("<I",4096) blocks of 512 bytes, the volume was made with 4096
	b[120:128]=struct.pack("<Q",4096) data from byte 4096
	b[128:136]=struct.pack("<Q",1<<62) not possible
	b[128:136]=struct.pack("<Q",65536) disagrees
	b[136:144]=struct.pack("<Q",2<<20) within the data
	b[136:144]=struct.pack("<Q",64<<20) too small
	b[144:152]=struct.pack("<Q",9) generation 9
	EDITS
whole
is "the whole ones assemble" "$(raw_assemble /dev/b0 /dev/b1)" "done"
weftctl stop v >/dev/null

# --- Features
for d in b0 b1; do for at in 0 $copy_at; do sb /tmp/$d.sb 'b[24]=1' | put_block $d "$at"; done; done
refused "an unknown read-only feature refuses to write" 7 "--read-only" weftctl assemble v
ok "and is read" weftctl assemble v --read-only
weftctl stop v >/dev/null
for d in b0 b1; do for at in 0 $copy_at; do sb /tmp/$d.sb 'b[16]=1' | put_block $d "$at"; done; done
ok "an unknown compatible feature is no reason" weftctl assemble v
weftctl stop v >/dev/null
whole

# --- The owner record: what of it a beat of an earlier assembly may overwrite
ownership() { cat '/sys/block/weft!v/weft/ownership'; }
is_now() { [ "$(ownership)" = "$1" ]; }
# record WHERE: the host has the volume, and says so there, at a byte of member 0.
record() { dd if=/dev/b0 bs=4096 skip=$(($1 / 4096)) count=1 iflag=direct status=none; }
beats() { [ "$(record 4096 | sha256sum)" != "$1" ]; }
weftctl assemble v >/dev/null
record 4096 >/tmp/beat; record 8192 >/tmp/claim
weftctl stop v >/dev/null
weftctl assemble v >/dev/null
put_block b0 4096 </tmp/beat
ok "a late beat of an earlier assembly is written over" until_true 30 beats "$(sha256sum </tmp/beat)"
sleep 1
ok "and takes nothing back" until_true 30 is_now held
put_block b0 8192 </tmp/claim
ok "the claim of another assembly takes the volume" until_true 30 grep -q lost '/sys/block/weft!v/weft/ownership'
dd if=/dev/zero of=/dev/weft/v bs=4k count=1 oflag=direct status=none 2>/dev/null
is "writes fail" $? 1
weftctl stop v >/dev/null
for at in 4096 8192; do head -c 4096 /dev/zero | put_block b0 $at; done
weftctl assemble v >/dev/null
log_mark
# A beat that has just read the record writes over it.
damaged() { head -c 4096 /dev/urandom | put_block b0 4096; sleep 1; is_now lost; }
ok "a damaged record takes the volume as well" until_true 30 damaged
ok "and is called so" log_says "the owner record is damaged"
weftctl stop v >/dev/null
head -c 4096 /dev/zero | put_block b0 4096
head -c 4096 /dev/urandom | put_block b0 8192
refused "a damaged claim without a record leaves the owner unknown" 3 "claim behind the owner record is damaged" \
	weftctl assemble v
ok "and is taken over by request" weftctl assemble v --take-over
weftctl stop v >/dev/null
for at in 4096 8192; do head -c 4096 /dev/zero | put_block b0 $at; done
# Another host claims the volume while this one waits for its claim to hold, and this one gives up.
for _ in 1 2; do
	weftctl assemble v >/dev/null
	record 4096 >/tmp/beat; record 8192 >/tmp/claim
	weftctl stop v >/dev/null
done
for at in 4096 8192; do head -c 4096 /dev/zero | put_block b0 $at; done
interval=/sys/module/weft/parameters/heartbeat_ms
usual=$(cat $interval)
echo 20000 >$interval
weftctl assemble v >/tmp/out 2>&1 & waiting=$!
claims() { record 8192 | grep -q .; }
ok "a claim waits for two intervals" until_true 30 claims
put_block b0 8192 </tmp/claim; put_block b0 4096 </tmp/beat
kill -TERM $waiting
wait $waiting
ok "it was interrupted" test $? -ge 128
record 4096 >/tmp/now
ok "the record of the host that came last is left" cmp /tmp/now /tmp/beat
echo "$usual" >$interval
for at in 4096 8192; do head -c 4096 /dev/zero | put_block b0 $at; done
# The former owner, before a reboot, had a slow heart: its lease is counted by that, not by ours.
echo 1500 >$interval
weftctl assemble v >/dev/null
record 4096 >/tmp/beat; record 8192 >/tmp/claim
weftctl stop v >/dev/null
put_block b0 4096 </tmp/beat; put_block b0 8192 </tmp/claim
echo 100 >$interval
begin=$(date +%s%N)
ok "a volume whose owner had a slow heart is taken" weftctl assemble v
waited=$((($(date +%s%N) - begin) / 1000000))
ok "after ten of its intervals without a beat, and two more for the claim" test $waited -ge 17500
echo "$usual" >$interval
weftctl stop v >/dev/null
modprobe dm_mod
linear="0 $((32 * 2048)) linear $(readlink -f /dev/b0) 0"
dmsetup create still --table "$linear"; dmsetup mknodes
# Heartbeats are counted before the next one comes.
slow 500 >$interval
weftctl assemble v /dev/mapper/still /dev/b1 >/dev/null
# Fields of a disk's statistics: 5 is completed writes, 16 is completed flushes.
stat_of() { awk -v field="$2" '{ print $field }' "/sys/block/$(basename "$(readlink -f "/dev/$1")")/stat"; }
# goes_on SENTENCE: heartbeats succeed again, and with them a write, which is for the other member.
goes_on() {
	local beats
	beats=$(stat_of b0 5)
	dmsetup resume still
	ok "$1: a write goes on" until_true 20 dd if=/dev/zero of=/dev/weft/v bs=64k seek=129 count=1 oflag=direct
	beats=$(($(stat_of b0 5) - beats))
	ok "$1: after two heartbeats ($beats)" test $beats -ge 2
	ok "$1: the lease is held" until_true 30 is_now held
}
dmsetup suspend still
ok "a heartbeat that does not come back is shown, without a write" until_true 30 is_now suspended
goes_on "it comes back"
dmsetup suspend --noflush still; dmsetup load still --table "0 $((32 * 2048)) error"; dmsetup resume still
# A moment in which the machine stood still may have ended the lease: then the next two heartbeats are not as above.
sleep "$(slow 5)"
ok "heartbeats that fail are shown, too" until_true 30 is_now failed
dmsetup suspend --noflush still; dmsetup load still --table "$linear"
goes_on "they succeed again"
echo "$usual" >$interval
ok "stopped" weftctl stop v
dmsetup remove still
make_null beat 32 cache_size=16
ok "a volume of a disk with a write cache" weftctl create beating /dev/beat --force
written=$(stat_of beat 5)
flushed=$(stat_of beat 16)
three_beats() { [ $(($(stat_of beat 5) - written)) -ge 3 ]; }
ok "it has three heartbeats" until_true 20 three_beats
is "which do not flush the cache" "$(stat_of beat 16)" "$flushed"
ok "stopped" weftctl stop beating
remove_null beat

# --- Wiping members of a volume that a host may use
weftctl assemble v >/dev/null
record 4096 >/tmp/held; record 8192 >/tmp/claim
weftctl stop v >/dev/null
record 4096 >/tmp/free
put_block b0 4096 </tmp/held
refused "a member other than 0 of a volume that is owned" 3 "owns; --force" weftctl wipe /dev/b1
head -c 4096 /dev/zero | put_block b0 4096
put_block b0 8192 </tmp/claim
refused "whose record is lost, and its claim is not" 3 "owns; --force" weftctl wipe /dev/b1
weftctl assemble v >/dev/null
record 8192 >/tmp/newer
weftctl stop v >/dev/null
put_block b0 4096 </tmp/free; put_block b0 8192 </tmp/newer
refused "whose record is older than the claim of a host" 3 "owns; --force" weftctl wipe /dev/b1
put_block b0 8192 </tmp/claim
put_block b0 4096 </tmp/held
flip b0 4200
refused "whose record is damaged" 3 "owner record is damaged" weftctl wipe /dev/b1
put_block b0 4096 </tmp/held
for at in 0 $copy_at; do flip b1 $((at + 100)); done
refused "that has no good superblock, so that its volume is not known" 3 "not known whether" weftctl wipe /dev/b1
whole
put_block b0 4096 </tmp/free
for at in 0 $copy_at; do head -c 4096 /dev/zero | put_block b0 "$at"; done
refused "whose member 0 is elsewhere" 3 "member 0 is not on this host" weftctl wipe /dev/b1
whole
ok "nothing was wiped" weftctl check v

# --- A superblock that has the volume's UUID, and more members than the volume
sb /tmp/b1.sb 'b[104:106]=struct.pack("<H",255); b[106:108]=struct.pack("<H",256)' >/tmp/edited
for at in 0 $copy_at; do put_block b1 "$at" </tmp/edited; done
ok "is listed" weftctl list
refused "is not assembled" 5 "/dev/b1 disagrees with /dev/b0" weftctl assemble v
for at in 0 $copy_at; do sb /tmp/b0.sb 'b[106:108]=struct.pack("<H",1)' | put_block b0 "$at"; done
ok "is listed behind one with fewer" weftctl list
refused "nor behind that" 5 "disagrees with" weftctl assemble v
whole

# --- A superblock that cannot be read: for that there is the other one
bad_blocks() { echo "$1" >/sys/kernel/config/nullb/b1/badblocks; }
state_of_b1() { weftctl check /dev/b1 --json | json '.findings[0].state'; }
for at in 0 $copy_at; do
	bad_blocks "+$((at / 512))-$((at / 512 + 7))"
	is "block $at cannot be read: check tells" "$(state_of_b1)" \
		"$([ "$at" = 0 ] && echo first-damaged || echo copy-damaged)"
	ok "block $at cannot be read: the volume is assembled" weftctl assemble v
	ok "block $at cannot be read: and stopped" weftctl stop v
	bad_blocks "-$((at / 512))-$((at / 512 + 7))"
done
bad_blocks +0-7
weftctl check --repair v >/tmp/check.out
is "by the volume's name it is not written over" $? 5
ok "as another program may use the disk" grep -q 'the first cannot be read, so another program may use' /tmp/check.out
bad_blocks -0-7
ok "all can be read again" weftctl check v

# --- A member that shrank below its data
make_loop shrunk 32
dd if=/dev/b1 of=/dev/shrunk bs=1M status=none oflag=direct
remove_loop shrunk
truncate -s 20M /tmp/shrunk.img; ln -s "$(losetup -f --show /tmp/shrunk.img)" /dev/shrunk
out=$(python3 /weft/tests/system/weft_netlink.py assemble v /dev/b0 /dev/shrunk)
case $out in *"too small"*) bad=0 ;; *) note "$out"; bad=1 ;; esac
result $bad "a member that shrank is refused"
remove_loop shrunk
for n in 0 1; do remove_null "b$n"; done
ok_unload
done_testing
