# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Two rails from this guest to its own target: soft-RoCE on dummy interfaces, or with rails=softhca the test adapters.

# rails_up, rails_down: rail N has the address 10.9.N.1. rail_gone N, rail_back N: its RDMA device is removed, and made
# again.
if [ "${rails:-}" = softhca ]; then
	rails_up() { softhca; }
	rails_down() { rmmod weft_softhca; no_softhca; }
	rail_gone() { adapter "$1" >/sys/bus/pci/drivers/weft_softhca/unbind; }
	rail_back() { adapter "$1" >/sys/bus/pci/drivers/weft_softhca/bind; }
else
	rails_up() {
		local n
		modprobe rdma_rxe
		for n in 0 1; do
			ip link add "rail$n" type dummy
			ip address add "10.9.$n.1/24" dev "rail$n"
			ip link set "rail$n" mtu 9000 up
			rail_back "$n"
		done
	}
	rails_down() {
		local n
		for n in 0 1; do rail_gone "$n"; ip link delete "rail$n"; done
	}
	rail_gone() { rdma link delete "rxe$1"; }
	rail_back() { rdma link add "rxe$1" type rxe netdev "rail$1"; }
fi

# rails_serve SUBNQN DEVICE: this guest's target serves the device by both rails, each a port. What the
# second says is hidden: the namespace is enabled by then, and refuses to be set up again.
rails_serve() {
	nvmet_serve "$1" "$(readlink -f "$2")" rdma 10.9.0.1 4420
	nvmet_serve "$1" "$(readlink -f "$2")" rdma 10.9.1.1 4421 2>/dev/null
}

# rails_uri SUBNQN RAIL: the member that it is by that rail.
rails_uri() { echo "rdma://10.9.$2.1:442$2/$1"; }

# rails_withdraw, rails_offer RAIL SUBNQN...: their target does not listen on that rail any more, and listens again.
rails_withdraw() { local one; for one in "${@:2}"; do nvmet_withdraw "$one" "442$1"; done; }
rails_offer() { local one; for one in "${@:2}"; do nvmet_offer "$one" "442$1"; done; }

# rails_unserve SUBNQN...: they are served by no rail, and the ports are gone.
rails_unserve() {
	local base=/sys/kernel/config/nvmet n one
	for n in 0 1; do rm -f "$base"/ports/442$n/subsystems/*; rmdir "$base/ports/442$n"; done
	for one in "$@"; do
		echo 0 >"$base/subsystems/$one/namespaces/1/enable"
		rmdir "$base/subsystems/$one/namespaces/1" "$base/subsystems/$one"
	done
}
