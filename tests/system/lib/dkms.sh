# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-only
#
# DKMS in a guest.

# dkms_knows_weft: DKMS installs the modules that are here already. A build takes minutes in a guest: upgrade.t has one.
dkms_knows_weft() {
	local version sources installed
	version=$(cat /weft/VERSION)
	sources=/usr/src/weft-$version
	installed=/lib/modules/$(uname -r)/updates/dkms
	mkdir -p "$sources"/kmod/{weft,rdma,p2p}
	sed -e "s/#MODULE_VERSION#/$version/" -e '/^PRE_BUILD/d' -e 's/^MAKE\[0\]=.*/MAKE[0]="true"/' \
		-e 's/^CLEAN=.*/CLEAN="true"/' /weft/dkms.conf >"$sources/dkms.conf"
	mv "$installed/weft.ko" "$sources/kmod/weft/" && mv "$installed/weft_rdma.ko" "$sources/kmod/rdma/" &&
		mv "$installed/weft_p2p.ko" "$sources/kmod/p2p/" && dkms install "weft/$version" --no-depmod
}
