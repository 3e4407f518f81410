#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Netlink messages that no tool of ours would send.
# lab-kernel: uml
# lab-more: debian12
. "${0%/*}/lib.sh"

load_weft
tap "hostile messages" python3 /weft/tests/system/weft_netlink.py hostile
is "all of them were tried" "$(grep -c '^\(not \)\?ok ' /tmp/tap.out)" 33
is "nothing is assembled" "$(weftctl list --json | json '.volumes | length')" 0

# Events
for n in 0 1; do make_null "e$n" 32; done
events_begin --count 2
weftctl create ev /dev/e0 /dev/e1 >/dev/null && weftctl stop ev >/dev/null
ok "a listener ends after two events" until_true 60 events_over
events_end
is "two events come for an assembly and a stop" \
	"$(json '"\(.volume) \(.type)"' </tmp/events | paste -sd,)" "ev assembled,ev stopped"
events_begin ev --count 1
weftctl create other /dev/e0 /dev/e1 --force >/dev/null && weftctl stop other >/dev/null
weftctl create ev /dev/e0 /dev/e1 --force >/dev/null && weftctl stop ev >/dev/null
ok "a listener to one volume ends after its first event" until_true 60 events_over
events_end
is "and gets none of another volume" "$(json '"\(.volume) \(.type)"' </tmp/events | paste -sd,)" "ev assembled"
# A command for each event. Its output is kept apart from the events.
# shellcheck disable=SC2016 # The shell of the event expands it.
on_event='echo "$WEFT_VOLUME $WEFT_TYPE" >>/tmp/run; sleep 300 & echo noise; [ "$WEFT_TYPE" = assembled ]'
weftctl events --count 2 --json --exec "$on_event" >/tmp/events 2>/dev/null & listener=$!
until_true 20 subscribed $listener
weftctl create ev /dev/e0 /dev/e1 --force >/dev/null && weftctl stop ev >/dev/null
ok "what it leaves in the background is not awaited" until_true 60 sh -c "! kill -0 $listener"
pkill -x sleep
wait $listener
is "a command is run for each event" "$(paste -sd, /tmp/run)" "ev assembled,ev stopped"
is "the events are as without it, and a command that fails is an error" \
	"$(json '.type // .errors[0].text' </tmp/events | paste -sd,)" \
	"assembled,stopped,the command for event stopped of volume ev ended with status 1"
weftctl status --watch 1 --json >/tmp/watch & watcher=$!
two_lines() { [ "$(wc -l </tmp/watch)" -ge 2 ]; }
ok "a status is shown again and again" until_true 30 two_lines
kill $watcher
wait $watcher
is "until a signal, which is no error" "$? $(jq -s -r 'map(.schema) | unique | length' /tmp/watch)" "0 1"
for n in 0 1; do remove_null "e$n"; done

# A command that waits for heartbeats is in the way of no other family of generic netlink, and ends with its caller.
# families: modules that register one, as this kernel has them.
families() { for name in weft_test_family nbd psample l2tp_netlink team; do modprobe -qn $name && echo $name; done; }
make_null e0 32
echo 30000 >/sys/module/weft/parameters/heartbeat_ms
state() { weftctl list --json | json '.volumes[0].state'; }
waits() { [ "$(state)" = assembling ]; }
gone() { ! waits; }
weftctl create ev /dev/e0 --force >/dev/null 2>&1 & creator=$!
ok "a volume is assembled, which waits for two heartbeats" until_true 30 waits
family=$(families | head -n 1)
if [ -n "$family" ]; then
	ok "another family is registered meanwhile ($family)" timeout "$(slow 10)" modprobe "$family"
	ok "which the assembly has not waited for" waits
	modprobe -r "$family"
else
	skip "another family is registered meanwhile" "no module of this kernel has one"
fi
kill -9 $creator
wait $creator 2>/dev/null
ok "its caller is killed: it is given up" until_true 30 gone
remove_null e0
ok_unload
done_testing
