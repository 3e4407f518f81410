# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-only
#
# Programs that few tests need, which the lab has made before (# lab-needs: software:NAME).

# software NAME: the folder with its files that the lab has made, or has found made, last.
software() {
	find /lab/cache -maxdepth 1 -name "$1-????????????????" -printf '%T@ %p/root\n' | sort -n | sed -n '$s/.* //p'
}

# add_software NAME: puts its files into this guest. Nothing of it is started.
add_software() {
	tar -C "$(software "$1")" -cf - . | tar -C / -xf - --keep-directory-symlink && ldconfig
}
