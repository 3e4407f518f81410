# SPDX-License-Identifier: GPL-2.0-only
"""Guests: QEMU machines that boot, run a command, and are looked at afterwards."""
import ctypes
import json
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

from . import LabError, cache, image, kernel, klog, payload, topology

# QEMU's emulation of several processors now and then runs an instruction that the booting kernel is just patching: the
# guest dies within its first seconds, before anything of ours is in it, and is booted again.
BOOTS = 3

PR_SET_PDEATHSIG = 1


def _die_with_parent():
    """In the child, before QEMU: however the lab ends, no guest outlives it and takes a processor for ever."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


GUEST = Path(__file__).resolve().parent.parent / "guest"


class Software:
    """What guests boot: made once for all hosts of a lab."""

    def __init__(self, name):
        release = image.release_of(name)
        self.name = name
        base = image.rootfs(release)
        self.disk = base / "root.img"
        tars = []
        if name == "lab":
            built = kernel.build()
            self.version = (built / "version").read_text()
            self.kernel = built / "bzImage"
            self.initrd = image.initramfs(built.name, built / "root/usr/lib/modules" / self.version, self.version)
            tars.append(payload.kernel_modules(built))
        else:
            self.version = image.kernel_version(base, name)
            self.kernel = base / "root/boot" / f"vmlinuz-{self.version}"
            self.initrd = image.initramfs(base.name, base / "root/lib/modules" / self.version, self.version)
        tars += [payload.tools(release), payload.modules(name)]
        self.payloads = [str((t / "payload.tar").relative_to(cache.root())) for t in tars]


class Guest:
    """One machine. Its folder holds ctl/ (shared with it), console.log and its disks."""

    def __init__(self, software, folder, index, options, links):
        self.software, self.folder, self.index, self.options, self.links = software, folder, index, options, links
        self.name = f"host{index}"
        self.ctl = folder / "ctl"
        self.console = folder / "console.log"
        self.qemu = None
        self.next_exec = 1
        folder.mkdir(parents=True)
        self.topology = topology.get(options.topology if index == 0 else options.peer_topology, folder)
        # What a host writes to its disk survives its power, as a node's does.
        self.disk = folder / "disk.qcow2"
        subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", "-b", software.disk, "-F", "raw", self.disk], check=True)

    def start(self, role, command=None, terminal=False):
        self.console.unlink(missing_ok=True)
        if self.ctl.exists():
            shutil.rmtree(self.ctl)
        self.ctl.mkdir()
        self.next_exec = 1
        for name in ("init", "main", "lab-peer"):
            shutil.copy(GUEST / name, self.ctl / name)
        if command is not None:
            (self.ctl / "command").write_text(command)
        env = {"LAB_ROLE": role, "LAB_HOSTNAME": self.name, "LAB_KERNEL": self.software.name,
               "LAB_PAYLOADS": " ".join(self.software.payloads), "LAB_MACHINE_ID": f"{self.index + 1:032x}",
               "LAB_HOST_ID": f"00000000-0000-0000-0000-{self.index + 1:012x}",
               "LAB_SHARE": "1" if self.options.share and self.index == 0 else "",
               "LAB_UDEV": "1" if self.options.udev else "",
               "LAB_SYSTEMD": "1" if self.options.systemd else "",
               "LAB_KMEMLEAK": "1" if self.options.kmemleak and self.index == 0 else ""}
        lines = [f"export {key}={shlex.quote(value)}" for key, value in env.items()]
        (self.ctl / "env").write_text("\n".join(lines + ["PATH=$PATH:/lab/ctl", ""]))
        stdin = None if terminal else subprocess.DEVNULL
        stdout = None if terminal else subprocess.PIPE if role == "main" else subprocess.DEVNULL
        with open(self.folder / "qemu.log", "ab") as log:
            self.qemu = subprocess.Popen(self._argv(terminal), stdin=stdin, stdout=stdout, stderr=log,
                                         start_new_session=not terminal, preexec_fn=_die_with_parent)

    def _argv(self, terminal):
        options, topo = self.options, self.topology
        icount = options.icount and self.index == 0
        machine = ",".join(["q35", *topo.machine])
        append = ["console=ttyS0", "loglevel=7", "panic=-1", "oops=panic", "net.ifnames=0", "random.trust_cpu=on",
                  "rng_core.default_quality=0", "no_hash_pointers", "mitigations=off", *topo.cmdline,
                  *options.append]
        argv = ["qemu-system-x86_64", "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
                "-machine", machine, "-cpu", "max",
                "-accel", "tcg,thread=single" if icount else "tcg,thread=multi",
                "-smp", ("1" if icount else str(options.smp)) + topo.smp, "-m", options.memory + topo.memory,
                "-kernel", str(self.software.kernel), "-initrd", str(self.software.initrd),
                "-append", " ".join(append),
                "-serial", f"file:{self.console}",
                "-chardev", f"stdio,id=out,signal={'on' if terminal else 'off'}", "-serial", "chardev:out",
                "-qmp", f"unix:{self.folder}/qmp,server=on,wait=off",
                "-device", "virtio-rng-pci,bus=pcie.0",
                "-drive", f"file={self.disk},if=none,id=disk,format=qcow2,cache=unsafe",
                "-device", "virtio-blk-pci,drive=disk,bus=pcie.0"]
        if icount:
            argv += ["-icount", "shift=0,sleep=off"]
        if options.plugin and self.index == 0:
            argv += ["-plugin", options.plugin]
        shares = [("ctl", self.ctl, ""), ("cache", cache.root(), ",readonly=on"), ("src", payload.ROOT, ",readonly=on")]
        if options.share and self.index == 0:
            shares.append(("share", Path(options.share).resolve(), ""))
        for tag, path, extra in shares:
            argv += ["-fsdev", f"local,id={tag},path={path},security_model=none,multidevs=remap{extra}",
                     "-device", f"virtio-9p-pci,fsdev={tag},mount_tag={tag},bus=pcie.0"]
        for number, (ours, theirs) in self.links.items():
            mac = f"52:54:00:00:{number:02x}:{self.index + 1:02x}"
            # Without a connection, so that either side can be switched off and on.
            argv += ["-netdev", f"dgram,id=net{number},local.type=unix,local.path={ours},remote.type=unix,remote.path={theirs}",
                     "-device", f"virtio-net-pci,netdev=net{number},mac={mac},bus=pcie.0"]
        return argv + topo.args

    def wait_ready(self, deadline):
        boots = 1
        while not (self.ctl / "ready").exists():
            if self.qemu.poll() is not None and boots < BOOTS:
                boots += 1
                self.start("peer")
            if self.qemu.poll() is not None:
                raise LabError(f"{self.name} ended before it was up; its log is {self.console}")
            if time.monotonic() > deadline:
                raise LabError(f"{self.name} did not come up in time; its log is {self.console}")
            time.sleep(0.05)

    def execute(self, command, deadline):
        """Run a command in a peer: its output and status."""
        number = self.next_exec
        self.next_exec += 1
        (self.ctl / "exec.tmp").write_text(command + "\n")
        (self.ctl / "exec.tmp").rename(self.ctl / f"exec.{number}")
        status = self.ctl / f"rc.{number}"
        while not status.exists():
            if self.qemu.poll() is not None:
                return f"lab: {self.name} is not running\n", 125
            if time.monotonic() > deadline:
                return f"lab: {self.name} did not answer in time\n", 124
            time.sleep(0.05)
        return (self.ctl / f"out.{number}").read_text(errors="replace"), int(status.read_text())

    def qmp(self, *commands):
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(f"{self.folder}/qmp")
            stream = connection.makefile("rw")
            stream.readline()
            for command in ("qmp_capabilities", *commands):
                stream.write(json.dumps({"execute": command}) + "\n")
                stream.flush()
                while "return" not in json.loads(stream.readline() or '{"return": 0}'):
                    pass

    def kill(self):
        if self.qemu and self.qemu.poll() is None:
            self.qemu.send_signal(signal.SIGCONT)
            self.qemu.kill()
            self.qemu.wait()

    def problems(self):
        text = self.console.read_text(errors="replace") if self.console.exists() else ""
        found = klog.problems(text)
        report = self.ctl / "kmemleak"
        if report.exists():
            found += klog.leaks(report.read_text(errors="replace"))[:60]
        return found


class Lab:
    """Guests on one network, the first of which runs the command."""

    def __init__(self, options, folder):
        self.options, self.folder = options, folder
        self.deadline = time.monotonic() + options.timeout
        software = Software(options.kernel)
        cache.say(f"booting {software.version}" + (f" on {options.hosts} hosts" if options.hosts > 1 else ""))
        self.deadline = time.monotonic() + options.timeout
        links = [{} for _ in range(options.hosts)]
        number = 0
        for i in range(options.hosts):
            for j in range(i + 1, options.hosts):
                number += 1
                ends = [folder / f"link{number}.{host}" for host in (i, j)]
                links[i][number] = (ends[0], ends[1])
                links[j][number] = (ends[1], ends[0])
        self.guests = [Guest(software, folder / f"host{i}", i, options, links[i]) for i in range(options.hosts)]
        self.over = threading.Event()

    def run(self, command):
        """Run the command in the first guest; returns its exit status, 1 if a kernel complained."""
        try:
            threading.Thread(target=self._watch_time, daemon=True).start()
            self._start_peers()
            main = self.guests[0]
            main.start("main", command)
            threading.Thread(target=self._serve_requests, daemon=True).start()
            for _ in range(BOOTS):
                while chunk := main.qemu.stdout.read1(65536):
                    sys.stdout.buffer.write(chunk)
                    sys.stdout.buffer.flush()
                main.qemu.wait()
                if (main.ctl / "ready").exists() or self.late:
                    break
                cache.say("the guest died before it was up; booting it again")
                main.start("main", command)
            return self._verdict()
        finally:
            self._end()

    def shell(self):
        try:
            self._start_peers()
            self.guests[0].start("shell", "", terminal=True)
            threading.Thread(target=self._serve_requests, daemon=True).start()
            self.guests[0].qemu.wait()
            return 0
        finally:
            self._end()

    def _start_peers(self):
        for guest in reversed(self.guests[1:]):
            guest.start("peer")
        for guest in self.guests[1:]:
            guest.wait_ready(self.deadline)

    def _watch_time(self):
        if not self.over.wait(max(0, self.deadline - time.monotonic())):
            self.late = True
            for guest in self.guests:
                guest.kill()

    late = False

    def _serve_requests(self):
        ctl = self.guests[0].ctl
        while not self.over.is_set():
            for path in ctl.glob("request.*"):
                if path.suffix in (".tmp", ".out", ".rc") or path.name.count(".") != 1:
                    continue
                host, verb, rest = path.read_text().split("\n", 2)
                path.unlink()
                try:
                    output, status = self._request(host, verb, rest.rstrip("\n"))
                except (LabError, OSError, ValueError) as problem:
                    output, status = f"lab: {problem}\n", 125
                Path(f"{path}.out").write_text(output)
                Path(f"{path}.rc.new").write_text(str(status))
                Path(f"{path}.rc.new").rename(f"{path}.rc")
            time.sleep(0.05)

    def _request(self, host, verb, rest):
        guest = next((g for g in self.guests[1:] if g.name == host), None)
        if guest is None:
            raise LabError(f"no host is called {host}; start the lab with --hosts")
        if verb == "run":
            return guest.execute(rest, self.deadline)
        if verb in ("freeze", "thaw"):
            guest.qmp("stop" if verb == "freeze" else "cont")
        elif verb in ("halt", "continue"):
            guest.qemu.send_signal(signal.SIGSTOP if verb == "halt" else signal.SIGCONT)
        elif verb == "kill":
            guest.kill()
        elif verb == "boot":
            guest.start("peer")
            guest.wait_ready(self.deadline)
        else:
            raise LabError(f"a host cannot be told to {verb}")
        return "", 0

    def _verdict(self):
        main = self.guests[0]
        for guest in self.guests[1:]:
            (guest.ctl / "end").touch()
        for guest in self.guests[1:]:
            try:
                guest.qemu.wait(timeout=15)
            except subprocess.TimeoutExpired:
                pass
        if self.late:
            cache.say(f"killed after {self.options.timeout} s; the log is {main.console}")
            return 124
        status_file = main.ctl / "status"
        if not status_file.exists() or not status_file.read_text().strip():
            # Where there is no console, QEMU itself says why.
            log = main.console if main.console.exists() else main.folder / "qemu.log"
            cache.say(f"the guest died; the end of its log ({log}):")
            sys.stderr.write("\n".join(log.read_text(errors="replace").splitlines()[-40:]) + "\n")
            return 125
        status = int(status_file.read_text())
        for guest in self.guests:
            if found := guest.problems():
                cache.say(f"the kernel of {guest.name} complained; the log is {guest.console}:")
                sys.stderr.write("\n".join(found) + "\n")
                status = status or 1
        return status

    def _end(self):
        self.over.set()
        for guest in self.guests:
            guest.kill()


def folder_for(name):
    """A new folder for a run, below the checkout's build folder."""
    base = payload.ROOT / "build/lab"
    base.mkdir(parents=True, exist_ok=True)
    folder = base / f"{name}-{os.getpid()}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    return folder
