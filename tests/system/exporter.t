#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# weft-exporter: metrics by HTTP for Prometheus, which reads them here, and the page's data.
# lab-kernel: uml
# lab-needs: software:prometheus
. "${0%/*}/lib.sh"

cat >/tmp/ask.py <<'P'
import sys, urllib.error, urllib.request
method, url = sys.argv[1:]
try:
    answer = urllib.request.urlopen(urllib.request.Request(url, method=method), timeout=60)
except urllib.error.HTTPError as error:
    answer = error
print(answer.status, answer.headers["Content-Type"], file=sys.stderr)
sys.stdout.write(answer.read().decode())
P
at=127.0.0.1:9919
get() { python3 /tmp/ask.py GET "http://$at$1" 2>/tmp/head; }
page() { get /data.json | jq -r "$1"; }
# As the unit's user: with no privileges.
exporter() {
	setpriv --reuid 65534 --regid 65534 --clear-groups --no-new-privs --bounding-set=-all \
		weft-exporter "$@" >/tmp/exporter.out 2>&1 & exporter=$!
}
# ends SENTENCE
ends() {
	kill -TERM "$exporter"
	wait "$exporter"
	is "$1" $? 0
}

ip link set lo up
exporter
ok "it listens" until_true 20 get /metrics
is "without the module there is the version alone" "$(get /metrics | grep -v '^#')" \
	"weft_build_info{version=\"$(weft-exporter --version | cut -d' ' -f2)\"} 1"
is "in Prometheus's format" "$(cat /tmp/head)" "200 text/plain; version=0.0.4; charset=utf-8"
ok "and the module is not loaded" test ! -e /sys/module/weft
is "on this host's own address alone" "$(ss -Hltn 'sport = :9919' | awk '{ print $4 }')" $at
# The labels say if the lease is held: a short pause must not end it.
load_weft 1000
for n in 1 2; do make_null m$n 64; done
ok "a volume" weftctl create v /dev/m1 /dev/m2 --chunk 64K
is "its series are those of weftctl metrics" "$(get /metrics | cut -d' ' -f1)" "$(weftctl metrics | cut -d' ' -f1)"

# --- The page
is "a page" "$(get / | grep -c '<title>weft</title>')" 1
is "of HTML" "$(cat /tmp/head)" "200 text/html; charset=utf-8"
is "with its script" "$(get /page.js | grep -c '^function draw')" 2
is "the page's data: the volume" "$(page '.volumes[0] | .name, .state, .members[1].disk')" "v
live
m2"
reads() { dd if=/dev/weft/v of=/dev/null bs=64k count=64 iflag=direct status=none; }
reads_shown() {
	local shown='.volumes[0].history[-1].kinds.read | "\(.bytes > 0) \(.us | length) \(.us[0] > 0)"'
	reads
	[ "$(page "$shown")" = "true 2 true" ]
}
ok "after an interval, its reads and their latency are there by member" until_true 60 reads_shown
ok "QoS" weftctl qos v --feed-latency 1ms
classes() { reads; [ "$(page '.volumes[0].history[-1].kinds.feed.latency | add // 0')" -gt 0 ]; }
ok "with QoS its latencies are counted by class" until_true 60 classes
weftctl stop v
ok "events" weftctl assemble v
has_event() { page '.events[].type' | grep -qx "$1"; }
ok "of a volume that was stopped and assembled" until_true 60 has_event assembled

# --- What it does not answer
is "another path" "$(get /etc/passwd; cat /tmp/head)" "unknown path: use /, /metrics or /data.json
404 text/plain; charset=utf-8"
is "another method" "$(python3 /tmp/ask.py POST http://$at/metrics 2>&1)" "405 text/plain; charset=utf-8
use GET or HEAD"
python3 - <<'P'
import socket
get = b"GET %s HTTP/1.1\r\n"
for junk in (b"\0" * 100000, get % (b"/" * 100000), get % b"/" + b"A: b\r\n" * 20000 + b"\r\n"):
    with socket.create_connection(("127.0.0.1", 9919)) as one:
        try:
            one.sendall(junk)
            one.recv(100)
        except OSError:
            pass
P
ok "it survives nonsense" get /metrics
python3 -c 'import socket, time
idle = [socket.create_connection(("127.0.0.1", 9919), source_address=("127.0.0.2", 0)) for _ in range(100)]
print(len(idle), flush=True)
time.sleep(600)' >/tmp/idle & idle=$!
ok "a client has a hundred connections" until_true 20 grep -qx 100 /tmp/idle
ok "and asks nothing, which keeps no other one waiting" get /metrics
kill $idle
wait $idle
refused "a port that is taken" 1 "cannot listen on 127.0.0.1:9919: Address already in use" weft-exporter
refused "no address" 2 "'9919' is not of the form HOST:PORT" weft-exporter --listen 9919
refused "no such address" 2 "'nowhere.invalid:1' is not an address of this host" \
	weft-exporter --listen nowhere.invalid:1

# --- Prometheus
prometheus=$(software prometheus)/usr/bin/prometheus
cat >/tmp/prometheus.yml <<P
global: {scrape_interval: $(slow 5)s, evaluation_interval: 1s}
rule_files: [/usr/share/weft/prometheus/weft-alerts.yml]
scrape_configs: [{job_name: weft, static_configs: [{targets: ["$at"]}]}]
P
"$prometheus" --config.file=/tmp/prometheus.yml --storage.tsdb.path=/tmp/tsdb --web.listen-address=127.0.0.1:9090 \
	>/tmp/prometheus.out 2>&1 & server=$!
ask() { python3 /tmp/ask.py GET "http://127.0.0.1:9090/api/v1/$1" 2>/dev/null; }
has_series() { [ "$(ask 'query?query=weft_volume_state' | jq -r '.data.result[0].metric.volume')" = v ]; }
ok "Prometheus reads the series" until_true 90 has_series || tail /tmp/prometheus.out
is_well() { [ "$(ask targets | jq -r '.data.activeTargets[0] | .health + .lastError')" = up ]; }
ok "without an error" until_true 60 is_well
is "and the alerts" "$(ask rules | jq '[.data.groups[].rules[]] | length > 5')" true
kill $server
wait $server

# An upgrade unloads the module: who asks for its events would load it again.
ok "the volume is stopped" weftctl stop v
ok "the module can be unloaded" until_true 20 rmmod weft
has_no_volume() { ! get /metrics | grep -q '^weft_volume'; }
ok "and its series go" until_true 20 has_no_volume
sleep 20
ok "it stays unloaded" test ! -e /sys/module/weft
ends "it ends at a signal"
is "without a word" "$(cat /tmp/exporter.out)" ""
if [ -e /proc/net/if_inet6 ]; then
	exporter --listen '[::1]:9920'
	ok "IPv6" until_true 20 python3 /tmp/ask.py GET 'http://[::1]:9920/metrics'
	ends "ended"
fi
for n in 1 2; do remove_null m$n; done
done_testing
