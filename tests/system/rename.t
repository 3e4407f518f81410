#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# A volume gets another name: refusals, an interruption between the members, its saved file.
# lab-kernel: uml
. "${0%/*}/lib.sh"

load_weft
for n in 0 1 2; do make_null "b$n" 32; done
copy_at=$((32 * 1048576 - 4096))
weftctl create v /dev/b0 /dev/b1 --chunk 64K >/dev/null
weftctl create other /dev/b2 --no-assemble >/dev/null
uuid=$(status_of v .uuid)
dd if=/dev/urandom of=/tmp/data bs=1M count=8 status=none
dd if=/tmp/data of=/dev/weft/v bs=1M oflag=direct status=none
weftctl save v >/dev/null

# --- Refused
refused "one that is assembled" 3 "/dev/b0 is in use" weftctl rename v w
get_block b0 4096 >/tmp/held
weftctl stop v >/dev/null
get_block b0 4096 >/tmp/free
put_block b0 4096 </tmp/held
refused "one that a host owns" 3 "owns; stop it there" weftctl rename v w
put_block b0 4096 </tmp/free
refused "a name with a slash" 2 "character other than" weftctl rename v a/b
refused "the name of another volume" 3 "is called other" weftctl rename v other
refused "the name that it has" 3 "is called v already" weftctl rename v v
refused "one that is not there" 4 "no volume called nix" weftctl rename nix w
head -c 4096 /dev/zero | put_block b1 $copy_at
refused "one with a damaged superblock" 5 "weftctl check --repair /dev/b1" weftctl rename v w
weftctl check --repair /dev/b1 >/dev/null
get_block b1 0 >/tmp/b1.sb
for at in 0 $copy_at; do head -c 4096 /dev/zero | put_block b1 "$at"; done
refused "one without all members" 4 "member 1 of 2 is missing" weftctl rename v w
for at in 0 $copy_at; do get_block b0 0 | put_block b1 "$at"; done
refused "one with a member twice" 5 "both claim to be member 0" weftctl rename v w
for at in 0 $copy_at; do put_block b1 "$at" </tmp/b1.sb; done
refused "no root" 7 "may not read" setpriv --reuid 1 --clear-groups weftctl rename v w
names() { weftctl list --json | json '[.volumes[].name] | sort | join(" ")'; }
ok "all superblocks are as they were" weftctl check v
is "so are the names" "$(names)" "other v"
is "a dry run says what it would do" "$(weftctl rename v w --dry-run | head -n 1)" "would: renamed volume v to w"
is "and does nothing" "$(names)" "other v"

# --- Done
data_is() {
	weftctl assemble "$1" >/dev/null && cmp -n 8388608 /tmp/data "/dev/weft/$1" && weftctl stop "$1" >/dev/null
}
ok "a volume is renamed" weftctl rename v w
ok "it has its data" data_is w
is "and its UUID" "$(weftctl list --json | json '.volumes[] | select(.name == "w") | .uuid')" "$uuid"
ok "all superblocks are good" weftctl check w
refused "the old name is gone" 4 "no volume called v" weftctl assemble v
is "the saved file has the new name" "$(ls /etc/weft/volumes)" w.toml
is "also in its text" "$(head -n 1 /etc/weft/volumes/w.toml | cut -d' ' -f-3)" "# Volume w,"
ok "it is good" weftctl config check w
ok "the volume is assembled from it" weftctl assemble w --saved
ok "stopped" weftctl stop w

# --- Interrupted between the members, and between the copies of one
get_block b1 0 >/tmp/b1.sb
ok "renamed again" weftctl rename "$uuid" x
for at in 0 $copy_at; do put_block b1 "$at" </tmp/b1.sb; done
refused "with two names it is not assembled" 5 "it calls the volume w, others call it x" weftctl assemble x
ok "the same command goes on" weftctl rename "$uuid" x
ok "it has its data" data_is x
put_block b1 0 </tmp/b1.sb
ok "by the old name, too" weftctl rename w x
ok "all superblocks are good" weftctl check x
ok "and there is its data" data_is x
is "the file has followed" "$(ls /etc/weft/volumes)" x.toml
cp /etc/weft/volumes/x.toml /etc/weft/volumes/y.toml
sed -i "s/$uuid/7c9e6679-7425-40de-944b-e07fc1f90ae7/" /etc/weft/volumes/y.toml
refused "a file of another volume is not replaced" 3 "y.toml is of another volume" weftctl rename x y
for n in 0 1 2; do remove_null "b$n"; done
ok_unload
done_testing
