# SPDX-License-Identifier: GPL-2.0-only
"""This checkout, built in a guest's own release with its own compiler: what is installed into a guest at boot."""
import shutil
import subprocess
from pathlib import Path

from . import cache, image, kernel

ROOT = Path(__file__).resolve().parents[3]

MODULE_SOURCES = ("Kbuild", "Makefile", "LICENSE", "dkms.conf", "kmod/", "uapi/")
# Test hardware, for the newest kernel alone; never installed on a node.
TEST_MODULE_SOURCES = ("tests/kmod/Kbuild", "tests/kmod/softhca/", "tests/kmod/softhca_kunit/", "tests/kmod/test_exporter/")
TOOL_SOURCES = ("CMakeLists.txt", "Makefile", "cpp-tools/", "fio-jobs/", "kmod/weft/", "kmod/include/", "uapi/", "userspace/", "packaging/", "tests/hostile/",
                "tests/mem/", "tests/library/", "tests/kmod/test_exporter/uapi.h")

# Left behind by building, and nothing that a guest needs.
_UNWANTED = ["./tmp", "./var/cache", "./var/log", "./run", "./root", "./dev", "./proc", "./etc/resolv.conf"]


def _sources(prefixes):
    out = subprocess.run(["git", "-C", ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                         capture_output=True, text=True, check=True).stdout
    names = sorted(n for n in set(out.split("\0")) if n and n.startswith(prefixes) and (ROOT / n).is_file())
    return names


def _source_key(names):
    return cache.key(*[part for name in names for part in (name, ROOT / name)])


def _pack(upper, tar, log):
    """What the build changed in the root filesystem, as a tar archive."""
    prune = " -o ".join(f"-path {path}" for path in _UNWANTED)
    cache.call(["sh", "-ec", f"cd {upper} && find . \\( {prune} \\) -prune -o ! -type c ! -type d -print0 | "
                f"tar --null --no-recursion -T - -cf {tar}"], log)


def _build(work, lowers, names, script):
    log = work / "log"
    with image.overlay(lowers, work / "upper", work / "ovl", work / "mnt") as tree:
        source = tree / "tmp/weft"
        for name in names:
            target = source / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, target)
        cache.call(["chroot", tree, "sh", "-ec", f"cd /tmp/weft; {script}"], log)
    _pack(work / "upper", work / "payload.tar", log)
    for folder in ("upper", "ovl", "mnt"):
        shutil.rmtree(work / folder)


def module_sources():
    """The files that make the modules, as names below ROOT."""
    return _sources(MODULE_SOURCES)


def modules(name):
    """weft's modules for the kernel called `name`, installed by DKMS. Returns the folder with payload.tar."""
    base = image.rootfs(image.release_of(name))
    names = module_sources()
    folders = []  # of modules that go beside, they are nothing that a node has
    if name == "lab":
        built = kernel.build()
        version, lowers = (built / "version").read_text(), [built / "root", base / "root"]
        folders.append("kmod/tests")
    else:
        version, lowers = image.kernel_version(base, name), [base / "root"]
    if name in ("backports", "lab"):
        names = names + _sources(TEST_MODULE_SOURCES)
        folders.append("tests/kmod")
    tests = "".join(f"; make -C /lib/modules/{version}/build M=/tmp/weft/{folder} modules"
                    f"; find {folder} -name '*.ko' -exec install -D -m 644 -t /lib/modules/{version}/updates {{}} +"
                    for folder in folders) + f"; depmod {version}"

    def make(work):
        cache.say(f"building the modules for {version} with DKMS")
        _build(work, lowers, names, f"make dkms-install KVER={version}{tests}")

    key = cache.key("modules 4", version, " ".join(str(p.parent.name) for p in lowers), _source_key(names))
    return cache.get(f"modules-{name}-{key}", make)


def _fio(release, base):
    """fio's sources as bookworm has them, configured, below root/usr/src/fio.

    The mirrors do not keep every release's sources, so fio itself is built as well where the release has another one: an
    engine goes with that very fio.
    """
    archive = f"{image.MIRROR}/pool/main/f/fio/fio_3.33.orig.tar.gz"
    digest = "d2410e13e0f379d061d077cc5ae325835bb7c6186aa7bafc1df954cbc9b014fc"
    steps = (f"mkdir -p /usr/src/fio; cd /usr/src/fio; /usr/lib/apt/apt-helper download-file {archive} /tmp/fio SHA256:{digest}"
             "; tar --strip-components=1 -xf /tmp/fio; ./configure --disable-native"
             "; [ \"$(fio --version)\" = fio-3.33 ] || make -j2 fio")

    def make(work):
        cache.say(f"preparing fio's sources in {release}")
        with image.overlay([base / "root"], work / "root", work / "ovl", work / "mnt") as tree:
            cache.call(["chroot", tree, "sh", "-ec", steps], work / "log")
        for folder in ("ovl", "mnt"):
            shutil.rmtree(work / folder)

    return cache.get(f"fio-{release}-{cache.key(steps, base.name)}", make)


def tools(release):
    """weft's tools and fio jobs, built in a release. Returns the folder with payload.tar."""
    base = image.rootfs(release)
    fio = _fio(release, base)
    names = _sources(TOOL_SOURCES)

    def make(work):
        cache.say(f"building the tools in {release} (about a minute)")
        _build(work, [fio / "root", base / "root"], names, "make tools install-tools PREFIX=/usr BUILD=/tmp/build"
               "; g++ -std=c++20 -O1 -Wall -Wextra -Werror tests/hostile/target.cpp -o /usr/local/bin/weft-hostile"
               " -lrdmacm -libverbs"
               "; g++ -std=c++20 -O1 -Wall -Wextra -Werror -I. tests/mem/*.cpp -o /usr/local/bin/weft-memtest -luring"
               "; g++ -std=c++23 -O1 -Wall -Wextra -Werror tests/library/guest.cpp -o /usr/local/bin/weft-libtest"
               " $(pkg-config --cflags --libs weft)"
               "; [ ! -x /usr/src/fio/fio ] || install /usr/src/fio/fio /usr/local/bin/fio-3.33"
               "; CFLAGS='-Wall -Wextra -Werror -Wno-unused-parameter -Wno-sign-compare -Wno-missing-field-initializers'"
               " userspace/fio/build-engine --fio $(command -v fio-3.33 || echo fio) --source /usr/src/fio"
               " --output /usr/local/lib/libweft-fio.so")

    return cache.get(f"tools-{release}-{cache.key('tools 8', base.name, fio.name, _source_key(names))}", make)


def kernel_modules(built):
    """The lab kernel's own modules, as an archive beside it."""

    def make(work):
        cache.call(["tar", "-C", built / "root", "-cf", work / "payload.tar", "usr/lib/modules"], work / "log")

    return cache.get(f"kmods-{built.name.rsplit('-', 1)[1]}", make)
