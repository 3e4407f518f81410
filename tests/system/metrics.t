#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Metrics for Prometheus: counters of volumes, members, classes and RDMA ports, and the file for the node exporter.
# lab-kernel: uml
. "${0%/*}/lib.sh"

# value SERIES: of that series now.
value() { weftctl metrics | awk -v series="$1" '$1 == series { print $2 }'; }
# grows SERIES COMMAND...: by how much it does while the command runs.
grows() {
	local series=$1 before
	shift
	before=$(value "$series")
	"$@" >/dev/null 2>&1
	echo $(($(value "$series") - before))
}
reads() { dd if=/dev/weft/v of=/dev/null bs=64k count=4 iflag=direct; }
small() { dd if=/dev/weft/v of=/dev/null bs=4k count=4 iflag=direct; }

is "without the module there is the version alone" "$(weftctl metrics | grep -v '^#')" \
	"weft_build_info{version=\"$(weftctl --version | cut -d' ' -f2)\"} 1"
ok "and the module is not loaded" test ! -e /sys/module/weft
# A lease that a moment in which the machine stands still does not end.
load_weft 1000
for n in 1 2; do make_null m$n 64; done
ok "a volume" weftctl create v /dev/m1 /dev/m2 --chunk 64K
is "it is live" "$(value 'weft_volume_state{volume="v",state="live"}')" 1
is "this host owns it" "$(value 'weft_volume_ownership{volume="v",ownership="held"}')" 1
ok "its lease ends later" awk -v left="$(value 'weft_volume_lease_left_seconds{volume="v"}')" \
	'BEGIN { exit !(left > 0) }'
ok "the status says when" sh -c "weftctl status v | grep -q 'ownership   held, the lease ends in [0-9.]* s'"
is "its size" "$(value 'weft_volume_size_bytes{volume="v"}')" "$(blockdev --getsize64 /dev/weft/v)"
is "each member has a usable path" "$(value 'weft_member_usable_paths{volume="v",member="1"}')" 1
is "commands are counted by member" "$(grows 'weft_member_ios_total{volume="v",member="0",operation="read"}' reads)" 2
is "and their bytes" "$(grows 'weft_member_io_bytes_total{volume="v",member="1",operation="read"}' reads)" 131072
memory_read() { weft-memtest v bench pages --count=16 --depth=4 --largest=4096 --size=$((1 << 20)); }
is "on registered memory by route" \
	"$(grows 'weft_memory_io_bytes_total{volume="v",route="direct"}' memory_read)" 65536
is "without QoS there are no classes" "$(weftctl metrics | grep -c weft_class)" 0
ok "QoS" weftctl qos v --feed-latency 500us
is "its target" "$(value 'weft_qos_feed_latency_target_seconds{volume="v"}')" 0.0005
latencies=weft_class_latency_seconds
is "latencies are counted by class" "$(grows "${latencies}_count{volume=\"v\",class=\"feed\"}" small)" 4
is "the last bucket has them all" "$(grows "${latencies}_bucket{volume=\"v\",class=\"feed\",le=\"+Inf\"}" small)" 4
is "--json has the text" "$(weftctl metrics --json | json .metrics | grep -c '^# TYPE weft_volume_state gauge')" 1
refused "a volume that is not there" 4 "no volume is called nix" weftctl metrics nix

# --- RDMA ports
soft_roce 10.9.0.1
port='{device="rxe0",port="1"'
is "a port is active" "$(value "weft_rdma_port_active$port}")" 1
is "its network interface" "$(value "weft_rdma_port_info$port,netdev=\"dummy0\"}")" 1
is "its counters are the kernel's, by their names" \
	"$(weftctl metrics | sed -n 's/^weft_rdma_port_events_total.*counter="\([^"]*\)".*/\1/p' | sort)" \
	"$(cd /sys/class/infiniband/rxe0/ports/1 && grep -ls . counters/* hw_counters/* | sed 's,.*/,,' |
		grep -v 'lifespan\|port_.*_data' | sort -u)"
is "soft-RoCE has no link, so no rate" "$(weftctl metrics | grep -c weft_rdma_port_rate_bytes)" 0
no_soft_roce
is "no port, no series" "$(weftctl metrics | grep -c weft_rdma)" 0

# --- The file for the node exporter
umask 077
ok "into a file" weftctl metrics --output /tmp/collector/weft.prom
is "that everybody reads" "$(stat -c %a /tmp/collector/weft.prom)" 644
ok "it is replaced" sh -c 'cd /tmp/collector && weftctl metrics v v --output weft.prom'
is "each series is there once" "$(grep -v '^#' /tmp/collector/weft.prom | cut -d' ' -f1 | sort | uniq -d)" ""
is "nothing else is left there" "$(ls -A /tmp/collector)" weft.prom
mkdir /tmp/collector/folder
refused "a folder is not replaced" 1 "/tmp/collector/folder cannot be written: Is a directory" \
	weftctl metrics --output /tmp/collector/folder
ok "a device is written to" weftctl metrics --output /dev/null
ok "and stays one" test -c /dev/null
refused "nor is there a file in /proc" 1 "cannot be written" weftctl metrics --output /proc/weft.prom
is "and again nothing is left" "$(ls -A /tmp/collector)" "folder
weft.prom"

ok "stopped" weftctl stop v
is "a volume that is stopped has no series" "$(weftctl metrics | grep -c 'volume="v"')" 0
for n in 1 2; do remove_null m$n; done
ok_unload
done_testing
