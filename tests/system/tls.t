#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Members by NVMe/TCP with TLS 1.3, on two hosts: keys, refusals, what is on the wire, a connection that comes back,
# another key, a boot.
# lab-own: --hosts 2 --memory 1G
# lab-kernel: none
# lab-needs: software:tls
# lab-not: lab debian12
. "${0%/*}/lib.sh"

cfs=/sys/kernel/config/nvmet
host=$(cat /etc/nvme/hostnqn)
key=/etc/weft/tls-key
other=/etc/weft/other-key
with_key=(--tls-key-file "$key")
target=10.77.1.2
on_target() { on_host host1 "$@"; }
served() { on_target "find $cfs/subsystems $cfs/ports $cfs/hosts -mindepth 1 -maxdepth 1 2>/dev/null | wc -l"; }
# psks: the names of the keys in this kernel's keyring.
psks() { keyctl list "$(awk '$9 == ".nvme:" { print "0x" $1 }' /proc/keys)" | grep -o 'NVMe1R0.*'; }

load_weft
add_software tls
# As docs/setup.md says, on both nodes. The guests have no systemd: tlshd is started below.
configure=$(commands docs/setup.md "^## TLS$" '^(echo|sed)')
ok "tlshd is configured" sh -ec "$configure"
is "it takes its keys from the keyring" "$(grep '^keyrings=' /etc/tlshd.conf)" keyrings=.nvme
prepare="set -e; . tests/system/lib.sh
	for n in a b c d; do make_null \$n 64; done
	add_software tls
	$configure"
on_target "$prepare" | indented

# --- Keys
ok "a key" weftctl gen-tls-key $key
ok "a longer one" weftctl gen-tls-key $other --length 48
is "only root reads it" "$(stat -c %a:%U $key)" 600:root
refused "a file is not replaced" 3 "is there already" weftctl gen-tls-key $key
refused "no key of that length" 2 "--length" weftctl gen-tls-key /tmp/k --length 64
# As docs/setup.md says, here with a name and a file.
ok "a file is a key of the keyring" sh -ec "$(in_text keyctl | sed "s,NAME,of-a-file,; s,FILE,$other,")"
ok "which has its name" keyctl search @u user of-a-file
# copy_key: the target has the same.
copy_key() { on_target "mkdir -p /etc/weft && umask 077 && echo $(cat $key) >$key"; }
ok "the target has it, too" copy_key

# --- Refusals of export
export_tls="weftctl export --transport tcp --address $target --host $host --tls-key-file $key"
refused "rdma has none" 2 "there is no TLS for rdma" \
	on_target "weftctl export /dev/a --address $target --host $host --tls-key-file $key"
refused "a key of everybody" 2 "contradict each other" \
	on_target "weftctl export /dev/a --transport tcp --address $target --any-host --tls-key-file $key"
refused "a key and a secret" 2 "do not request the secret" on_target "$export_tls /dev/a --dhchap-secret-file $key"
refused "a key that others read" 7 "users other than its owner may read" \
	on_target "chmod 644 $key; $export_tls /dev/a"
ok "hidden again" on_target "chmod 600 $key"
refused "no key in it" 2 "/tmp/none is not a TLS key" \
	on_target "umask 077; echo x >/tmp/none; weftctl export --transport tcp --address $target --host $host \
		--tls-key-file /tmp/none /dev/a"
is "nothing is served" "$(served)" 0

# --- A target with TLS
modprobe nvme-tcp
ok "the target's tlshd" on_target "modprobe -a nvmet nvmet-tcp && (setsid tlshd -s </dev/null >/tmp/tlshd.log 2>&1 &)"
tlshd -s >/tmp/tlshd.log 2>&1 & tlshd=$!
ok "an export" on_target "$export_tls /dev/a /dev/b"
# uri_of DISK: what the target exports it as.
uri_of() { on_target "weftctl exports --json" | json ".exports[] | select(.device == \"/dev/$1\") | .uri"; }
uris=("$(uri_of a)" "$(uri_of b)")
refused "another key for the same host" 3 "name that one" \
	on_target "cp $key /tmp/second; weftctl export --transport tcp --address $target --host $host \
		--tls-key-file /tmp/second /dev/d"
another=nqn.2014-08.org.example:another
keys_are() { [ "$(on_target "grep -c $another /proc/keys")" = "$1" ]; }
ok "a host is added to an export" on_target "weftctl change-export /dev/a --add-host $another"
ok "it has keys for that and for discovery" until_true 30 keys_are 2
ok "it is removed" on_target "weftctl change-export /dev/a --remove-host $another"
ok "and so are its keys" until_true 30 keys_are 0
is "its port wants TLS" "$(on_target "cat $cfs/ports/1/addr_tsas $cfs/ports/1/addr_treq" | paste -sd' ')" \
	"tls1.3 required"
refused "no export without, on this port" 3 "listens at tcp://$target:4420 with TLS" \
	on_target "weftctl export /dev/c --transport tcp --address $target --host $host"
ok "but on another" on_target "weftctl export /dev/c --transport tcp --address $target --port 4421 --host $host"
clear_uri=$(uri_of c)
refused "nor with, on one that has none" 3 "without TLS, for all" on_target "$export_tls /dev/d --port 4421"

# --- Connections
refused "a host without a key" 1 "cannot be connected" weftctl connect "${uris[0]}"
refused "one with another key" 1 "TLS needs tlshd on both hosts" weftctl connect "${uris[0]}" --tls-key-file $other
is "whose key is gone again" "$(psks)" ""
refused "rdma" 2 "cannot be encrypted: TLS is for tcp" weftctl connect rdma://$target/nqn.a "${with_key[@]}"
refused "discovery without it" 1 "cannot be connected" weftctl discover tcp://$target
is "discovery with it" "$(weftctl discover tcp://$target "${with_key[@]}" --json | json '.subsystems | length')" 2
ok "a volume" weftctl create v "${uris[@]}" "${with_key[@]}"
tls_keys() { cat /sys/class/nvme/nvme*/tls_key; }
is "both members have TLS" "$(tls_keys | grep -c '[0-9a-f]')" 2
ok "data is right" verify /dev/weft/v size=16m
ok "a disk without TLS" weftctl connect "$clear_uri"
clear_disk=$(weftctl connect --json | json ".connections[] | select(.port == 4421) | .disks[0]")
refused "which a command with a key does not take" 3 "is connected without TLS" \
	weftctl connect "$clear_uri" "${with_key[@]}"

# --- The wire
cat >/tmp/wire.py <<'E'
import select, socket, subprocess, sys, time
raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
raw.setsockopt(socket.SOL_SOCKET, 33, 64 << 20)  # SO_RCVBUFFORCE
raw.bind(("eth0", 0))
pattern, packets, seen, end = b"weft" * 8, 0, 0, None
writer = subprocess.Popen(sys.argv[1:])
while end is None or time.monotonic() < end:
    if select.select([raw], [], [], 0.1)[0]:
        packets, seen = packets + 1, seen + (pattern in raw.recv(1 << 17))
    if end is None and writer.poll() is not None:
        end = time.monotonic() + 1
print("data" if seen else "no data" if packets > 20 else f"{packets} packets")
E
yes weft | tr -d '\n' | head -c 1M >/tmp/pattern
wire() { python3 /tmp/wire.py dd if=/tmp/pattern of="$1" bs=64k oflag=direct status=none; }
is "it shows what is written without TLS" "$(wire "$clear_disk")" data
is "and nothing of what is written with it" "$(wire /dev/weft/v)" "no data"
findings() { weftctl doctor --json | json '.findings[] | select(.check == "encryption") | "\(.severity): \(.text)"'; }
is "the doctor tells them apart" "$(findings)" "note: controllers connected by tcp without TLS: 1
good: controllers connected by TLS: 2"

# --- A boot
refused "a file without the key" 2 "has TLS, and a boot would not find its key" weftctl save v
refused "nor with one that is not there" 4 "cannot be read" weftctl save v --tls-key-file /etc/weft/nix
ok "the file names it" weftctl save v "${with_key[@]}"
is "once" "$(grep -c "tls_key_file = .$key" /etc/weft/volumes/v.toml)" 1
ok "again without naming it" weftctl save v
ok "stopped" weftctl stop v
weftctl disconnect "${uris[@]}" >/dev/null
keyctl clear "$(awk '$9 == ".nvme:" { print "0x" $1 }' /proc/keys)"
ok "the volume" weftctl assemble v --saved
is "has TLS again" "$(tls_keys | grep -c '[0-9a-f]')" 2

# --- A connection that is lost
controllers() { weftctl connect --json | json '.connections[] | select(.port == 4420) | .controller'; }
all_live() { ! controllers | sed 's,.*,/sys/class/nvme/&/state,' | xargs grep -Lx live | grep -q .; }
reset_all() { for c in $(controllers); do echo 1 >"/sys/class/nvme/$c/reset_controller"; done; }
reset_all
ok "comes back" until_true 60 all_live
ok "data is right" verify /dev/weft/v size=16m

# --- Another key
before=$(psks)
for uri in "${uris[@]}"; do weftctl connect "$uri" "${with_key[@]}" >/dev/null; done
is "the same key is used as it is" "$(psks)" "$before"
ok "another key" weftctl gen-tls-key $key --force
ok "which the target has" copy_key
ok "and takes" on_target "weftctl export --saved"
for uri in "${uris[@]}"; do ok "so does the host" weftctl connect "$uri" "${with_key[@]}"; done
is "each pair has one" "$(psks | sort | uniq -c | wc -l) $(psks | grep -cFx "$before")" "2 0"
reset_all
ok "they are connected by it" until_true 60 all_live
ok "data is right" verify /dev/weft/v size=16m

# --- Without tlshd
kill $tlshd
wait $tlshd
refused "no handshake" 1 "TLS needs tlshd on both hosts" weftctl discover tcp://$target "${with_key[@]}"
is "the doctor says that it is missing" "$(findings | grep -c '^problem: .*TLS: 2, and tlshd does not run')" 1

ok "stopped" weftctl stop v
weftctl disconnect "${uris[@]}" "$clear_uri" >/dev/null

# --- The commands of docs/setup.md
mapfile -t steps < <(commands docs/setup.md "^## TLS$" '^weftctl')
is "the document has commands" ${#steps[@]} 4
here() { sed "s,/dev/nvme0n1,/dev/d,; s,10[.]0[.]0[.]1,$target," <<<"$1"; }
on_target "rm $key"
tlshd -s >>/tmp/tlshd.log 2>&1 & tlshd=$!
ok "document: ${steps[0]}" on_target "${steps[0]}"
ok "document: ${steps[1]}" on_target "COMPUTE_NQN=$host; $(here "${steps[1]}")"
(umask 077; on_target "cat $key" >$key)
URI=$(uri_of d)
export URI
ok "document: ${steps[2]}" sh -ec "${steps[2]}"
ok "document: ${steps[3]}" sh -ec "${steps[3]}"
is "document: the member has TLS" "$(tls_keys | grep -c '[0-9a-f]')" 1
ok "document: stopped" weftctl stop data
weftctl disconnect "$URI" >/dev/null
rm /etc/weft/volumes/data.toml
ok "document: unexported" on_target "weftctl unexport /dev/d"
kill $tlshd
wait $tlshd

ok "no export is left" on_target "weftctl unexport /dev/a /dev/b /dev/c"
is "nothing is served" "$(served)" 0
is "and no key is left" "$(on_target "grep -c ' psk ' /proc/keys")" 0
ok_unload
done_testing
