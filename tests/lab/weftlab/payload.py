# SPDX-License-Identifier: GPL-2.0-only
"""Builds this checkout in a guest's release with its own compiler. The result is installed in a guest at boot.

Modules and tools are each built in a workshop of the cache, where kbuild and CMake find the objects of the last build: an
edit compiles only the files that depend on it. The result is kept under a key of all inputs.
"""
import contextlib
import os
import shutil
import subprocess
from pathlib import Path

from . import LabError, cache, image, kernel, names

ROOT = Path(__file__).resolve().parents[3]

# The files that DKMS on a node builds from.
MODULE_SOURCES = ("VERSION", "Kbuild", "Makefile", "LICENSE", "dkms.conf", "kmod/", "uapi/")
# Test hardware, only for the newest kernel; not installed on nodes.
HARDWARE_SOURCES = ("tests/hardware/",)
# The tools use only the pure files of the modules. The build fails if one is missing here.
TOOL_SOURCES = ("VERSION", "CMakeLists.txt", "cpp-tools/", "fio-jobs/", "kmod/weft/map.", "kmod/weft/superblock.",
                "kmod/weft/portable.h", "kmod/include/weft_why.h", "uapi/", "userspace/",
                "packaging/prometheus/", "packaging/slurm/", "packaging/systemd/", "packaging/udev/", "tests/CMakeLists.txt",
                "tests/csi/", "tests/hostile/", "tests/mem/", "tests/library/", "tests/hardware/test_exporter/uapi.h")
# What `make deb` builds packages from. Of the tests that their source has, only those above: an edit of a test builds no package.
PACKAGE_SOURCES = (*MODULE_SOURCES, *TOOL_SOURCES, "packaging/debian/")

# Left by the build; a guest does not need them.
_UNWANTED = ["./tmp", "./var/cache", "./var/log", "./run", "./root", "./dev", "./proc", "./etc/resolv.conf"]

# Every warning of W=1 in our own files is an error, so that it is seen in each build.
MAKE = "make -j$(nproc) -C /lib/modules/$V/build W=1 KCFLAGS='-Werror -g'"


def _sources(prefixes):
    out = subprocess.run(["git", "-C", ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                         capture_output=True, text=True, check=True).stdout
    return sorted(n for n in set(out.split("\0")) if n and n.startswith(prefixes) and (ROOT / n).is_file())


def _source_key(files):
    return cache.key(*[part for name in files for part in (name, ROOT / name)])


def _pack(upper, tar, log):
    """What the build changed in the root filesystem, as a tar archive."""
    prune = " -o ".join(f"-path {path}" for path in _UNWANTED)
    cache.call(["sh", "-ec", f"cd {upper} && find . \\( {prune} \\) -prune -o ! -type c ! -type d -print0 | "
                f"tar --null --no-recursion -T - -cf {tar}"], log)


def _sync(files, target):
    """Make `target` hold these files of the checkout and what was built of them; what is the same keeps its time."""
    listed = target / ".files"
    for name in set(listed.read_text().splitlines() if listed.exists() else []) - set(files):
        (target / name).unlink(missing_ok=True)
    for name in files:
        source, copy = ROOT / name, target / name
        if not copy.is_file() or copy.read_bytes() != source.read_bytes():
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, copy)
        shutil.copymode(source, copy)
    listed.write_text("".join(f"{name}\n" for name in files))


# Files that a killed compiler or linker may leave incomplete, and that make would take for complete.
_WRITTEN = (".o", ".ko", ".a", ".so", ".gch", ".mod", ".cmd", ".d")


@contextlib.contextmanager
def _building(place):
    """Mark a workshop as being built. If the build is killed, the next one deletes the files that it wrote."""
    mark = place / "building"
    if mark.exists():
        since = mark.stat().st_mtime_ns
        for path in place.rglob("*"):
            program = path.is_relative_to(place / "build") and not path.suffix and os.access(path, os.X_OK)
            if path.is_file() and path.lstat().st_mtime_ns >= since and (
                    program or path.suffix in _WRITTEN or ".so." in path.name):
                path.unlink()
    mark.touch()
    try:
        yield
    except LabError:  # make ended by itself
        mark.unlink()
        raise
    mark.unlink()


@contextlib.contextmanager
def _workshop(name, recipe, lowers, files):
    """A tree to build in, at /tmp/weft (sources and kbuild's objects) and /tmp/build: yields it and the folder of its changes."""
    name = f"workshop-{name}-{cache.key(recipe, *(str(lower) for lower in lowers))}"

    def make(work):
        (work / "weft").mkdir()
        (work / "build").mkdir()

    place = cache.get(name, make)
    with cache.lock(f"{name}.use"):
        _sync(files, place / "weft")
        scratch = cache.root() / f"{name}.scratch"
        cache.remove(scratch)
        try:
            with contextlib.ExitStack() as stack:
                tree = stack.enter_context(image.overlay(lowers, scratch / "upper", scratch / "ovl", scratch / "mnt"))
                for folder in ("weft", "build"):
                    (tree / "tmp" / folder).mkdir()
                    subprocess.run(["mount", "--bind", place / folder, tree / "tmp" / folder], check=True)
                    stack.callback(subprocess.run, ["umount", tree / "tmp" / folder], check=True)
                with _building(place):
                    yield tree, scratch / "upper"
        finally:
            cache.remove(scratch)


def _chroot(tree, script, work):
    cache.call(["chroot", tree, "sh", "-ec", f"cd /tmp/weft; {script}"], work / "log")


def module_sources(name):
    """The files that make a kernel's modules, as names below ROOT."""
    return _sources(MODULE_SOURCES + (HARDWARE_SOURCES if names.kernel(name).newest else ()))


def kernel_tree(name):
    """A kernel's version, and the layers of the tree in which modules are built for it."""
    base = image.rootfs(names.kernel(name).release)
    if names.kernel(name).beside:
        made = kernel.make(name)
        return (made / "version").read_text(), [made / "root", base / "root"]
    return image.kernel_version(base, name), [base / "root"]


def _arch(name):
    return f" ARCH={kernel.RECIPES[name].arch}" if names.kernel(name).built else ""


def _module_script(name, coverage=False):
    """Builds and installs; folders that only some kernels have: KUnit, and test hardware for the newest. With `coverage` the
    modules count the lines that run, on a kernel that has CONFIG_GCOV_KERNEL."""
    facts = names.kernel(name)
    folders = [".", *(["kmod/kunit"] if facts.built else []), *(["tests/hardware"] if facts.newest else [])]
    count = "export GCOV_PROFILE=y\n" if coverage else ""
    return count + "".join(f"{MAKE}{_arch(name)} M=/tmp/weft/{folder} modules\n" for folder in folders) + """
find kmod tests -name '*.ko' 2>/dev/null | while read -r module; do
	install -D -m 644 -t /lib/modules/$V/updates/dkms $module
done
strip -g /lib/modules/$V/updates/dkms/*.ko
depmod $V
"""


def modules(name, coverage=False):
    """weft's modules for the kernel called `name`. Returns the folder with payload.tar; with `coverage`, gcov's notes are there
    in gcno.tar."""
    kind = f"modules-coverage-{name}" if coverage else f"modules-{name}"
    (version, lowers), files, script = kernel_tree(name), module_sources(name), _module_script(name, coverage)
    key = cache.key("modules 6", script, " ".join(p.parent.name for p in lowers), _source_key(files))

    def make(work):
        cache.say(f"building the modules for {version}")
        with _workshop(kind, script, lowers, files) as (tree, upper):
            _chroot(tree, f"V={version}; {script}", work)
            _pack(upper, work / "payload.tar", work / "log")
            if coverage:
                cache.call(["sh", "-ec", f"cd {tree}; find tmp/weft -name '*.gcno' | tar -T - -cf {work}/gcno.tar"], work / "log")

    return cache.get(f"{kind}-{key}", make)


def sparse(name):
    """Run sparse over the modules of a kernel with their build options. Prints its output, returns its exit status."""
    modules(name)
    (version, lowers), files, script = kernel_tree(name), module_sources(name), _module_script(name)
    with _workshop(f"modules-{name}", script, lowers, files) as (tree, _):
        # Linux 7.3 needs a newer sparse than Debian's, and checks that with a script that Debian's headers lack. Debian's sparse
        # lacks only these two attributes, which mean the same to it.
        checks = "-k C=2 CF='-D__typeof_unqual__=__typeof__ \"-D__builtin_strlen(s)=(sizeof(s)-1)\"'"
        valid = ("for scripts in /usr/src/linux-headers-*/scripts; do [ -e $scripts/checker-valid.sh ] || "
                 "{ echo 'echo 1' >$scripts/checker-valid.sh; chmod +x $scripts/checker-valid.sh; }; done")
        return cache.run(["chroot", tree, "sh", "-c", f"{valid}; cd /tmp/weft; V={version}; {MAKE}{_arch(name)} {checks} "
                          "M=/tmp/weft modules"])


def fio(release):
    """fio of bookworm, with its sources, below root/usr/src/fio.

    The mirrors do not keep every release's sources, and an engine works only with the version of fio that it was built for.
    The tests use this fio, too: it loads 10 libraries, and Debian's 62, which takes a second in a guest.
    """
    base = image.rootfs(release)
    archive = f"{image.MIRROR}/pool/main/f/fio/fio_3.33.orig.tar.gz"
    digest = "d2410e13e0f379d061d077cc5ae325835bb7c6186aa7bafc1df954cbc9b014fc"
    steps = (f"mkdir -p /usr/src/fio; cd /usr/src/fio; /usr/lib/apt/apt-helper download-file {archive} /tmp/fio SHA256:{digest}"
             "; tar --strip-components=1 -xf /tmp/fio; ./configure --disable-native"
             "; make -j2 fio")

    def make(work):
        cache.say(f"building fio in {release}")
        with image.overlay([base / "root"], work / "root", work / "ovl", work / "mnt") as tree:
            cache.call(["chroot", tree, "sh", "-ec", steps], work / "log")
        for folder in ("ovl", "mnt"):
            shutil.rmtree(work / folder)

    return cache.get(f"fio-{release}-{cache.key(steps, base.name)}", make)


def tools(release):
    """weft's tools, fio jobs and the guests' test programs, built in a release. Returns the folder with payload.tar."""
    base, engine = image.rootfs(release), fio(release)
    files = _sources(TOOL_SOURCES)
    # The code that gRPC's generator makes takes long to compile. No test of weft-csi runs on a kernel of Debian 12.
    csi = "ON" if release == "trixie" else "OFF"
    script = f"""
cmake -S . -B /tmp/build -DCMAKE_INSTALL_PREFIX=/usr -DWEFT_LAB=ON -DWEFT_CSI={csi} >/dev/null
cmake --build /tmp/build --parallel "$(nproc)"
cmake --install /tmp/build >/dev/null
install -D /usr/src/fio/fio /usr/local/lib/weft-lab/fio
CFLAGS='-Wall -Wextra -Werror -Wno-unused-parameter -Wno-sign-compare -Wno-missing-field-initializers' \
	userspace/fio/build-engine --fio /usr/src/fio/fio --source /usr/src/fio \
	--output /usr/local/lib/libweft-fio.so
# fio's own engine for cuFile, unchanged, against weft's header and the stand-ins for CUDA.
cc -std=gnu11 -O2 -w -fPIC -shared -D_GNU_SOURCE -D_FILE_OFFSET_BITS=64 -DCONFIG_DYNAMIC_ENGINES \
	-include /usr/src/fio/config-host.h -I /usr/src/fio -I /usr/include/weft-cufile -I tests/library/cuda \
	/usr/src/fio/engines/libcufile.c -o /usr/local/lib/weft-standin/libcufile-fio.so \
	-L /usr/lib/*/weft-cufile -L /usr/local/lib/weft-standin -lcufile -lcudart
"""

    def make(work):
        cache.say(f"building the tools in {release} (about a minute the first time)")
        with _workshop(f"tools-{release}", script, [engine / "root", base / "root"], files) as (tree, upper):
            _chroot(tree, script, work)
            _pack(upper, work / "payload.tar", work / "log")

    return cache.get(f"tools-{release}-{cache.key('tools 9', script, base.name, engine.name, _source_key(files))}", make)


# Without debug information: no test wants it.
_PACKAGES = r"""
export DEB_BUILD_OPTIONS="noautodbgsym parallel=$(nproc)" DEB_CXXFLAGS_STRIP=-g LC_ALL=C.UTF-8
keep() {
	mkdir -p "/tmp/packages/$1"
	find /tmp/build/deb -maxdepth 1 -type f -exec mv -t "/tmp/packages/$1" {} +
}
make deb BUILD=/tmp/build
keep this
# The next version in the same tree: what does not contain the version is not compiled again.
cd /tmp/build/deb/weft-*/
version=$(cat VERSION)
next=${version%.*}.$((${version##*.} + 1))
maintainer=$(sed -n 's/^ -- \(.*>\)  .*/\1/p' debian/changelog | head -n 1)
{
	printf 'weft (%s) unstable; urgency=medium\n\n  * The next version.\n\n' "$next"
	printf ' -- %s  %s\n\n' "$maintainer" "$(date -R)"
	cat debian/changelog
} >/tmp/changelog
mv /tmp/changelog debian/changelog
echo "$next" >VERSION
rm -rf debian/.debhelper debian/debhelper-build-stamp debian/files
dpkg-buildpackage --no-pre-clean --unsigned-source --unsigned-changes --build=binary
keep next
"""


def packages(release):
    """Debian packages of this checkout, in root/lab/packages/this, and of the same as the next version, in
    root/lab/packages/next: what `make deb` writes in a release."""
    base, files = image.rootfs(release), _sources(PACKAGE_SOURCES)

    def make(work):
        cache.say(f"building packages of two versions in {release} (about 10 minutes)")
        with image.overlay([base / "root"], work / "upper", work / "ovl", work / "mnt") as tree:
            (tree / "tmp/weft").mkdir()
            _sync(files, tree / "tmp/weft")
            _chroot(tree, _PACKAGES, work)
            shutil.copytree(tree / "tmp/packages", work / "root/lab/packages")
        for folder in ("upper", "ovl", "mnt"):
            shutil.rmtree(work / folder)

    return cache.get(f"packages-{release}-{cache.key('packages 1', _PACKAGES, base.name, _source_key(files))}", make)


def kernel_modules(made):
    """The own modules of a kernel of kernel.make(), as an archive beside it."""

    def make(work):
        cache.call(["tar", "-C", made / "root", "-cf", work / "payload.tar", "usr/lib/modules"], work / "log")

    return cache.get(f"kmods-{made.name.removeprefix('kernel-')}", make)
