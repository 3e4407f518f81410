#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# What rdma-faults.t does, over the test adapter: one with DMA addresses, and a
# connection manager that tells otherwise.
# lab-own: --topology hca --memory 3G
# lab-kernel: none
export rails=softhca
. "${0%/*}/rdma-faults.t"
