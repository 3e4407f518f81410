# SPDX-License-Identifier: GPL-2.0-only
"""The lab's own kernels (KUnit, KASAN, lockdep), for QEMU and as User Mode Linux, and the kernel's checking scripts."""
import dataclasses
import re
import shlex
import shutil
import subprocess
from pathlib import Path

from . import LabError, cache, image, names

CONFIGS = Path(__file__).parent.parent / "kernel"


@dataclasses.dataclass(frozen=True)
class Recipe:
    """How a kernel is built: ARCH, the configuration's fragments, the file that boots, what it takes to build modules, and the
    only folders that KASAN and UBSAN instrument (all where none is named). Modules that are built for it are instrumented
    always, and every allocation has its red zones and its quarantine."""
    arch: str
    fragments: tuple
    boots: str
    headers: str
    usual: str
    instrumented: tuple = ()

    def configs(self):
        return [CONFIGS / f"{name}.config" for name in self.fragments]


# The kernel's own script copies the files that modules need, but does not support User Mode Linux.
_HEADERS_X86 = """
export SRCARCH=x86 KBUILD_OUTPUT= srctree=. objtree=. ARCH=x86 MAKE=make KERNELRELEASE=$1 KCONFIG_CONFIG=.config CC=gcc HOSTCC=gcc
make -s run-command KBUILD_RUN_COMMAND="sh scripts/package/install-extmod-build out/usr/src/linux-headers-$1"
"""
_HEADERS_UM = """
to=out/usr/src/linux-headers-$1
mkdir -p $to/arch/um/include/generated/uapi
{ ls -d .config Makefile Kbuild Module.symvers scripts include
  find arch/um arch/x86 security -name "Makefile*" -o -name "Kbuild*" -o -name "Kconfig*" \
	-o -name "*.h" -o -name "*.tbl" -o -name "*.lds*"
  find . -maxdepth 2 -name "Kconfig*"
} | tar -cf - --exclude="*.o" --exclude="*.cmd" -T - | tar -C $to -xf -
"""

RECIPES = {
    "lab": Recipe("x86", ("common", "checkers", "qemu"), "arch/x86/boot/bzImage", _HEADERS_X86, "15 to 25 minutes"),
    "uml": Recipe("um", ("common", "checkers", "uml"), "linux", _HEADERS_UM, "5 to 10 minutes",
                  ("block", "drivers/dma-buf", "drivers/infiniband", "io_uring")),
}

# The files of the kernel's source that the checks use: checkpatch, kernel-doc, the generator of netlink code.
TOOLS = ["scripts/checkpatch.pl", "scripts/spelling.txt", "scripts/const_structs.checkpatch",
         "scripts/kernel-doc*", "tools/lib/python*", "tools/docs*", "tools/net/ynl", "Documentation/netlink/genetlink*.yaml"]


def source():
    """Debian's source of the newest kernel of its backports: a folder with linux.tar.xz and version.

    A mirror keeps a version for weeks. If the version of the root filesystem is gone, the newest of that series is
    taken, and then the newest of all.
    """
    base = image.rootfs("trixie")
    version = image.kernel_version(base, "backports")
    series = ".".join(version.split(".")[:2])
    script = f"""
        cd /tmp
        list() {{ apt-cache madison "$1" | cut -d"|" -f1,2 | tr -d " "; }}
        newest() {{ apt-cache search --names-only "^linux-source-[0-9.]+\\$" | cut -d" " -f1 | sort -V | tail -n 1; }}
        take() {{ for found in $(list "$1"); do apt-get download "${{found%%|*}}=${{found#*|}}" && return; done; return 1; }}
        exact=$(list linux-source-{series} | grep "|{version.split('+')[0]}-" | head -n 1)
        [ -n "$exact" ] && apt-get download "${{exact%%|*}}=${{exact#*|}}" ||
            {{ apt-get update -q && {{ take linux-source-{series} || take $(newest); }}; }}
        mkdir source
        dpkg-deb -x linux-source-*.deb source
        dpkg-deb -f linux-source-*.deb Version >version
    """

    def make(work):
        cache.say(f"fetching the source of Linux {series}")
        try:
            image.fetch(base, work, script, {"tmp/source/usr/src/linux-source-*.tar.xz": "linux.tar.xz",
                                             "tmp/version": "version"})
        except LabError as problem:
            raise LabError(f"Debian's mirror has no kernel source that could be fetched: {problem}") from None
        got = (work / "version").read_text().strip()
        if not got.startswith(f"{version.split('+')[0]}-"):
            cache.say(f"the mirror no longer has the source of {version}; the lab's kernels are built of {got}")

    return cache.get(f"kernel-source-{cache.key('source 1', base.name, version)}", make)


def tools():
    """A folder with the kernel's scripts/ and tools/net/ynl, from the newest source."""
    archive = source() / "linux.tar.xz"

    def make(work):
        cache.call(["tar", "-C", work, "--strip-components=1", "--wildcards", "-xJf", archive,
                    *[f"*/{path}" for path in TOOLS]], work / "log")
        # The generator finds the tree's root by this file.
        (work / "MAINTAINERS").touch()

    return cache.get(f"kernel-tools-{cache.key('tools 3', (source() / 'version').read_text(), ' '.join(TOOLS))}", make)


def make(name):
    """A kernel that is not in its release's root filesystem: a folder with kernel (what boots), version, and root/ (its modules,
    and what it takes to build others)."""
    facts = names.kernel(name)
    if not facts.beside:
        raise LabError(f"the kernel called {name} is in the root filesystem: lab make rootfs:{facts.release}")
    return _build(name) if facts.built else _fetch(name, facts)


def _fetch(name, facts):
    """Another release's kernel, with its headers and their compiler, installed over a root filesystem."""
    base = image.rootfs(facts.release)
    script = f"""
        printf '%s\n' {shlex.join(image.sources(facts.origin))} >/etc/apt/sources.list.d/lab.list
        printf '#!/bin/sh\nexit 0\n' >/usr/local/sbin/update-initramfs
        chmod 755 /usr/local/sbin/update-initramfs
        apt-get update -q
        version=$(apt-cache search --names-only "^linux-image-[0-9.]+-[0-9]+-amd64\\$" | cut -d" " -f1 | sort -V | tail -n 1)
        version=${{version#linux-image-}}
        apt-get install -y -q --no-install-recommends linux-image-$version linux-headers-$version
        echo $version >/tmp/version
    """

    def make_(work):
        cache.say(f"fetching the kernel of {facts.origin}")
        with image.overlay([base / "root"], work / "upper", work / "ovl", work / "mnt") as tree:
            shutil.copy("/etc/resolv.conf", tree / "etc/resolv.conf")
            cache.call(["chroot", tree, "sh", "-ec", script], work / "log")
        version = (work / "upper/tmp/version").read_text().strip()
        (work / "version").write_text(version)
        shutil.move(work / f"upper/boot/vmlinuz-{version}", work / "kernel")
        (work / "root").mkdir()
        (work / "upper/usr").rename(work / "root/usr")
        for folder in ("upper", "ovl", "mnt"):
            shutil.rmtree(work / folder)

    return cache.get(f"kernel-{name}-{cache.key('fetched kernel 1', base.name, script)}", make_)


def _build(name):
    """A kernel of the lab's own."""
    recipe, base, archive = RECIPES[name], image.rootfs("trixie"), source() / "linux.tar.xz"

    def make(work):
        log = work / "log"
        cache.say(f"building the kernel called {name} ({recipe.usual} on two cores)")
        place = work / "source"
        place.mkdir()
        cache.call(["tar", "-C", place, "--strip-components=1", "-xJf", archive], log)
        with open(place / "lab.config", "w") as merged:
            merged.write("".join(config.read_text() for config in recipe.configs()))
        make_ = f"make ARCH={recipe.arch}"
        with image.overlay([base / "root"], work / "upper", work / "ovl", work / "mnt") as tree:
            inside = tree / "tmp/source"
            inside.mkdir()
            subprocess.run(["mount", "--bind", place, inside], check=True)
            try:
                for step in (
                    f"{make_} tinyconfig && scripts/kconfig/merge_config.sh -m .config lab.config && "
                    f"./scripts/config --set-str LOCALVERSION -weft{name} && {make_} olddefconfig",
                    f"{_instrument(recipe)} {make_} -j$(nproc) {Path(recipe.boots).name} modules",
                    f"{make_} modules_install INSTALL_MOD_PATH=/tmp/source/out INSTALL_MOD_STRIP=1",
                    f"{make_} -s kernelrelease >version",
                    f"set -- $(cat version); {recipe.headers}",
                ):
                    cache.call(["chroot", tree, "sh", "-ec", f"cd /tmp/source; {step}"], log)
            finally:
                subprocess.run(["umount", inside], check=True)
        _say_missing(recipe, place, work)
        version = (place / "version").read_text().strip()
        (place / "out").rename(work / "root")
        shutil.copy(place / recipe.boots, work / "kernel")
        if (place / "vmlinux").exists():  # for gdb; for User Mode Linux both are the same file
            shutil.copy(place / "vmlinux", work / "vmlinux")
        shutil.copy(place / ".config", work / "config")
        (work / "version").write_text(version)
        modules = work / "root/lib/modules" / version
        (modules / "build").unlink(missing_ok=True)
        (modules / "build").symlink_to(f"/usr/src/linux-headers-{version}")
        # In the release /lib is a link to /usr/lib; all layers of an overlay need that.
        (work / "root/usr").mkdir(exist_ok=True)
        (work / "root/lib").rename(work / "root/usr/lib")
        for folder in ("source", "upper", "ovl", "mnt"):
            shutil.rmtree(work / folder)

    recipes = [recipe.arch, _instrument(recipe), recipe.headers, recipe.boots, *recipe.configs()]
    return cache.get(f"kernel-{name}-{cache.key('kernel 4', *recipes, (archive.parent / 'version').read_text())}", make)


def _instrument(recipe):
    """Shell code before make: code without instrumentation compiles in half the time and runs faster. Kbuild uses these
    variables from the environment unless a Makefile of the kernel sets them."""
    if not recipe.instrumented:
        return ""
    return f"""
        find {' '.join(recipe.instrumented)} -name Makefile |
            while read -r file; do printf 'KASAN_SANITIZE := y\\nUBSAN_SANITIZE := y\\n' >>$file; done
        KASAN_SANITIZE=n UBSAN_SANITIZE=n"""


def _say_missing(recipe, place, work):
    """Requested options that the kernel lacks: the name is gone, or a dependency is missing."""
    have = set((place / ".config").read_text().splitlines())
    # A later fragment overrides an earlier one.
    wanted = {}
    for config in recipe.configs():
        for match in re.finditer(r"^(?:# )?(CONFIG_\w+)(?:=.*| is not set)$", config.read_text(), re.M):
            wanted[match[1]] = match[0]
    missing = [line for line in wanted.values() if line.startswith("CONFIG_") and line not in have]
    (work / "config-missing").write_text("".join(f"{line}\n" for line in missing))
    if missing:
        cache.say(f"the kernel has not {', '.join(missing)}")
