#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# What lintian, Debian's checker of packages, says of the packages and of their source: no error, no warning. Each
# release has a lintian of its own, and a debhelper that makes other packages of the same files.
# lab-chroot: trixie bookworm
# lab-kernel: none
# lab-needs: software:lintian:RELEASE packages:RELEASE
. "${0%/*}/lib.sh"

export LC_ALL=C.UTF-8 PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
cd /lab/packages/this || exit
findings() { lintian --allow-root --fail-on error,warning "$@"; }

ok "lintian runs" lintian --version
is "the packages and their source are there" "$(find . -name '*.deb' | wc -l) $(find . -name '*.dsc' | wc -l)" "10 1"
ok "it finds no error and no warning in them" findings weft_*.changes
# It does look into packages: this is in a unit, and has an override with its reason.
findings --no-override weft-tools_*.deb >/tmp/out 2>&1
is "without an override it names a unit" "$? $(grep -c '^W: .*-unusual-wantedby-target .*weft-follow@' /tmp/out)" "2 1"
indented </tmp/out
done_testing
