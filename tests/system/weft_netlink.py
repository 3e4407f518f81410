#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""weft's netlink family spoken by hand: what no tool would send, for the tests.

usage: weft_netlink.py assemble NAME DEVICE...   prints "done", or "refused: SENTENCE", or "errno N"
       weft_netlink.py path-add NAME INDEX DEVICE   the same
       weft_netlink.py path-remove NAME INDEX DISK   the same
       weft_netlink.py hostile                   sends nonsense; prints TAP
"""
import random
import socket
import struct
import sys

VOLUME_GET, VOLUME_ASSEMBLE, VOLUME_STOP, REFUSED = 1, 2, 3, 4
PATH_ADD, PATH_REMOVE = 8, 9
A_NAME, A_UUID, A_MEMBER, A_STATE, A_OWNERSHIP, A_READ_ONLY, A_TAKE_OVER, A_HOST_NQN = range(1, 9)
M_INDEX, M_UUID, M_TRANSPORT, M_ADDRESS = range(1, 5)
NESTED = 0x8000
NQN = b"nqn.2014-08.org.nvmexpress:uuid:tests\0"


def attr(kind, data, length=None):
    size = 4 + len(data) if length is None else length
    return struct.pack("<HH", size, kind) + data + bytes(-len(data) % 4)


def member(path, transport=None):
    body = attr(M_ADDRESS, path.encode() + b"\0")
    if transport is not None:
        body += attr(M_TRANSPORT, transport.encode() + b"\0")
    return attr(A_MEMBER | NESTED, body)


class Connection:
    def __init__(self):
        self.socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 16)
        self.socket.bind((0, 0))
        self.socket.settimeout(60)
        self.sequence = random.randrange(1 << 30)
        answer = self.ask(16, struct.pack("<BBH", 3, 1, 0) + attr(2, b"weft\0"), raw=True)
        self.family = self._find(answer, 1)

    @staticmethod
    def _find(message, wanted):
        at = 20
        while at + 4 <= len(message):
            size, kind = struct.unpack_from("<HH", message, at)
            if kind == wanted:
                return struct.unpack_from("<H", message, at + 4)[0]
            at += size + 3 & ~3
        sys.exit("the family weft is not there")

    def send(self, kind, body, length=None, flags=5):
        self.sequence += 1
        header = struct.pack("<IHHII", 16 + len(body) if length is None else length, kind, flags, self.sequence, 0)
        self.socket.send(header + body)

    def ask(self, kind, body, raw=False, **kwargs):
        """The error code of the ack and the sentence before it; or the first answer, raw."""
        self.send(kind, body, **kwargs)
        sentence = ""
        while True:
            data = self.socket.recv(1 << 20)
            while len(data) >= 16:
                size, kind_in, _, sequence, _ = struct.unpack_from("<IHHII", data)
                message, data = data[:size], data[size + 3 & ~3:]
                if sequence != self.sequence:
                    continue
                if kind_in == 2:
                    return -struct.unpack_from("<i", message, 16)[0], sentence
                if kind_in == 3:
                    return 0, sentence
                if raw:
                    return message
                if message[16] == REFUSED:
                    at = 20
                    while at + 4 <= len(message):
                        size, kind_a = struct.unpack_from("<HH", message, at)
                        if kind_a == 4:
                            sentence = message[at + 4:at + size].rstrip(b"\0").decode(errors="replace")
                        at += size + 3 & ~3

    def command(self, command, body, **kwargs):
        return self.ask(self.family, struct.pack("<BBH", command, 1, 0) + body, **kwargs)


def tell(answer):
    err, sentence = answer
    if not err:
        print("done")
    else:
        print(f"refused: {sentence}" if sentence else f"errno {err}")


def assemble(name, devices):
    body = attr(A_NAME, name.encode() + b"\0") + attr(A_HOST_NQN, NQN) + b"".join(map(member, devices))
    tell(Connection().command(VOLUME_ASSEMBLE, body))


def change_path(command, name, index, address):
    transport = b"rdma\0" if "weft-rdma" in address else b"bdev\0"
    reach = (attr(M_INDEX, struct.pack("<I", index)) + attr(M_TRANSPORT, transport) +
             attr(M_ADDRESS, address.encode() + b"\0"))
    tell(Connection().command(command, attr(A_NAME, name.encode() + b"\0") + attr(A_MEMBER | NESTED, reach)))


def hostile():
    count = 0

    def check(sentence, good, seen):
        nonlocal count
        count += 1
        print(f"{'ok' if good else 'not ok'} {count} - {sentence}" + ("" if good else f"\n# {seen}"), flush=True)

    def refused(sentence, answer, wanted=None, text=""):
        err, said = answer
        check(sentence, err != 0 and (wanted is None or err == wanted) and text in said, answer)

    c = Connection()
    name = attr(A_NAME, b"v\0")
    nqn = attr(A_HOST_NQN, NQN)
    refused("assemble without a name", c.command(VOLUME_ASSEMBLE, b""), 22, "name is missing")
    refused("assemble without members", c.command(VOLUME_ASSEMBLE, name + nqn), 22, "no members")
    refused("assemble with 257 members", c.command(VOLUME_ASSEMBLE, name + nqn + member("/dev/null") * 257), 7, "257")
    refused("assemble with 4000 members", c.command(VOLUME_ASSEMBLE, name + nqn + member("/x") * 4000), 7, "4000")
    refused("assemble without a host NQN", c.command(VOLUME_ASSEMBLE, name + member("/dev/null")), 22, "NQN")
    refused("a member that is no block device", c.command(VOLUME_ASSEMBLE, name + nqn + member("/dev/null")), 15, "/dev/null")
    refused("a member that is not there", c.command(VOLUME_ASSEMBLE, name + nqn + member("/no/where")), 2, "/no/where")
    refused("a member with an empty address", c.command(VOLUME_ASSEMBLE, name + nqn + member("")), 22, "address")
    refused("a member without an address", c.command(VOLUME_ASSEMBLE, name + nqn + attr(A_MEMBER | NESTED, b"")), 22)
    refused("a member by an unknown transport", c.command(VOLUME_ASSEMBLE, name + nqn + member("x", "warp")), 93, "warp")
    refused("a transport's name with a path in it", c.command(VOLUME_ASSEMBLE, name + nqn + member("x", "../../x")), 93)
    refused("a member that is no nest", c.command(VOLUME_ASSEMBLE, name + nqn + attr(A_MEMBER, b"junk")), 22)
    refused("a nest cut short", c.command(VOLUME_ASSEMBLE, name + nqn + attr(A_MEMBER | NESTED, b"\xff\xff\4\0ab")), 22)
    refused("a nest within a nest", c.command(VOLUME_ASSEMBLE, name + nqn + attr(A_MEMBER | NESTED, member("/x"))), None)
    refused("a name without an end", c.command(VOLUME_ASSEMBLE, attr(A_NAME, b"vvv") + nqn), 22)
    refused("a name of 300 characters", c.command(VOLUME_ASSEMBLE, attr(A_NAME, b"v" * 300 + b"\0")), None)
    refused("a name of 255 characters", c.command(VOLUME_ASSEMBLE, attr(A_NAME, b"v" * 255 + b"\0") + nqn + member("/x")), 36)
    refused("a name with control characters", c.command(VOLUME_ASSEMBLE, attr(A_NAME, b"a\n\33[2J\0") + nqn + member("/x")), 22)
    refused("a UUID of 15 bytes", c.command(VOLUME_ASSEMBLE, name + attr(A_UUID, bytes(15))), None)
    refused("an unknown attribute", c.command(VOLUME_ASSEMBLE, name + attr(99, b"abcd")), 22)
    refused("an attribute of the answer in a question", c.command(VOLUME_STOP, name + attr(A_UUID, bytes(16))), 22)
    refused("an NQN of 300 characters", c.command(VOLUME_ASSEMBLE, name + attr(A_HOST_NQN, b"n" * 300 + b"\0")), None)
    refused("an address of 5000 characters", c.command(VOLUME_ASSEMBLE, name + nqn + member("/" * 5000)), None)
    refused("an attribute longer than its message", c.command(VOLUME_STOP, attr(A_NAME, b"v\0", length=600)), None)
    refused("an attribute shorter than its header", c.command(VOLUME_STOP, attr(A_NAME, b"v\0", length=2)), None)
    refused("stop without a name", c.command(VOLUME_STOP, b""), 22)
    refused("get without a name", c.command(VOLUME_GET, b""), 22)
    refused("stop of what is not there", c.command(VOLUME_STOP, attr(A_NAME, b"nothing\0")), 2, "nothing")
    refused("an unknown command", c.command(77, name), 95)
    refused("a command that is the kernel's to send", c.command(REFUSED, b""), 95)
    refused("a dump of a command that has none", c.command(VOLUME_STOP, name, flags=0x301), None)

    random.seed(5)
    alive = 0
    for _ in range(3000):
        body = bytearray(name + nqn + member("/dev/null") * random.randrange(3))
        for _ in range(random.randrange(1, 6)):
            body[random.randrange(len(body))] = random.randrange(256)
        if c.command(random.randrange(1, 6), bytes(body[:random.randrange(len(body) + 1)]))[0]:
            alive += 1
    check("3000 mutilated messages are answered", alive > 2000, alive)
    for _ in range(300):  # length fields that lie: the kernel drops them without an answer
        c.send(c.family, struct.pack("<BBH", VOLUME_ASSEMBLE, 1, 0) + name, length=random.randrange(1, 20))
    check("and the family still answers", c.command(VOLUME_STOP, attr(A_NAME, b"nothing\0"))[0] == 2, "")
    print(f"1..{count}")


if sys.argv[1] == "assemble":
    assemble(sys.argv[2], sys.argv[3:])
elif sys.argv[1] in ("path-add", "path-remove"):
    change_path(PATH_ADD if sys.argv[1] == "path-add" else PATH_REMOVE, sys.argv[2], int(sys.argv[3]), sys.argv[4])
else:
    hostile()
