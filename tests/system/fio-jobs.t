#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# The fio jobs, and the tool that runs them.
# lab-kernel: none
# lab-not: lab debian12 debian13 previous backports
. "${0%/*}/lib.sh"

load_weft
for n in 1 2 3 4; do make_null e$n 1200; done
jobs=/usr/share/weft/fio-jobs
PATH=${PATH#*weft-lab:}	# by Debian's fio
ok "a volume" weftctl create data /dev/e[1-4]
for job in "$jobs"/*.fio; do
	is "$(basename "$job") says what it models and what is good" \
		"$(grep -cE '^; [a-z0-9-]+: |[Aa] good|What counts|good mean' "$job" | awk '{print ($1 >= 2)}')" 1
done
cd /tmp || exit
refused "what destroys is not run unasked" 1 "--destroy allows it" $jobs/run /dev/weft/data --jobs ingest
mkfs.xfs -q /dev/weft/data && mount /dev/weft/data /mnt
refused "nor on a device in use" 1 "is in use" $jobs/run /dev/weft/data --destroy
umount /mnt
refused "an unknown job" 1 "no job is called nix" $jobs/run /dev/weft/data --jobs nix
count=10 # All but those on registered memory.
ok "jobs run, with plots" $jobs/run /dev/weft/data --destroy --runtime 1 --size 8m --output before --plots
is "all are in the results" \
	"$(jq '[.rows[].job | split(":")[0] | split(" ")[0]] | unique | length' before/run.json)" $count
is "fio's own output is kept" "$(find before -name '*.json' | wc -l)" $((count + 1))
is "plots are SVG" "$(grep -l '<svg' before/*.svg | wc -l)" 3
ok "a second set" $jobs/run /dev/weft/data --runtime 1 --size 8m --jobs feed-sequential,latency-qd1 --output after
ok "two sets are compared, with plots" $jobs/run --compare before after --plots
refused "a folder without results" 1 "holds no results" $jobs/run --compare before /mnt
# --- The commands of README and of docs/planning.md, with two jobs and less data
mkdir documents && cd documents || exit
few="--jobs feed-sequential,feed-small-random --runtime 1 --size 8m"
run_each "document" < <({
	commands README.md "^## Measure$"
	commands docs/planning.md "^## Measured figures$"
} | sed "/run .dev/s/\$/ $few/")
cd /tmp || exit
# --- A plan with what was measured
members() { weft-plan --model llama-70b --gpus 64 --from data --json | json '.plans[0].storage.members'; }
is "weft-plan takes the members of the volume" "$(members)" 4
sizes() { weft-plan --model llama-70b --gpus 64 --from data "$@"; }
measured=$(sizes --fio before)
is "a plan with the rates that fio measured" $? 0
ok "is another one" test "$measured" != "$(sizes)"
refused "of no volume" 4 "no volume is called nix" weft-plan --model llama-70b --from nix
ok "verified" verify /dev/weft/data size=8m
ok "stopped" weftctl stop data
ok "assembled" weftctl assemble data /dev/e[1-4]
ok "verified again" verify /dev/weft/data size=8m verify_only=1
ok "stopped again" weftctl stop data
cd /weft || exit
for n in 1 2 3 4; do remove_null e$n; done
ok_unload
done_testing
