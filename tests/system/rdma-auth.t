#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Authentication by DH-HMAC-CHAP: weft's own initiator and the stock host against the kernel's target.
# lab-kernel: uml
# lab-more: debian13 previous backports
. "${0%/*}/lib.sh"

load_weft 2000
soft_roce 10.9.0.1
modprobe weft_rdma
modprobe nvmet-rdma
nvmet=/sys/kernel/config/nvmet
host_nqn=$(weftctl host-nqn)
nqn=nqn.2014-08.org.example:auth
uri=rdma://10.9.0.1/$nqn
make_null auth 64
quick=(--keep-alive "$(slow 5)" --reconnect-delay 1)
sysfs=/sys/class/weft-rdma/weft-rdma0
auth_is() { [ "$(cat $sysfs/authentication)" = "$1" ]; }
connects() { weftctl connect "$uri" "${quick[@]}" "$@"; }
reads() { dd if=/dev/weft-rdma0n1 of=/dev/null bs=64k count=8 iflag=direct status=none; }

# --- Secrets
for one in host ctrl other; do ok "a secret: $one" weftctl gen-dhchap-key /tmp/$one; done
is "only root may read it" "$(stat -c %a /tmp/host)" 600
is "it has the form of the specification" "$(grep -c '^DHHC-1:00:[A-Za-z0-9+/]*=*:$' /tmp/host)" 1
refused "a secret is not overwritten" 3 "is there already" weftctl gen-dhchap-key /tmp/host
refused "a length that is not the hash's" 2 "must have 64 bytes, not 32" weftctl gen-dhchap-key /tmp/x --hash sha512
secret=(--dhchap-secret-file /tmp/host)
both=("${secret[@]}" --dhchap-ctrl-secret-file /tmp/ctrl)
refused "any host with a secret" 2 "contradict" \
	weftctl export /dev/auth --address 10.9.0.1 --any-host "${secret[@]}"
ok "an export with secrets" \
	weftctl export /dev/auth --address 10.9.0.1 --subnqn $nqn --host "$host_nqn" "${both[@]}"

is "the target shows its secrets to root alone" "$(stat -c %a $nvmet/hosts/*/dhchap_key | sort -u)" 600
make_null auth2 64
refused "the same host with another secret" 3 "the target knows another secret" \
	weftctl export /dev/auth2 --address 10.9.0.1 --host "$host_nqn" --dhchap-secret-file /tmp/other
refused "or with another hash" 3 "with hmac(sha256), in all of its subsystems: name that one, --dhchap-hash" \
	weftctl export /dev/auth2 --address 10.9.0.1 --host "$host_nqn" "${both[@]}" --dhchap-hash sha512
refused "or with another group" 3 "with ffdhe2048, in all of its subsystems: name that one, --dhchap-dhgroup" \
	weftctl export /dev/auth2 --address 10.9.0.1 --host "$host_nqn" "${both[@]}" --dhchap-dhgroup ffdhe4096
is "and nothing of that is left" "$(weftctl exports | grep -c auth2)" 0
another=nqn.2014-08.org.example:another
different() { cat $nvmet/hosts/*/"$1" | sort -u | wc -l; }
ok "a host is added to the export" weftctl change-export /dev/auth --add-host $another
ok "its folder is there" test -e $nvmet/hosts/$another
is "it has the secrets of the first one" "$(different dhchap_key) $(different dhchap_ctrl_key)" "1 1"
ok "it is removed" weftctl change-export /dev/auth --remove-host $another
ok "and so are its secrets" test ! -e $nvmet/hosts/$another

# --- One way, both ways
refused "without a secret" 7 "wants this host to authenticate, and no secret is given" connects
ok "with the secret" connects "${secret[@]}"
ok "the host has authenticated" auth_is "sha256 ffdhe2048 host"
is "all queues are connected" "$(cat $sysfs/queue_count)" $(($(nproc) + 1))
ok "read" reads
ok "disconnected" weftctl disconnect --all
# add_key(2) to the user's keyring, and KEYCTL_INVALIDATE.
key=$(python3 -c 'import ctypes; secret = open("/tmp/host", "rb").read()
print(ctypes.CDLL(None).syscall(248, b"user", b"weft-host", secret, len(secret), -4))')
ok "with the secret as a key of the keyring" connects --dhchap-secret-file keyring:weft-host
python3 -c "import ctypes; ctypes.CDLL(None).syscall(250, 21, $key)"
ok "disconnected" weftctl disconnect --all
refused "without that key" 4 "is not in the keyring of this user" connects --dhchap-secret-file keyring:weft-host
ok "with the controller's, too" connects "${both[@]}"
ok "both have authenticated" auth_is "sha256 ffdhe2048 mutual"
ok "fio's verification ends well" verify /dev/weft-rdma0n1 size=1m
ok "disconnected" weftctl disconnect --all

# --- Wrong ones
refused "another secret" 7 "accept this host's secret" connects --dhchap-secret-file /tmp/other
refused "another secret of the controller" 7 "has not proven" \
	connects "${secret[@]}" --dhchap-ctrl-secret-file /tmp/other
refused "the controller's alone" 2 "needs this host's own secret" connects --dhchap-ctrl-secret-file /tmp/ctrl
cp /tmp/host /tmp/open
chmod 644 /tmp/open
refused "one that others may read" 7 "users other than its owner may read" connects --dhchap-secret-file /tmp/open
sed 's/^\(DHHC-1:00:\).\(.*\)/\1_\2/' /tmp/host >/tmp/bad && chmod 600 /tmp/bad
refused "one that is no base64" 2 "is not a secret: its third field is not base64" \
	connects --dhchap-secret-file /tmp/bad
printf 'DHHC-1:00:%s:\n' "$(head -c 36 /dev/zero | base64)" >/tmp/bad
refused "one with a wrong checksum" 2 "its checksum is wrong" connects --dhchap-secret-file /tmp/bad
refused "one that is not there" 4 "cannot be read" connects --dhchap-secret-file /tmp/nowhere
is "nothing is connected" "$(ls /sys/class/weft-rdma)" ""

# --- Every hash and group, and secrets that a hash transforms
key_of() { echo "$nvmet/hosts/$host_nqn/$1"; }
n=0
for group in null ffdhe2048 ffdhe3072 ffdhe4096 ffdhe6144 ffdhe8192; do
	hashes=$((256 + 128 * (n++ % 3)))
	# The key of a session is the shared value after the hash, so each pair is another one.
	[ -z "${LAB_LONG:-}" ] || hashes="256 384 512"
	for hash in $hashes; do
		echo "hmac(sha$hash)" >"$(key_of dhchap_hash)"
		echo $group >"$(key_of dhchap_dhgroup)"
		ok "sha$hash and $group: connected" connects "${both[@]}" --queues 1
		ok "sha$hash and $group: both have authenticated" auth_is "sha$hash $group mutual"
		ok "sha$hash and $group: disconnected" weftctl disconnect --all
	done
done
echo ffdhe2048 >"$(key_of dhchap_dhgroup)"
for length in 32 48 64; do
	weftctl gen-dhchap-key /tmp/host --force --length $length --hash sha$((length * 8)) >/dev/null
	weftctl gen-dhchap-key /tmp/ctrl --force --length $length --hash sha$((length * 8)) >/dev/null
	cat /tmp/host >"$(key_of dhchap_key)"
	cat /tmp/ctrl >"$(key_of dhchap_ctrl_key)"
	ok "a secret of $length bytes that its hash transforms" connects "${both[@]}" --queues 1
	ok "disconnected" weftctl disconnect --all
done

# --- The stock host takes the same files
if modprobe -qn nvme-rdma; then
	ok "the stock host" weftctl connect "$uri" --transport nvme "${both[@]}"
	is "whose secrets root alone reads" "$(stat -c %a /sys/class/nvme/nvme*/dhchap_*secret | sort -u)" 600
	is "the doctor says that RDMA is not encrypted" \
		"$(weftctl doctor | grep -c 'controllers connected by rdma, which has no encryption: 1')" 1
	ok "disconnected" weftctl disconnect --all
fi

# --- Again on each reconnect; other secrets while it is connected
ok "a volume" weftctl create v "$uri" --force "${quick[@]}" "${both[@]}"
reset() { echo 1 >$sysfs/reset_controller; }
again() { local before; before=$(cat $sysfs/reconnects); until_true 30 reset; until_true 30 more "$before"; }
more() { all_live && [ "$(cat $sysfs/reconnects)" -gt "$1" ]; }
verify_while "reset: no error" /dev/weft/v 8 1500 again
ok "registered memory has queues of its own, which authenticate" \
	weft-memtest v bench pages --count=64 --depth=4 --largest=4096 --size=$((1 << 20))
weftctl gen-dhchap-key /tmp/host --force >/dev/null
cat /tmp/host >"$(key_of dhchap_key)"
ok "the target has another secret: I/O goes on" dd if=/dev/weft/v of=/dev/null bs=4k count=8 iflag=direct status=none
log_mark
reset
ok "without it, it does not come back" until_true 20 log_says "attempt .* accept this host's secret"
ok "the host gets it" connects "${both[@]}"
ok "it comes back" until_true 40 all_live
ok "and I/O goes on" dd if=/dev/weft/v of=/dev/null bs=4k count=8 iflag=direct status=none
refused "it cannot be saved while a boot would not find the secret" 2 "would not find its secret" weftctl save v
mkdir -p /etc/weft
cp /tmp/host /etc/weft/dhchap-secret
cp /tmp/ctrl /etc/weft/dhchap-ctrl-secret
ok "saved" weftctl save v
ok "stopped" weftctl stop v
ok "disconnected" weftctl disconnect --all
ok "assembled with the secrets of /etc/weft" weftctl assemble v --saved
ok "both have authenticated" auth_is "sha512 ffdhe2048 mutual"

# --- Nowhere else
ok "a report" weftctl report --output /tmp/report.tar.gz
ok "it can be read" sh -c "tar -xzOf /tmp/report.tar.gz >/tmp/said && test -s /tmp/said"
dmesg >>/tmp/said
is "no secret is in the log or in it" "$(cut -d: -f3 /tmp/host /tmp/ctrl | grep -c -F -f - /tmp/said)" 0
ok "stopped" weftctl stop v
ok "disconnected" weftctl disconnect --all

# --- A target that does not ask proves nothing
weftctl unexport --all >/dev/null
weftctl export /dev/auth --address 10.9.0.1 --subnqn $nqn --host "$host_nqn" >/dev/null
refused "a target that does not authenticate in place of one that does" 7 "does not ask for authentication" connects
rm /etc/weft/dhchap-ctrl-secret
ok "this host's own secret alone is not asked for" connects
ok "it has not authenticated" auth_is none
ok "disconnected" weftctl disconnect --all
rm -f /etc/weft/dhchap-secret /etc/weft/volumes/v.toml
weftctl unexport --all >/dev/null
remove_null auth
remove_null auth2
rmmod weft_rdma
ok_unload
no_soft_roce
done_testing
