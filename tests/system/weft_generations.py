#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""Blocks with generations: is a block that was acknowledged ever an older one again, on any host?

usage: weft_generations.py collect ADDRESS:PORT LOG
       weft_generations.py write DEVICE ADDRESS:PORT OPTION...
         --from=BYTES --blocks=N --stride=BYTES   where the blocks of 4096 bytes are
         --pause=SECONDS                          between two commands of a thread
         --until=FILE                             ends when the file is there; without it after the first look
         --errors=wait                            tries again after an I/O error, which ends it otherwise

`collect` runs on a host that stays. It knows the generation of each block that any host was told to be written, and gives
each writer a higher epoch than all before. LOG has a line for each acknowledged write.

`write` first reads all blocks: what was acknowledged to a host before must be there, or a newer one. Then it writes and
reads at random, and reads all blocks again. Each sector has its block, its place and the generation, which begins with the
writer's epoch. After a write that failed, each sector has its old generation or the new one, and keeps it. Status 0; 1: data
are wrong, with a line that begins with "wrong:"; 3: an I/O error, or a writer of a newer epoch is at work.
"""
import errno
import itertools
import mmap
import os
import random
import socket
import socketserver
import struct
import sys
import threading
import time
import zlib

BLOCK, SECTOR = 4096, 512
HEAD = struct.Struct("<8sQQQ")
MAGIC = b"weftgens"
THREADS = 2
EPOCH_SHIFT = 32
WRONG, LOST = 1, 3


def sector(block, place, generation):
    head = HEAD.pack(MAGIC, block, place, generation)
    body = head + struct.pack("<Q", generation) * ((SECTOR - len(head) - 8) // 8)
    return body + struct.pack("<Q", zlib.crc32(body))


def content(block, generation):
    return b"".join(sector(block, place, generation) for place in range(BLOCK // SECTOR))


def shown(generation):
    return f"{generation >> EPOCH_SHIFT}.{generation & (1 << EPOCH_SHIFT) - 1}"


class Collector:
    def __init__(self, log):
        self.lock = threading.Lock()
        self.acknowledged, self.epoch, self.log = {}, 0, log

    def begin(self):
        with self.lock:
            self.epoch += 1
            return self.epoch, dict(self.acknowledged)

    def note(self, block, generation):
        with self.lock:
            # A host that has lost the volume is not told that anything was written.
            late = " late" if generation >> EPOCH_SHIFT < self.epoch else ""
            self.acknowledged[block] = max(generation, self.acknowledged.get(block, 0))
            print(f"{time.time():.3f} {block} {shown(generation)}{late}", file=self.log, flush=True)


def collect(address, log):
    with open(log, "w", encoding="ascii") as file:
        collector = Collector(file)

        class Handler(socketserver.StreamRequestHandler):
            def handle(self):
                epoch, known = collector.begin()
                lines = [f"epoch {epoch}", *[f"{block} {generation}" for block, generation in known.items()], "go", ""]
                try:
                    self.wfile.write("\n".join(lines).encode())
                    for line in self.rfile:
                        collector.note(*map(int, line.split()))
                except (ConnectionError, TimeoutError):
                    pass  # The power of that host was cut.

        class Server(socketserver.ThreadingTCPServer):
            allow_reuse_address = daemon_threads = True

        with Server(address, Handler) as server:
            server.serve_forever()


class Ended(Exception):
    def __init__(self, status, text):
        super().__init__(text)
        self.status = status


class Writer:
    def __init__(self, device, address, options):
        self.first, self.stride = int(options["from"]), int(options["stride"])
        self.blocks, self.pause = int(options["blocks"]), float(options.get("pause", "0"))
        self.until, self.waits = options.get("until"), options.get("errors") == "wait"
        self.ended = None
        self.device = os.open(device, os.O_RDWR | os.O_DIRECT)
        self.connection = socket.create_connection(address)
        self.send_lock = threading.Lock()
        answer = self.connection.makefile("r", encoding="ascii")
        self.epoch = int(answer.readline().split()[1])
        self.acknowledged = {}
        while (line := answer.readline().strip()) != "go":
            block, generation = map(int, line.split())
            self.acknowledged[block] = generation
        self.counter = itertools.count(1)
        self.state, self.failed = {}, {}
        self.writes = self.reads = self.failures = 0

    def place(self, block):
        return self.first + block * self.stride

    def read(self, block, buffer):
        """The generations of its sectors; None for a sector that nobody has written."""
        try:
            if os.preadv(self.device, [buffer], self.place(block)) != BLOCK:
                raise OSError(errno.EIO, "a short read")
        except OSError as error:
            raise Ended(LOST, f"read of block {block}: {error}") from error
        found = []
        for place in range(BLOCK // SECTOR):
            data = buffer[place * SECTOR:(place + 1) * SECTOR]
            magic, at, number, generation = HEAD.unpack_from(data)
            if magic != MAGIC:
                found.append(None)
            elif data == sector(block, place, generation):
                found.append(generation)
            else:
                raise Ended(WRONG, f"wrong: block {block}, sector {place}: it is of block {at}, sector {number}, "
                            f"generation {shown(generation)}, or damaged")
        return found

    def write(self, block, buffer):
        generation = self.epoch << EPOCH_SHIFT | next(self.counter)
        buffer[:] = content(block, generation)
        try:
            if os.pwritev(self.device, [buffer], self.place(block)) != BLOCK:
                raise OSError(errno.EIO, "a short write")
        except OSError as error:
            self.failed.setdefault(block, set()).add(generation)
            self.failures += 1
            raise Ended(LOST, f"write of block {block}, generation {shown(generation)}: {error}") from error
        self.failed.pop(block, None)
        self.state[block] = [generation] * (BLOCK // SECTOR)
        with self.send_lock:
            self.connection.sendall(f"{block} {generation}\n".encode())

    def look_first(self, block, buffer):
        found = self.read(block, buffer)
        least = self.acknowledged.get(block)
        if least is not None and any(generation is None or generation < least for generation in found):
            raise Ended(WRONG, f"wrong: block {block} was acknowledged in generation {shown(least)}, and is "
                        f"{' '.join('nothing' if g is None else shown(g) for g in found)}")
        self.state[block] = found

    def look_again(self, block, buffer):
        found = self.read(block, buffer)
        failed = self.failed.pop(block, ())
        for place, (is_, was) in enumerate(zip(found, self.state[block])):
            if is_ == was or is_ in failed:
                continue
            if is_ is not None and is_ >> EPOCH_SHIFT > self.epoch:
                raise Ended(LOST, f"block {block} has the generation {shown(is_)}: another host has the volume")
            raise Ended(WRONG, f"wrong: block {block}, sector {place}: generation {'nothing' if is_ is None else shown(is_)} "
                        f"after {'nothing' if was is None else shown(was)}")
        self.state[block] = found

    def work(self, share):
        buffer, draw = mmap.mmap(-1, BLOCK), random.Random(self.epoch * THREADS + share)
        mine = range(share, self.blocks, THREADS)
        try:
            while not self.ended and not os.path.exists(self.until):
                block = draw.choice(mine)
                try:
                    if draw.randrange(3):
                        self.write(block, buffer)
                        self.writes += 1
                    else:
                        self.look_again(block, buffer)
                        self.reads += 1
                except Ended as ended:
                    if ended.status != LOST or not self.waits:
                        raise
                    time.sleep(0.1)
                time.sleep(self.pause)
        except Ended as ended:
            self.end(ended)
        except Exception as problem:  # pylint: disable=broad-except # A thread that ends is a failure.
            self.end(Ended(LOST, f"ends: {type(problem).__name__}: {problem}"))

    def end(self, ended):
        # Wrong data say more than an error.
        if not self.ended or ended.status < self.ended.status:
            self.ended = ended
        print(ended, flush=True)

    def run(self):
        buffer = mmap.mmap(-1, BLOCK)
        try:
            for block in range(self.blocks):
                self.look_first(block, buffer)
            print(f"epoch {self.epoch}: {len(self.acknowledged)} acknowledged blocks are there", flush=True)
            if self.until:
                threads = [threading.Thread(target=self.work, args=(share,)) for share in range(THREADS)]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()
                for block in range(0 if self.ended else self.blocks):
                    self.look_again(block, buffer)
                print(f"epoch {self.epoch}: {self.writes} writes, {self.failures} failed, {self.reads} reads", flush=True)
        except Ended as ended:
            self.end(ended)
        return self.ended.status if self.ended else 0


def address_of(text):
    host, _, port = text.rpartition(":")
    return host, int(port)


def main():
    if sys.argv[1:2] == ["collect"] and len(sys.argv) == 4:
        return collect(address_of(sys.argv[2]), sys.argv[3])
    if sys.argv[1:2] == ["write"] and len(sys.argv) > 4:
        options = dict(word.removeprefix("--").split("=", 1) for word in sys.argv[4:])
        return Writer(sys.argv[2], address_of(sys.argv[3]), options).run()
    sys.exit(__doc__)


sys.exit(main())
