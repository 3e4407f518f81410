#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Packages and DKMS in a release's own tree, with its compiler: installed, built
# again for another kernel, signed, upgraded, removed, purged without a trace;
# reasons of builds that cannot work; a vendor's RDMA stack.
# lab-chroot: trixie bookworm
# lab-kernel: none
# lab-needs: packages:RELEASE
. "${0%/*}/lib.sh"

export DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
version=$(cat /weft/VERSION)
conf=/usr/src/weft-$version/dkms.conf
check=/usr/src/weft-$version/kmod/check-build
kernels=$(for d in /lib/modules/*; do [ -e "$d/build/Makefile" ] && basename "$d"; done)
newest=$(printf '%s\n' "$kernels" | sort -V | tail -n 1)
ksrc=/lib/modules/$newest/build
debs=/lab/packages
next=$(dpkg-deb -f $debs/next/weft-dkms_*.deb Version)
mapfile -t names < <(for deb in "$debs"/this/*.deb; do dpkg-deb -f "$deb" Package; done)

# files: all files of the tree, without those that building and the package tools change, and DKMS's key, which it makes
# with the first module.
files() {
	local unwatched dir
	unwatched=(-name 'modules.*')
	for dir in /proc /sys /tmp /dev /run /weft /var/lib/dpkg /var/lib/apt /var/log /var/cache /root; do
		unwatched+=(-o -path "$dir")
	done
	find / -xdev \( "${unwatched[@]}" \) -prune -o -print |
		grep -v '^/var/lib/dkms/mok\.' | sort
}
# weft_uninstalled: DKMS has nothing of weft for the newest kernel.
weft_uninstalled() {
	dkms uninstall "weft/$version" -k "$newest" >/dev/null && dkms unbuild "weft/$version" -k "$newest" >/dev/null
}
# on_kernel KERNEL COMMAND...: the command, as on a machine that runs that kernel.
on_kernel() {
	local kernel=$1
	shift
	mkdir -p /tmp/fakebin
	cat >/tmp/fakebin/uname <<-END
		#!/bin/sh
		[ "\$1" = -r ] && echo $kernel || exec /usr/bin/uname "\$@"
	END
	chmod +x /tmp/fakebin/uname
	PATH=/tmp/fakebin:$PATH "$@"
}
install_packages() {
	dpkg -i "$debs/$1"/*.deb >/tmp/out 2>&1 || { cat /tmp/out; false; }
}
# goes_on VERSION SRCVERSION: this machine has volumes by such a module.
goes_on() {
	mkdir -p /sys/module/weft /sys/class/weft-rdma/weft-rdma{0,1} '/sys/block/weft!data' '/sys/block/weft!scratch'
	echo "$1" >/sys/module/weft/version
	echo "$2" >/sys/module/weft/srcversion
}
# says LINE: how often weft-dkms has printed it.
says() { grep -cFx "weft-dkms: $1" /tmp/out; }
stay() { says "The modules that are loaded, of version $1, stay loaded until they are removed."; }
# why_not SENTENCE TEXT [VARIABLE=VALUE...]: check-build refuses the newest kernel, in that environment.
why_not() {
	local sentence=$1 text=$2
	shift 2
	refused "$sentence" 1 "$text" env "$@" "$check" "$newest" "$ksrc"
}

man_pages() {
	local page
	for page in /usr/share/man/man8/weft* /usr/share/man/man1/weft-plan.1*; do
		MANWIDTH=80 man -l --warnings "$page" 2>&1 >/dev/null | grep . && return 1
	done
	ls /usr/share/man/man8/weftctl-doctor.8*
}
# completes WANTED WORD...: what the shell offers for the last word of a command line.
completes() {
	bash -c '. /usr/share/bash-completion/bash_completion
		. /usr/share/bash-completion/completions/weftctl
		wanted=$1; shift
		COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMP_LINE="$*" COMP_POINT=${#COMP_LINE}
		_weftctl
		[ "${COMPREPLY[*]}" = "$wanted" ]' - "$@"
}
completion() {
	completes "examine export exports explain" weftctl ex &&
		completes "list add remove iopolicy follow" weftctl path '' &&
		completes "round-robin numa" weftctl path iopolicy data '' &&
		completes "--dry-run" weftctl path remove --d
}
# udevadm may be missing, or too old to verify.
udev_rules() {
	command -v udevadm || return 0
	udevadm verify /usr/lib/udev/rules.d/61-weft.rules 2>&1 || udevadm verify --help 2>&1 | grep -qi unknown
}
built_for() { modinfo -k "$1" -F vermagic weft | grep -q "^$1 "; }
signed_for() { modinfo -k "$1" -F signer weft | grep .; }

# The lab's trees leave manual pages out.
rm -f /etc/dpkg/dpkg.cfg.d/*
# `make deb` has built them.
is "the packages are there" "${names[*]}" "libweft-cufile libweft-dev libweft0 python3-weft\
 weft-bench weft-csi weft-dkms weft-exporter weft-plan weft-tools"
# C++ programs need exactly the libweft that they were built with: its classes are of one version.
by_libweft() { # yes|no: the packages that depend on libweft0, of their own version alone or not
	local deb depends own
	for deb in "$debs"/this/*.deb; do
		depends=$(dpkg-deb -f "$deb" Depends)
		case $depends in *libweft0*) ;; *) continue ;; esac
		case $depends in *"libweft0 (= $(dpkg-deb -f "$deb" Version))"*) own=yes ;; *) own=no ;; esac
		[ $own != "$1" ] || dpkg-deb -f "$deb" Package
	done | xargs
}
is "these need libweft0 of their own version" "$(by_libweft yes)" "libweft-cufile libweft-dev weft-bench"
is "and this that one or a later one, which it uses by C" "$(by_libweft no)" python3-weft
# What else DKMS makes then.
dkms generate_mok >/dev/null 2>&1
files >/tmp/before

# --- Installed, for every kernel that is there
# As on a host that has volumes by an older weft.ko.
goes_on 0.0.9 0123456789
ok "they are installed" on_kernel 6.1.0-none install_packages this
is "modules of another version that go on are named" "$(stay 0.0.9)" 1
is "and their volumes" "$(says "These volumes go on with them: data scratch")" 1
is "and that the kernel that runs has none" "$(says "  apt-get install linux-headers-6.1.0-none")" 1
rm -r /sys/module /sys/class /sys/block
ok "weftctl runs" weftctl --version
ok "with its man pages" man_pages
ok "weft-plan has its presets" weft-plan --model llama-70b --gpu h100
ok "and completion" completion
is "libcufile finds libweft" "$(ldd /usr/lib/*/weft-cufile/libcufile.so.0 | grep -c 'libweft.so.0 => /')" 1
ok "Python has the package" python3 -B -c "import weft, weft.safetensors; weft.open"
if python3 -c "import numpy" 2>/dev/null; then
	ok "weft-pack runs" python3 -B /usr/bin/weft-pack --help
else
	refused "weft-pack names what is missing" 1 "install python3-numpy" python3 -B /usr/bin/weft-pack --help
fi
ok "weft-bench runs" weft-bench --help
ok "weft-cufile has a man page" man -l --warnings /usr/share/man/man1/weft-cufile.1.gz
ok "the udev rules hold" udev_rules
ok "the units hold" systemd-analyze verify --man=no weft-exports.service weft-assemble@data.service \
	weft-follow@data.service weft-shutdown.service \
	weft-metrics.timer weft-exporter.service weft-csi.service
for unit in weft-exports weft-shutdown; do
	ok "$unit starts at boot" test -L /etc/systemd/system/multi-user.target.wants/$unit.service
done
is "no removal or upgrade stops the volumes" \
	"$(cat /var/lib/dpkg/info/weft-tools.{preinst,prerm} 2>/dev/null | grep -c weft-shutdown)" 0
for k in $kernels; do
	# The package builds for the kernel that runs and the newest; the others come with the hook that kernels call.
	ok "$k: the hook of kernel packages builds" /etc/kernel/postinst.d/dkms "$k"
	is "$k: DKMS has it installed" "$(dkms status "weft/$version" -k "$k" | grep -c ': installed')" 1
	ok "$k: for that kernel" built_for "$k"
	ok "$k: signed with DKMS's key" signed_for "$k"
done

# --- A kernel comes after weft: the hook that its package calls builds
weft_uninstalled
is "a kernel without weft" "$(modinfo -k "$newest" -n weft 2>/dev/null)" ""
ok "its installation builds weft" /etc/kernel/postinst.d/dkms "$newest"
ok "and there it is" modinfo -k "$newest" -n weft

# --- Where it cannot be built
excluded() { bash -c ". $conf; [[ $1 =~ \$BUILD_EXCLUSIVE_KERNEL ]] && echo built || echo skipped"; }
for k in 5.10.0-32-amd64 6.0.12 4.19.0-27-amd64; do is "$k is skipped" "$(excluded $k)" skipped; done
for k in 6.1.0-41-amd64 6.10.3 6.12.57+deb13-amd64 7.2.12+deb13-amd64 7.2-rc1 10.0.1-x; do
	is "$k is built" "$(excluded $k)" built
done
refused "headers missing" 1 "headers are missing (/nowhere); apt-get install linux-headers-$newest" \
	"$check" "$newest" /nowhere
mkdir -p /tmp/unconfigured
touch /tmp/unconfigured/Makefile
refused "a source that was never configured" 1 "never configured" "$check" "$newest" /tmp/unconfigured
mkdir -p /tmp/bin
for t in sh sed modinfo grep cat uname make; do ln -sf "$(command -v $t)" /tmp/bin/; done
why_not "no compiler" "is missing; apt-get install gcc" PATH=/tmp/bin
rm /tmp/bin/make
why_not "no make" "apt-get install make" PATH=/tmp/bin
weft_uninstalled
gcc=$(sed -n 's/^CONFIG_CC_VERSION_TEXT="\{0,1\}\([^ "]*\).*/\1/p' "$ksrc/include/config/auto.conf")
for name in "$gcc" "${gcc#*-linux-gnu-}"; do path=$(command -v "$name") && mv "$path" "$path.away"; done
dkms install "weft/$version" -k "$newest" >/tmp/out 2>&1
is "DKMS fails without the compiler" $(($? > 0)) 1
is "and shows the line that says so" "$(cat /tmp/out "/var/lib/dkms/weft/$version/build/make.log" 2>/dev/null |
	grep -c 'weft: cannot be built.*the compiler')" 1
for path in /usr/bin/*.away; do mv "$path" "${path%.away}"; done

# --- A vendor's RDMA stack: headers and symbols in ofa_kernel, modules in updates
ofa=/usr/src/ofa_kernel/$(uname -m)/$newest
common=$(readlink -f "/lib/modules/$newest/source")/include
build_tree() {
	rm -rf /tmp/tree
	mkdir -p /tmp/tree
	cp -a /weft/Kbuild /weft/VERSION /weft/kmod /weft/uapi /tmp/tree/ && make -C "$ksrc" M=/tmp/tree modules
}
# Debian's newest kernels carry no symbol versions. So the module that a symbol comes from tells which symbols were
# used, and the compiler's notes tell which headers.
core_of() { modinfo -F depends /tmp/tree/kmod/rdma/weft_rdma.ko | tr , '\n' | grep core; }
headers_of() {
	grep -q "$ofa/include/rdma/ib_verbs.h" /tmp/tree/kmod/rdma/.queue.o.cmd && echo vendor || echo kernel
}
ok "without one, weft is built" build_tree
is "with the kernel's headers" "$(headers_of)" kernel
is "and its symbols" "$(core_of)" ib_core
mkdir -p "$ofa/include/rdma"
cp "$common/rdma/ib_verbs.h" "$ofa/include/rdma/"
why_not "headers without modules" "the installed ib_core is the kernel's own"
core=/lib/modules/$newest/updates/dkms/ib_core.ko
own=$(modinfo -k "$newest" -F filename ib_core)
mkdir -p "${core%/*}"
case $own in *.xz) xz -dc "$own" >"$core" ;; *) cp "$own" "$core" ;; esac
depmod "$newest"
why_not "modules that were never built for this kernel" "Module.symvers is missing"
sed -n 's#drivers/infiniband/core/ib_core#extra/vendor_core#p' "$ksrc/Module.symvers" >"$ofa/Module.symvers"
ok "headers, symbols and modules of one vendor" "$check" "$newest" "$ksrc"
ok "weft is built" build_tree
is "with the vendor's headers" "$(headers_of)" vendor
is "and the vendor's symbols" "$(core_of)" vendor_core
# A machine that runs this kernel with another ib_core.
mkdir -p /tmp/root/sys/module/ib_core /tmp/root/lib /tmp/root/usr/src
echo 0123456789 >/tmp/root/sys/module/ib_core/srcversion
ln -sfn /lib/modules /tmp/root/lib/modules
ln -sfn /usr/src/ofa_kernel /tmp/root/usr/src/ofa_kernel
on_kernel "$newest" why_not "another ib_core is loaded" "the ib_core that is loaded is not the installed" \
	WEFT_ROOT=/tmp/root
rm -r "$ofa"
why_not "a vendor's modules without headers" "is a vendor's"
rm -rf "$core" /usr/src/ofa_kernel
depmod "$newest"
ok "all removed, weft builds again" dkms install "weft/$version" -k "$newest"

# --- Upgraded, on a machine that runs the newest kernel
mkdir -p /etc/weft/volumes
echo '{"version": 1, "exports": []}' >/etc/weft/exports.json
for name in dhchap-secret tls-key slurm-volumes volumes/data.toml; do echo "any $name" >"/etc/weft/$name"; done
for name in csi exporter; do echo ARGS= >/etc/default/weft-$name; done
configuration() { sha256sum /etc/weft/*-* /etc/weft/exports.json /etc/weft/volumes/* /etc/default/weft-*; }
configuration >/tmp/configuration
units=(weft-assemble@data.service weft-follow@data.service weft-exporter.service weft-csi.service weft-metrics.timer)
ok "units are enabled" systemctl enable "${units[@]}"
goes_on "$version" "$(modinfo -k "$newest" -F srcversion weft)"
# The other kernels would take as long as this one, and show nothing else.
[ ! -d /etc/dkms/framework.conf.d ] || echo 'autoinstall_all_kernels=""' >/etc/dkms/framework.conf.d/weft-test.conf
ok "the next version is installed" on_kernel "$newest" install_packages next
rm -f /etc/dkms/framework.conf.d/weft-test.conf
is "DKMS has that one alone" "$(dkms status weft | cut -d, -f1 | sort -u)" "weft/$next"
is "installed" "$(dkms status "weft/$next" -k "$newest" | grep -c ': installed')" 1
is "it is of that version" "$(modinfo -k "$newest" -F version weft)" "$next"
is "the modules that go on are named" "$(stay "$version")" 1
is "their volumes, too" "$(says "These volumes go on with them: data scratch")" 1
is "and what to do" \
	"$(says "Those of version $next are loaded at the next boot. Or unmount the volumes, and run:")" 1
stop="weftctl stop --all && weftctl disconnect weft-rdma0 weft-rdma1"
is "by these commands" "$(says "  $stop && modprobe -r weft_rdma weft_p2p weft && modprobe weft")" 1
is "the configuration stays" "$(configuration | diff /tmp/configuration -)" ""
units+=(weft-exports.service weft-shutdown.service)
is "all units stay enabled" "$(systemctl is-enabled "${units[@]}" | uniq -c | tr -s ' ')" " 7 enabled"

# --- Removed
dpkg --remove "${names[@]}" >/tmp/out 2>&1
is "the packages are removed" $? 0
indented </tmp/out
is "a volume that stays is named" "$(grep -c '^weft-tools: volume data stays assembled' /tmp/out)" 1
is "the configuration stays, with its secrets" "$(configuration | diff /tmp/configuration -)" ""
# By the README's command, which has to find what is removed and not purged.
purge=$(commands README.md '^## Install' '^apt-get purge')
ok "the packages are purged" sh -c "${purge:-README.md has no purge} -y"
is "dpkg knows none any more" \
	"$(dpkg-query -W -f '${db:Status-Abbrev}\n' "${names[@]}" 2>/dev/null | grep -v ^un)" ""
rm -r /sys/module /sys/class /sys/block
files >/tmp/after
is "and nothing of them is left" "$(diff /tmp/before /tmp/after)" ""
done_testing
