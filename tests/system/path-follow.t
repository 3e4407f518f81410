#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# weftctl path follow: addresses that targets announce become paths by themselves. Two rails to one target in one guest,
# each with a discovery service of its own, as nvmet has one for each port.
# lab-kernel: uml
. "${0%/*}/lib.sh"

load_weft 2000
nqn=nqn.2014-08.org.example
rails_up
for n in 0 1; do
	make_null "fb$n" 64
	rails_serve "$nqn:d$n" "/dev/fb$n"
done
uri() { rails_uri "$nqn:d$1" "$2"; }
service() { echo "rdma://10.9.$1.1:442$1"; }
quick="--keep-alive $(slow 5) --reconnect-delay 1"
usable() { status_of v "[.members[].paths | map(select(.usable)) | length] | join(\"\")"; }
all_usable() { [ "$(usable)" = "$1" ]; }
discovery_controllers() { grep -l discovery /sys/class/nvme/*/subsysnqn 2>/dev/null | wc -l; }

# shellcheck disable=SC2086
ok "a volume by the first rail" weftctl create v "$(uri 0 0)" "$(uri 1 0)" --chunk 64K --force $quick
refused "a volume that is not there" 4 "none" weftctl path follow none "$(service 0)" --once
refused "a service whose URI is wrong" 2 "rdma://" weftctl path follow v 10.9.1.1 --once
refused "a service that does not answer" 1 "rdma://10.9.1.1:4499" \
	weftctl path follow v rdma://10.9.1.1:4499 --once
is "no path was added" "$(usable)" 11
# shellcheck disable=SC2086
is "a dry run says which it would add" "$(weftctl path follow v "$(service 1)" --once --dry-run $quick | sort)" \
	"would: member 0 of v is reached by $(uri 0 1) as well
would: member 1 of v is reached by $(uri 1 1) as well"
is "and adds none" "$(usable)" 11
refused "a dry run for ever" 2 "requires --once" weftctl path follow v "$(service 1)" --dry-run
is "the first rail's service announces nothing new" "$(weftctl path follow v "$(service 0)" --once)" ""
# shellcheck disable=SC2086
ok "the second rail's service announces a path to each member" weftctl path follow v "$(service 1)" --once $quick
ok "they are paths now" until_true 20 all_usable 22
is "no connection to a service stays" "$(discovery_controllers)" 0

make_null local 64
ok "a volume of a local disk" weftctl create w /dev/local --force
refused "it has nothing to follow" 1 "no path by weft's own initiator" weftctl path follow w "$(service 0)" --once
ok "which is stopped" weftctl stop w
remove_null local

# --- It goes on
for n in 0 1; do ok "the second path of member $n is removed" weftctl path remove v "$(uri $n 1)"; done
weftctl disconnect "$(uri 0 1)" "$(uri 1 1)" 2>&1 | indented
rails_withdraw 1 "$nqn:d0" "$nqn:d1"
# shellcheck disable=SC2086
weftctl path follow v "$(service 0)" "$(service 1)" $quick >/tmp/follow 2>&1 & follower=$!
one_connected() { [ "$(discovery_controllers)" = 1 ]; }
ok "the service that is there is connected" until_true 20 one_connected
ok "the other one, whose port does not listen, is reported" until_true 20 grep -q "10.9.1.1:4421" /tmp/follow
rails_offer 1 "$nqn:d0"
ok "the port listens and announces one member: it has a second path" until_true 90 all_usable 21
# From here on an event tells, and not the next look, which is a minute after the last one.
started=$SECONDS
rails_offer 1 "$nqn:d1"
ok "the other member, too" until_true 30 all_usable 22
took=$((SECONDS - started))
ok "by the event of its service, at once ($took s)" test "$took" -le 30
sed 's/^/# /' /tmp/follow

ok "a path that the user removes" weftctl path remove v "$(uri 1 1)"
rails_withdraw 1 "$nqn:d0"
ok "whose member loses a path" until_true 30 all_usable 11
rails_offer 1 "$nqn:d0"
ok "stays away when its service has other news" until_true 40 all_usable 21
is "for long" "$(sleep "$(slow 3)"; usable | cut -c 2)" 1
# The service has to be asked in between, which a slow guest may do late.
announced_again() {
	rails_withdraw 1 "$nqn:d1"
	sleep "$(slow "$1")"
	rails_offer 1 "$nqn:d1"
	until_true 30 all_usable 22
}
announced_again 1 || announced_again 5 || announced_again 15
result $? "it is back when its target announces it again"

# --- As its file says
ok "the volume is saved" weftctl save v
refused "with a file that names no service" 2 "names no discovery service" weftctl path follow v --saved --once
sed -i "s|^read_only|follow = [ \"$(service 0)\", \"$(service 1)\" ]\nread_only|" /etc/weft/volumes/v.toml
ok "its file says what it follows" weftctl config check v
ok "which is done" weftctl path follow v --saved --once
ok "the volume is saved again" weftctl save v
ok "and still follows" grep -q "$(service 1)" /etc/weft/volumes/v.toml
rm /etc/weft/volumes/v.toml

# --- The end
kill -TERM "$follower"
ok "a signal ends it" until_true 30 sh -c "! kill -0 $follower 2>/dev/null"
wait "$follower"
is "with success" $? 0
none_connected() { [ "$(discovery_controllers)" = 0 ]; }
ok "its connections to services are gone" until_true 30 none_connected
is "and its paths are not" "$(usable)" 22
# shellcheck disable=SC2086
weftctl path follow v "$(service 0)" $quick >/tmp/follow 2>&1 & follower=$!
ok "it follows again" until_true 20 one_connected
ok "the volume is stopped" weftctl stop v
rails_withdraw 0 "$nqn:d0"
ok "and with its service's next news it ends, too" until_true 90 sh -c "! kill -0 $follower 2>/dev/null"
wait "$follower"
is "with success, too" $? 0
rails_withdraw 0 "$nqn:d1"
weftctl disconnect --all 2>&1 | indented
for n in 0 1; do remove_null "fb$n"; done
ok_unload
done_testing
