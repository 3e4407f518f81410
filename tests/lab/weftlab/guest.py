# SPDX-License-Identifier: GPL-2.0-only
"""Guests: machines that boot, run a command, and are looked at afterwards."""
import contextlib
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

from . import LabError, cache, image, kernel, klog, machine, names, payload, topology

# Sometimes an emulated machine dies or hangs in early boot, before weft is loaded: QEMU's emulation of several processors
# runs an instruction that the kernel is just patching, or a timer never fires. The lab then boots it again.
BOOTS = 3
# A machine that hangs without using processor time is killed after so many times its limit in wall clock time.
BOOT_PATIENCE = 5
# kmemleak's two looks at all memory, on an emulated processor.
LEAKS_SECONDS = 300
# The exit status if a machine stopped after that: the emulation does so now and then. The command may be run again.
STOPPED = 126

GUEST = Path(__file__).resolve().parent.parent / "guest"


class Software:
    """The software that guests boot; made once for all hosts of a lab."""

    def __init__(self, name, coverage=False):
        self.name, self.facts = name, names.kernel(name)
        release = self.facts.release
        base = image.rootfs(release)
        self.disk, self.root = base / "root.img", base / "root"
        self.emulator = None if self.facts.uml else image.emulator()
        boot = image.UML if self.facts.uml else image.QEMU
        tars = []
        if self.facts.beside:
            made = kernel.make(name)
            self.version = (made / "version").read_text()
            self.kernel = made / "kernel"
            self.initrd = image.initramfs(made.name, made / "root/usr/lib/modules" / self.version, self.version, boot)
            tars.append(payload.kernel_modules(made))
        else:
            self.version = image.kernel_version(base, name)
            self.kernel = base / "root/boot" / f"vmlinuz-{self.version}"
            self.initrd = image.initramfs(base.name, base / "root/lib/modules" / self.version, self.version, boot)
        tars += [payload.tools(release), payload.modules(name, coverage)]
        self.payloads = [str((t / "payload.tar").relative_to(cache.root())) for t in tars]


def _processor_seconds(pid):
    """User and system time of a process so far, without its children; 0 if it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return 0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Guest:
    """One machine. Its folder holds ctl/ (shared with it), console.log and its disks."""

    def __init__(self, software, folder, index, options, links):
        self.software, self.folder, self.index, self.options, self.links = software, folder, index, options, links
        self.name = f"host{index}"
        self.ctl = folder / "ctl"
        self.console = folder / "console.log"
        self.process = None
        self.boots = 0
        self.earlier = []
        self.next_exec = 1
        self.paused = False
        self.resumes = None
        self.on_stop = lambda: None
        folder.mkdir(parents=True)
        self.topology = topology.get(options.topology if index == 0 else options.peer_topology, folder, software.facts.uml)
        # A host's disk keeps its data when the power is cut, like a node's disk.
        self.disk = folder / "disk.qcow2"
        if not software.facts.uml:  # which makes its own
            subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", "-b", software.disk, "-F", "raw", self.disk], check=True)

    def start(self, role, command=None, terminal=False):
        self.boots += 1
        if (self.ctl / "ready").exists() and self.console.exists():
            # Its power was cut. What its kernel had to say until then counts as well.
            self.earlier.append(self.console.rename(self.folder / f"console.before{len(self.earlier) + 1}.log"))
        self.console.unlink(missing_ok=True)
        if self.ctl.exists():
            shutil.rmtree(self.ctl)
        self.ctl.mkdir()
        self.next_exec = 1
        for name in ("init", "main", "lab-peer", "lab-symbols"):
            shutil.copy(GUEST / name, self.ctl / name)
        if command is not None:
            (self.ctl / "command").write_text(command)
        env = {"LAB_ROLE": role, "LAB_HOSTNAME": self.name, "LAB_KERNEL": self.software.name,
               "LAB_CHECKERS": "1" if self.software.facts.checkers else "",
               "LAB_PAYLOADS": " ".join(self.software.payloads), "LAB_MACHINE_ID": f"{self.index + 1:032x}",
               "LAB_HOST_ID": f"00000000-0000-0000-0000-{self.index + 1:012x}",
               # Without PCI: serial numbers and devices of the topology's disks, which come after the first one.
               "LAB_DISKS": " ".join(f"{serial}=/dev/ubd{letter}" for serial, letter in zip(self.topology.disks, "bcdef")),
               "LAB_SHARE": "1" if self.options.share and self.index == 0 else "",
               "LAB_UDEV": "1" if self.options.udev else "",
               "LAB_SYSTEMD": "1" if self.options.systemd else "",
               "LAB_KMEMLEAK": "1" if self.options.kmemleak else "",
               # It would be part of what icount counts.
               "LAB_LIFE": "" if self.options.icount or self.options.gdb else "1"}
        lines = [f"export {key}={shlex.quote(value)}" for key, value in env.items()]
        (self.ctl / "env").write_text("\n".join(lines + ["PATH=$PATH:/lab/ctl", ""]))
        (self.ctl / "mounts").write_text("\n".join(machine.mounts(self) + [""]))
        stdin = None if terminal else subprocess.DEVNULL
        stdout = None if terminal else subprocess.PIPE if role == "main" else subprocess.DEVNULL
        uml = self.software.facts.uml
        make = machine.uml if uml else machine.qemu
        machine.unplug(self)
        # User Mode Linux writes the kernel's log to standard error, QEMU its own messages.
        log = self.console if uml else self.folder / "qemu.log"
        # User Mode Linux keeps the guest's memory in a file there.
        env = {**os.environ, "TMPDIR": "/dev/shm"}
        with open(log, "ab") as errors:
            self.process = subprocess.Popen(make(self, terminal), stdin=stdin, stdout=stdout, stderr=errors, env=env,
                                            start_new_session=not terminal, preexec_fn=self._before_exec,
                                            pass_fds=[end.fileno() for end in self.links.values()] if uml else [])
        self.paused = False
        threading.Thread(target=self._watch_boot, args=(self.process, time.monotonic()), daemon=True).start()
        threading.Thread(target=self._watch_life, args=(self.process,), daemon=True).start()

    def _before_exec(self):
        cache.die_with_parent()
        cache.use_libraries(self.software.emulator or self.software.root)

    def _watch_boot(self, process, begun):
        """Kill a machine that hangs before its first process. The thread that waits for it boots it again."""
        while process.poll() is None and not (self.ctl / "started").exists():
            if self.options.gdb:
                return
            limit = self.options.boot_seconds or self.software.facts.boot_seconds
            if _processor_seconds(process.pid) > limit or time.monotonic() - begun > limit * BOOT_PATIENCE:
                cache.say(f"{self.name} did not reach its first process in {limit} s of its own time")
                process.kill()
                return
            time.sleep(0.2)

    def _watch_life(self, process):
        """Kill a machine that has not touched its file for too long. If QEMU still answers, keep the registers."""
        seen, since = None, time.monotonic()
        while process.poll() is None:
            with contextlib.suppress(FileNotFoundError):
                now = (self.ctl / "alive").stat().st_mtime_ns
                if now != seen or self.paused:
                    seen, since = now, time.monotonic()
            if seen and time.monotonic() - since > self.options.life_seconds:
                cache.say(f"{self.name} stopped: no sign of life for {self.options.life_seconds} s; its log is {self.console}")
                with contextlib.suppress(LabError, OSError, ValueError):
                    (self.folder / "registers").write_text(self.monitor("info registers -a"))
                self.on_stop()
                return
            time.sleep(1)

    def boot_again(self, role, command=None):
        """Boot a machine again that ended before its command began. True if it was booted."""
        if (self.ctl / "ready").exists() or self.boots >= BOOTS:
            return False
        if self.console.exists():
            shutil.copy(self.console, self.folder / f"console.boot{self.boots}.log")
        cache.say(f"{self.name} ended before it was up: booting it again (boot {self.boots + 1} of {BOOTS} at most)")
        self.start(role, command)
        return True

    def wait_ready(self, deadline):
        while not (self.ctl / "ready").exists():
            if self.process.poll() is not None and not self.boot_again("peer"):
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
            if self.process.poll() is not None:
                return f"lab: {self.name} is not running\n", 125
            if time.monotonic() > deadline:
                return f"lab: {self.name} did not answer in time\n", 124
            time.sleep(0.05)
        return (self.ctl / f"out.{number}").read_text(errors="replace"), int(status.read_text())

    def qmp(self, command, **arguments):
        """Ask QEMU's monitor; returns its answer. It has 10 s."""
        if self.software.facts.uml:
            raise LabError(f"{self.name} is User Mode Linux, which QEMU's monitor does not know")
        answer = {}
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(10)
            connection.connect(f"{self.folder}/qmp")
            stream = connection.makefile("rw")
            stream.readline()
            for request in ({"execute": "qmp_capabilities"}, {"execute": command, "arguments": arguments}):
                stream.write(json.dumps(request) + "\n")
                stream.flush()
                answer = {}
                while "return" not in answer:
                    answer = json.loads(stream.readline() or '{"return": ""}')
        return answer["return"]

    def pause(self, halt):
        """Stop the machine with its clocks, or as a stuck hypervisor would."""
        if self.resumes:  # It stands still for a while: wait for its end.
            self.resumes.join()
        self.paused = True
        if halt:
            self._signal(signal.SIGSTOP)
        else:
            self.qmp("stop")

    def resume(self, halt):
        if halt:
            self._signal(signal.SIGCONT)
        else:
            self.qmp("cont")
        self.paused = False

    def _signal(self, number):
        """User Mode Linux has one process for each address space of the guest, and they do not have a terminal."""
        if self.software.facts.uml and os.getpgid(self.process.pid) == self.process.pid:
            os.killpg(self.process.pid, number)
        else:
            self.process.send_signal(number)

    def resume_after(self, seconds, halt):
        """Resume it from a thread, for nobody in a guest that stands still can ask for it."""
        def resume():
            with contextlib.suppress(OSError, ValueError):  # It was killed meanwhile.
                self.resume(halt)
        self.resumes = threading.Timer(seconds, resume)
        self.resumes.daemon = True
        self.resumes.start()

    def monitor(self, line):
        return str(self.qmp("human-monitor-command", **{"command-line": line}))

    def kill(self):
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.kill()
            self.process.wait()
        # User Mode Linux has one process for each address space of the guest.
        if self.process:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)

    def complaints(self, stalls=True):
        """What its kernel has reported. Without stalls, these do not count."""
        found = []
        for log in [*self.earlier, self.console]:
            found += klog.problems(log.read_text(errors="replace"), stalls) if log.exists() else []
        return found

    def problems(self):
        """What its kernel has reported, and what leaked."""
        found = self.complaints()
        report = self.ctl / "kmemleak"
        if report.exists():
            found += klog.leaks(report.read_text(errors="replace"))[:60]
        elif self.options.kmemleak and (self.ctl / "end").exists():
            found.append("kmemleak did not look for leaks")
        return found


class Lab:
    """Guests on one network, the first of which runs the command."""

    def __init__(self, options, folder):
        self.options, self.folder = options, folder
        self.deadline = time.monotonic() + options.timeout
        software = Software(options.kernel, options.coverage)
        cache.say(f"booting {software.version}" + (f" on {options.hosts} hosts" if options.hosts > 1 else ""))
        self.deadline = time.monotonic() + options.timeout
        links = [{} for _ in range(options.hosts)]
        number = 0
        for i in range(options.hosts):
            for j in range(i + 1, options.hosts):
                number += 1
                make = machine.uml_link if software.facts.uml else machine.qemu_link
                links[i][number], links[j][number] = make(folder, number, (i, j))
        self.guests = [Guest(software, folder / f"host{i}", i, options, links[i]) for i in range(options.hosts)]
        for guest in self.guests:
            guest.on_stop = self._stop
        self.over = threading.Event()

    def run(self, command):
        """Run the command in the first guest; returns its exit status, 1 if a kernel complained."""
        try:
            threading.Thread(target=self._watch_time, daemon=True).start()
            self._start_peers()
            main = self.guests[0]
            main.start("main", command)
            threading.Thread(target=self._serve_requests, daemon=True).start()
            while True:
                while chunk := main.process.stdout.read1(65536):
                    sys.stdout.buffer.write(chunk)
                    sys.stdout.buffer.flush()
                main.process.wait()
                if self.late or self.stopped or not main.boot_again("main", command):
                    break
            return self._verdict()
        finally:
            self._end()

    def shell(self):
        try:
            self._start_peers()
            self.guests[0].start("shell", "", terminal=True)
            threading.Thread(target=self._serve_requests, daemon=True).start()
            self.guests[0].process.wait()
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

    late = stopped = False

    def _stop(self):
        """A guest stopped: what the others would still find is no result."""
        if not self.over.is_set():
            self.stopped = True
            for guest in self.guests:
                guest.kill()

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
        # The first host may stand still for a while, and nothing else: it is the one that asks.
        asker = [self.guests[0]] if verb in ("freeze", "halt") and rest else []
        guest = next((g for g in [*asker, *self.guests[1:]] if g.name == host), None)
        if guest is None:
            raise LabError(f"no host is called {host}; start the lab with --hosts")
        if verb == "run":
            return guest.execute(rest, self.deadline)
        if verb in ("freeze", "halt"):
            seconds = float(rest) if rest else None
            guest.pause(verb == "halt")
            if seconds is not None:
                guest.resume_after(seconds, verb == "halt")
        elif verb in ("thaw", "continue"):
            guest.resume(verb == "continue")
        elif verb == "kill":
            guest.kill()
        elif verb == "boot":
            guest.boots = 0
            guest.start("peer")
            guest.wait_ready(self.deadline)
        else:
            raise LabError(f"a host cannot be told to {verb}")
        return "", 0

    def _verdict(self):
        main = self.guests[0]
        for guest in self.guests:
            if guest.process.poll() is None and not guest.paused or guest is main:
                (guest.ctl / "end").touch()
        for guest in self.guests[1:]:
            with contextlib.suppress(subprocess.TimeoutExpired):
                guest.process.wait(timeout=0 if guest.paused else LEAKS_SECONDS if self.options.kmemleak else 15)
        if self.stopped:
            # The emulation stops now and then. A kernel that reported an error before did not stop for that reason.
            return self._report(lambda guest: guest.complaints(stalls=False)) or STOPPED
        if self.late:
            cache.say(f"killed after {self.options.timeout} s; the log is {main.console}")
            return 124
        status_file = main.ctl / "status"
        if not status_file.exists() or not status_file.read_text().strip():
            # Without a console log, QEMU's own messages have the reason.
            log = main.console if main.console.exists() else main.folder / "qemu.log"
            cache.say(f"the guest died; the end of its log ({log}):")
            sys.stderr.write("\n".join(log.read_text(errors="replace").splitlines()[-40:]) + "\n")
            return 125
        complained = self._report(Guest.problems)
        return int(status_file.read_text()) or complained

    def _report(self, problems):
        """Print the problems of all guests. Returns 1 if there are some, otherwise 0."""
        complained = 0
        for guest in self.guests:
            if found := problems(guest):
                cache.say(f"the kernel of {guest.name} complained; the log is {guest.console}:")
                sys.stderr.write("\n".join(found) + "\n")
                complained = 1
        return complained

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
