#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# `make dkms-install` and `make install-tools` from a clone, in a release's own tree: what the README's "Install" says.
# lab-chroot: trixie
# lab-kernel: debian13
. "${0%/*}/lib.sh"

export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8
version=$(cat /weft/VERSION)
kernel=$(for d in /lib/modules/*; do [ -e "$d/build/Makefile" ] && basename "$d"; done | sort -V | head -n 1)
# Builds write beside the sources, and the checkout is for reading here.
mkdir /tmp/clone
cp -R /weft/{Kbuild,LICENSE,VERSION,Makefile,CMakeLists.txt,dkms.conf} \
	/weft/{kmod,uapi,cpp-tools,userspace,packaging,fio-jobs} /tmp/clone/

# in_clone COMMAND: README's, for that kernel, and built outside of the clone.
in_clone() {
	local said
	said=$(commands README.md "^## Install$" '^make' | grep -x "$1") &&
		sh -ec "cd /tmp/clone; $said KVER=$kernel BUILD=/tmp/build"
}

ok "the modules are installed by DKMS" in_clone "make dkms-install"
is "DKMS has them" "$(dkms status "weft/$version" -k "$kernel" | grep -c ': installed')" 1
for module in weft weft_rdma weft_p2p; do
	is "$module: its version" "$(modinfo -k "$kernel" -F version $module)" "$version"
	ok "$module: for that kernel" sh -c "modinfo -k $kernel -F vermagic $module | grep -q '^$kernel '"
done
if [ -z "${LAB_LONG:-}" ]; then
	note "'make check-all' installs them a second time, and the tools"
	done_testing
	exit
fi
ok "a second time replaces the first" in_clone "make dkms-install"
is "and DKMS has one" "$(dkms status "weft/$version" -k "$kernel" | grep -c ': installed')" 1
ok "the tools are built and installed" in_clone "make install-tools"
is "weftctl has the version" "$(weftctl --version)" "weftctl $version"
ok "a program can link libweft by pkg-config" sh -c '
	echo "#include <stdio.h>" >/tmp/program.c
	echo "#include <weft/weft.h>" >>/tmp/program.c
	echo "int main(void) { return puts(weft_route_name(WEFT_ROUTE_DIRECT)) < 0; }" >>/tmp/program.c
	export PKG_CONFIG_PATH=/usr/local/lib/pkgconfig:/usr/local/lib/x86_64-linux-gnu/pkgconfig
	cc /tmp/program.c -o /tmp/program $(pkg-config --cflags --libs weft)'
# Below /usr/local a program finds a library by what ldconfig has written, which install-tools runs.
is "and finds it when it is started" "$(/tmp/program 2>&1)" direct
ok "all is removed" make -C /tmp/clone uninstall BUILD=/tmp/build
is "DKMS has none" "$(dkms status "weft/$version")" ""
is "no file is left" "$(find /usr/local /usr/src /lib/modules ! -type d -iname '*weft*')" ""
done_testing
