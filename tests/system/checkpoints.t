#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# In the tree of the release that has PyTorch: the programs of examples and documents; datasets; checkpoints of several
# ranks: other numbers of ranks load them, beside PyTorch's own; ranks are killed while they save; the filesystem is
# full. KILLS is how often a rank is killed: 20 times, 200 in check-all.
# lab-chroot: trixie
# lab-kernel: none
# lab-needs: software:torch tools:trixie
. "${0%/*}/lib.sh"

libraries=/usr/lib/x86_64-linux-gnu
export LD_LIBRARY_PATH=$libraries/blas:$libraries/lapack OMP_NUM_THREADS=1 GLOO_SOCKET_IFNAME=lo
KILLS=${KILLS:-${LAB_LONG:+200}}
export KILLS=${KILLS:-20} FOLDER=/tmp FULL=/tmp/full
mkdir -p $FULL
# The tree has processes of its own, and the machine's /proc.
ok "their /proc" mount -t proc none /proc
ok "a small filesystem" mount -t tmpfs -o size=100M none $FULL
ok "the short programs of the examples, datasets, and checkpoints that are none" \
	python3 -B -W ignore /weft/tests/python/test_torch.py Examples Samples Packed Checkpoints.test_what_is_none \
	Checkpoints.test_metadata_that_a_load_refuses Checkpoints.test_a_save_without_collectives \
	Checkpoints.test_files_of_others_stay Checkpoints.test_metadata_that_cannot_be_looked_at \
	Checkpoints.test_two_saves_into_one_folder Checkpoints.test_a_checkpoint_that_changes_under_a_load \
	Checkpoints.test_quantized
ok "the programs of the documents" python3 -B -W ignore /weft/tests/python/test_docs.py
for test in async other_numbers_of_ranks async_of_two_ranks a_failed_save_of_a_used_writer a_full_filesystem \
	killed_ranks killed_while_they_overwrite; do
	ok "checkpoints: ${test//_/ }" timeout 2400 python3 -B -W ignore /weft/tests/python/test_torch.py \
		"Checkpoints.test_$test"
done
ok "unmounted" umount $FULL /proc
done_testing
