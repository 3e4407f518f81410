#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Bad input to every verb: one clear sentence, a documented status, nothing written, nothing leaked.
# lab-kernel: uml
. "${0%/*}/lib.sh"

load_weft
for n in 0 1 2 3; do make_null "r$n" 32; done
make_null r4k 32 blocksize=4096
make_null small 1
make_loop ro 32
blockdev --setro "$(readlink -f /dev/ro)"
contents() { for d in 0 1 2 3; do sha256sum </dev/r$d; done; }
before=$(contents)
assembled() { weftctl list --json | json '.volumes | length'; }
# as_user COMMAND...: without any rights.
as_user() { setpriv --reuid 65534 --clear-groups "$@"; }

refused "an empty name" 2 "name is empty" weftctl create "" /dev/r0
refused "a name that is too long" 2 "27 characters" weftctl create abcdefghijklmnopqrstuvwxyz0 /dev/r0
refused "a name with a slash" 2 "other than letters" weftctl create a/b /dev/r0
refused "a name with a dot" 2 "other than letters" weftctl create a.mem /dev/r0
refused "a chunk that is no power of two" 2 "power of two" weftctl create v /dev/r0 --chunk 96K
refused "a chunk too small" 2 "power of two" weftctl create v /dev/r0 --chunk 2K
refused "a chunk too large" 2 "power of two" weftctl create v /dev/r0 --chunk 32M
refused "a chunk that is no size" 2 "is not a" weftctl create v /dev/r0 --chunk lots
weftctl create v >/dev/null 2>&1
is "no members" $? 2
# shellcheck disable=SC2046
refused "257 members" 2 "at most 256" weftctl create v $(yes /dev/r0 | head -257)
refused "the same member twice" 2 "same device" weftctl create v /dev/r0 /dev/r1 /dev/r0
ln -s /dev/r0 /tmp/other-name
refused "the same member by another name" 2 "same device" weftctl create v /dev/r0 /tmp/other-name
refused "a member that is not there" 4 "/dev/nothing" weftctl create v /dev/r0 /dev/nothing
refused "a member that is a file" 2 "not a block device" weftctl create v /dev/r0 /etc/passwd
refused "a read-only member" 7 "read-only" weftctl create v /dev/r0 /dev/ro
refused "a member too small" 2 "too small" weftctl create v /dev/r0 /dev/small
refused "members with different blocks" 2 "blocks of 512 bytes" weftctl create v /dev/r0 /dev/r4k
mkfs.ext4 -q /dev/r1 && mount /dev/r1 /mnt
refused "a mounted member" 3 "mounted on /mnt" weftctl create v /dev/r0 /dev/r1 --force
umount /mnt
refused "a member that holds a filesystem" 6 "ext4 filesystem" weftctl create v /dev/r0 /dev/r1
printf 'label: gpt\n,\n' | sfdisk -q /dev/r2
refused "a member that holds partitions" 6 "partition table" weftctl create v /dev/r0 /dev/r2
dd if=/dev/zero of=/dev/r1 bs=1M count=32 status=none oflag=direct
dd if=/dev/zero of=/dev/r2 bs=1M count=32 status=none oflag=direct
is "nothing was written by any of these" "$(contents)" "$before"

ok "a dry run of create succeeds" weftctl create v /dev/r0 /dev/r1 --dry-run
is "and writes nothing" "$(contents)" "$before"
is "nothing was assembled" "$(assembled)" 0

ok "create" weftctl create v /dev/r0 /dev/r1
refused "a name that is taken" 3 "assembled already" weftctl create v /dev/r2 /dev/r3
refused "a member in use" 3 "held by weft/v" weftctl create w /dev/r2 /dev/r0 --force
refused "to assemble what is assembled" 3 "assembled already" weftctl assemble v
refused "to wipe a member in use" 3 "in use" weftctl wipe /dev/r0
refused "to repair a member in use" 3 "in use" weftctl check /dev/r0 --repair
exec 5</dev/weft/v
refused "to stop a volume that is open" 3 "open in bad-input.t" weftctl stop v
refused "and a dry run says so" 3 "open in bad-input.t" weftctl stop v --dry-run
exec 5<&-
is "a dry run of a stop" "$(weftctl stop v --dry-run)" "would: stopped volume v"
is "leaves the volume" "$(assembled)" 1
is "examine names this host as the owner" \
	"$(weftctl examine /dev/r0 --json | json '.owners[] | "\(.record) \(.held) \(.host_nqn)"' | paste -sd,)" \
	"owner true $(weftctl host-nqn),claim true $(weftctl host-nqn)"
is "other members have no owner record" "$(weftctl examine /dev/r1 --json | json '.owners | length')" 0
refused "to add a member to itself, in a dry run" 2 "no weft superblock" \
	weftctl path add v /dev/r2 --dry-run
is "a dry run of a policy" "$(weftctl path iopolicy v numa --dry-run)" "would: v takes its paths by numa"
is "sets nothing" "$(cat '/sys/block/weft!v/weft/iopolicy')" round-robin
ok "stop" weftctl stop v
is "the owner has released it" "$(weftctl examine /dev/r0 --json | json '.owners[0].held')" false
is "a dry run of an assembly" "$(weftctl assemble v --dry-run)" \
	"would: assembled volume v of 2 members as /dev/weft/v"
ok "assembles nothing" test ! -e /dev/weft/v
before=$(contents)
ok "a dry run of a wipe" weftctl wipe /dev/r0 /dev/r1 --dry-run
is "wipes nothing" "$(contents)" "$before"
refused "to examine what is no member" 4 "no weft superblock" weftctl examine /dev/r2
refused "to stop it twice" 4 "no volume is called v" weftctl stop v
refused "the status of what is not there" 4 "no volume is called w" weftctl status w
refused "create over a member of another volume" 6 "member 0 of volume v" weftctl create w /dev/r2 /dev/r0
refused "to wipe what is no member" 4 "no weft superblock" weftctl wipe /dev/r2
refused "a missing member" 4 "member 0 of 2 is missing" weftctl assemble v /dev/r1
weftctl create w /dev/r2 /dev/r3 >/dev/null && weftctl stop w >/dev/null
dd if=/dev/zero of=/dev/r2 bs=4096 count=1 status=none oflag=direct
weftctl examine /dev/r2 >/tmp/examined
is "to examine a damaged member is status 5" $? 5
ok "and shows both superblocks" grep -q "superblock *at byte [1-9][0-9]*: valid" /tmp/examined
r2=$(readlink -f /dev/r2)
weftctl check w --repair >/tmp/checked
is "one whose start was overwritten is not repaired by its volume's name" \
	"$? $(grep -c "^$r2: .*name it: 'weftctl check --repair $r2'" /tmp/checked)" "5 1"
weftctl check --repair >/tmp/checked
is "nor with all others" "$? $(head -c 4096 /dev/r2 | tr -d '\0' | wc -c)" "5 0"
ok "but by its own" weftctl check /dev/r2 --repair
refused "a device that is no member" 4 "no weft superblock" weftctl assemble v /dev/r0 /dev/r1 /dev/r4k
refused "a report over a disk" 2 "/dev/r4k is a disk" weftctl report --output /dev/r4k
ln -s /dev/r4k /tmp/report
refused "or over what a link leads to" 2 "is a disk" weftctl report --output /tmp/report
is "nothing was written" "$(head -c 1M /dev/r4k | tr -d '\0' | wc -c)" 0

# A clone of a member: two devices that say the same of themselves.
make_null clone 32
dd if=/dev/r1 of=/dev/clone bs=1M status=none oflag=direct
refused "two devices that say to be the same member" 5 "both claim to be member 1" weftctl assemble v
remove_null clone
# Two volumes with one name, and with one UUID.
make_null other 32
weftctl create v /dev/other --no-assemble >/dev/null
refused "a name that two volumes have" 3 "by its UUID" weftctl assemble v
uuid=$(weftctl list --json | json '[.volumes[] | select(.name == "v" and .member_count == 2)][0].uuid')
ok "the UUID tells them apart" weftctl assemble "$uuid"
refused "the other one, while the name is taken" 3 "assembled already" weftctl assemble v /dev/other
weftctl stop v >/dev/null
weftctl wipe /dev/other >/dev/null; remove_null other

ok "read-only assembly" weftctl assemble v --read-only
is "is read-only" "$(blockdev --getro /dev/weft/v)" 1
dd if=/dev/zero of=/dev/weft/v bs=4k count=1 oflag=direct status=none 2>/dev/null
is "and cannot be written" $? 1
is "and claims nothing" "$(cat '/sys/block/weft!v/weft/ownership')" none
weftctl stop v >/dev/null

# As an ordinary user
cp "$(command -v weftctl)" /tmp/weftctl; chmod 755 /tmp/weftctl
weftctl assemble v >/dev/null
refused "to stop without CAP_SYS_ADMIN" 7 "CAP_SYS_ADMIN" as_user /tmp/weftctl stop v
refused "to stop with CAP_NET_ADMIN alone" 7 "CAP_SYS_ADMIN" \
	setpriv --bounding-set=-all,+net_admin --inh-caps=-all weftctl stop v
ok "to look is allowed" as_user /tmp/weftctl status v
is "and to list what is assembled" \
	"$(as_user /tmp/weftctl list --json | json '.volumes[].name')" v
refused "from another network namespace" 4 "initial network namespace" unshare -n weftctl status v
weftctl stop v >/dev/null
refused "to look for members, rather than to say that there are none" 7 "run weftctl as root" as_user /tmp/weftctl list

# JSON says the same as text
is "an error in JSON has its code and sentence" \
	"$(weftctl --json stop nothing | json '"\(.errors[0].code) \(.errors[0].text)"')" \
	"4 no volume is called nothing"
is "a command line that is not understood is told of in JSON too" \
	"$(weftctl bogus --json | json '"\(.schema) \(.errors[0].code) \(.errors[0].text)"')" \
	"1 2 'bogus' is not a command of weftctl; run weftctl --help"
is "what is done and what is refused are one document" \
	"$(weftctl --json stop nothing nobody | jq -s -r '"\(length) \(.[0].errors | length)"')" "1 2"
ok "wipe" weftctl wipe /dev/r0 /dev/r1 /dev/r2 /dev/r3
is "nothing is found afterwards" "$(assembled)" 0
for n in 0 1 2 3 4k; do remove_null "r$n"; done
remove_null small
blockdev --setrw "$(readlink -f /dev/ro)"
remove_loop ro
ok_unload
done_testing
