# SPDX-License-Identifier: GPL-2.0-only
"""The lab's own kernel (KUnit, KASAN, lockdep), and the kernel's checking scripts."""
import shutil
import subprocess
from pathlib import Path

from . import LabError, cache, image

CONFIG = Path(__file__).parent.parent / "lab-kernel.config"

# What of the kernel's source the checks use: checkpatch, and the generator of netlink code.
TOOLS = ["scripts/checkpatch.pl", "scripts/spelling.txt", "scripts/const_structs.checkpatch",
         "scripts/kernel-doc*", "tools/lib/python*", "tools/docs*", "tools/net/ynl", "Documentation/netlink/genetlink*.yaml"]


def _source_package(base):
    """Name and version of the linux-source that the release's backports kernel was built from."""
    name = "linux-source-" + ".".join(image.kernel_version(base, "backports").split(".")[:2])
    out = subprocess.run(["chroot", base / "root", "apt-cache", "madison", name],
                         capture_output=True, text=True, check=True).stdout
    rows = [[cell.strip() for cell in line.split("|")] for line in out.splitlines()]
    if not rows:
        raise LabError(f"Debian's package lists name no {name}; remove the cached root filesystem "
                       f"{base} to fetch them anew")
    return rows[0][0], rows[0][1]


def _fetch(base, work):
    """The source's tar archive, from Debian."""
    name, version = _source_package(base)
    log = work / "log"
    cache.say(f"fetching {name} {version}")
    (work / "deb").mkdir()
    with image.overlay([base / "root"], work / "upper", work / "ovl", work / "mnt") as tree:
        shutil.copy("/etc/resolv.conf", tree / "etc/resolv.conf")
        cache.call(["chroot", tree, "sh", "-c", f"cd /tmp && apt-get download {name}={version}"], log)
        cache.call(["sh", "-c", f"dpkg-deb -x {tree}/tmp/{name}_*.deb {work}/deb"], log)
    for folder in ("upper", "ovl", "mnt"):
        shutil.rmtree(work / folder)
    return next((work / "deb/usr/src").glob("linux-source-*.tar.xz"))


def tools():
    """A folder with the kernel's scripts/ and tools/net/ynl, from the newest source."""
    base = image.rootfs("trixie")

    def make(work):
        tar = _fetch(base, work)
        cache.call(["tar", "-C", work, "--strip-components=1", "--wildcards", "-xJf", tar,
                    *[f"*/{path}" for path in TOOLS]], work / "log")
        # The generator looks upwards for this file to know the tree's root.
        (work / "MAINTAINERS").touch()
        shutil.rmtree(work / "deb")

    return cache.get(f"kernel-tools-{cache.key('tools 2', *_source_package(base), ' '.join(TOOLS))}", make)


def build():
    """The lab kernel: a folder with bzImage, version, and root/ (modules and a tree to build others against)."""
    base = image.rootfs("trixie")

    def make(work):
        log = work / "log"
        tar = _fetch(base, work)
        cache.say("building the lab kernel (15 to 25 minutes on two cores)")
        source = work / "source"
        source.mkdir()
        cache.call(["tar", "-C", source, "--strip-components=1", "-xJf", tar], log)
        shutil.rmtree(work / "deb")
        shutil.copy(CONFIG, source / "lab.config")
        with image.overlay([base / "root"], work / "upper", work / "ovl", work / "mnt") as tree:
            place = tree / "tmp/source"
            place.mkdir()
            subprocess.run(["mount", "--bind", source, place], check=True)
            try:
                for step in (
                    "make tinyconfig && scripts/kconfig/merge_config.sh -m .config lab.config && "
                    "./scripts/config --set-str LOCALVERSION -weftlab && make olddefconfig",
                    "make -j$(nproc) bzImage modules",
                    "make modules_install INSTALL_MOD_PATH=/tmp/source/out INSTALL_MOD_STRIP=1",
                    "make -s kernelrelease >version",
                    "export SRCARCH=x86 KBUILD_OUTPUT= srctree=. objtree=. ARCH=x86 MAKE=make "
                    "KERNELRELEASE=$(cat version) KCONFIG_CONFIG=.config CC=gcc HOSTCC=gcc; "
                    "make -s run-command KBUILD_RUN_COMMAND='sh scripts/package/install-extmod-build "
                    "out/usr/src/linux-headers-'$(cat version)",
                ):
                    cache.call(["chroot", tree, "sh", "-ec", f"cd /tmp/source; {step}"], log)
            finally:
                subprocess.run(["umount", place], check=True)
        missing = [line for line in CONFIG.read_text().splitlines() if line.startswith("CONFIG_")
                   and not line.endswith("=n") and line not in (source / ".config").read_text().splitlines()]
        (work / "config-missing").write_text("".join(f"{line}\n" for line in missing))
        version = (source / "version").read_text().strip()
        (source / "out").rename(work / "root")
        shutil.copy(source / "arch/x86/boot/bzImage", work / "bzImage")
        shutil.copy(source / ".config", work / "config")
        (work / "version").write_text(version)
        modules = work / "root/lib/modules" / version
        (modules / "build").unlink(missing_ok=True)
        (modules / "build").symlink_to(f"/usr/src/linux-headers-{version}")
        # The release keeps /lib as a link to /usr/lib; an overlay's layers must agree on that.
        (work / "root/usr").mkdir(exist_ok=True)
        (work / "root/lib").rename(work / "root/usr/lib")
        for folder in ("source", "upper", "ovl", "mnt"):
            shutil.rmtree(work / folder)

    return cache.get(f"kernel-{cache.key('kernel 3', CONFIG, *_source_package(base))}", make)
