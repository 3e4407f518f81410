# SPDX-License-Identifier: GPL-2.0-only
"""The kernels and releases of the lab. All other files take them from here."""
import dataclasses

from . import LabError


@dataclasses.dataclass(frozen=True)
class Kernel:
    """A kernel that guests boot: its release's root filesystem, and its description."""
    release: str
    what: str
    built: bool = False         # from Debian's kernel source, by the lab
    origin: str = ""            # another release, whose kernel this is
    newest: bool = False        # the kernel that test hardware (tests/hardware) is written for
    uml: bool = False           # User Mode Linux: a process of this machine, without QEMU and without PCI devices
    checkers: bool = False      # KASAN, UBSAN, lockdep, kmemleak
    boot_seconds: int = 60      # of its own processor time, in which a guest reaches its first process

    @property
    def beside(self):
        """Whether it is a part of the lab by itself. The others are in their release's root filesystem."""
        return self.built or bool(self.origin)


KERNELS = {
    "oldest": Kernel("trixie", "Debian 12's, with the programs of Debian 13", origin="bookworm"),
    "debian12": Kernel("bookworm", "Debian 12's"),
    "debian13": Kernel("trixie", "Debian 13's"),
    "previous": Kernel("trixie", "the series before the newest of Debian 13's backports, while the mirror has it"),
    "backports": Kernel("trixie", "the newest of Debian 13's backports", newest=True),
    "lab": Kernel("trixie", "the newest, built with KUnit, KASAN, UBSAN, lockdep and kmemleak", built=True, newest=True,
                  checkers=True, boot_seconds=600),
    "uml": Kernel("trixie", "the same as User Mode Linux: no PCI devices, boots in seconds", built=True, newest=True,
                  uml=True, checkers=True),
}

# A release's own kernel, and whether the kernels of its backports are installed, too.
RELEASES = {"bookworm": ("debian12", False), "trixie": ("debian13", True)}


def kernel(name):
    if name not in KERNELS:
        raise LabError(f"no kernel is called {name}; there are {', '.join(KERNELS)}")
    return KERNELS[name]


def tool_parts(release):
    """The parts of `lab make` that a release's tools need, and these, each with the parts that it needs itself."""
    rootfs, fio = f"rootfs:{release}", f"fio:{release}"
    return {rootfs: (), fio: (rootfs,), f"tools:{release}": (fio,)}


def parts(name):
    """The parts of `lab make` that a kernel's guests need, each with the parts that it needs itself."""
    facts = kernel(name)
    rootfs, found = f"rootfs:{facts.release}", tool_parts(facts.release)
    if not facts.uml:
        found["qemu"] = ()
    if facts.built:
        found |= {"kernel-source": (rootfs,), f"kernel:{name}": ("kernel-source",)}
    elif facts.origin:
        found |= {f"kernel:{name}": (rootfs,)}
    return found | {f"modules:{name}": (f"kernel:{name}" if facts.beside else rootfs,)}
