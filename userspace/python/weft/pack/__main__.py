# SPDX-License-Identifier: LGPL-2.1-or-later
"""weft-pack: makes, shows, verifies and unpacks packed datasets."""
import argparse
import json
import os
import sys
import time

from . import Pack, PackError, pack, seal, sources, unpack_folder, unpack_tar

_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20}


def _size(text):
    """A number of bytes: 65536, 64K, 1M."""
    digits, unit = (text[:-1], text[-1].upper()) if text[-1:].isalpha() else (text, "")
    if not digits.isdecimal() or unit not in _UNITS:
        raise argparse.ArgumentTypeError(f"'{text}' is not a size such as 64K or 1M")
    return int(digits) * _UNITS[unit]


def _amount(count):
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if count < 1024 or unit == "TiB":
            return f"{count} B" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return None


class _Progress:
    """One line that changes on a terminal, and one line every ten seconds elsewhere."""

    def __init__(self, quiet, words):
        self._quiet, self._words, self._terminal = quiet, words, sys.stderr.isatty()
        self._begun = time.monotonic()
        self._every = 0.2 if self._terminal else 10
        self._next, self._shown = self._begun + self._every, False

    def __call__(self, *numbers):
        if self._quiet:
            return
        now = time.monotonic()
        if now >= self._next:
            self._next = now + self._every
            text = self._words(now - self._begun, *numbers)
            print(f"\r\033[K{text}" if self._terminal else text, end="" if self._terminal else "\n", file=sys.stderr, flush=True)
            self._shown = True

    def end(self):
        if self._shown and self._terminal:
            print("\r\033[K", end="", file=sys.stderr, flush=True)


def _packing(seconds, samples, size, total):
    share = f" of {total} ({100 * samples // total} %)" if total else ""
    return f"{samples}{share} samples, {_amount(size)}, {samples / max(seconds, 1e-3):.0f} samples/s"


def _unpacking(_seconds, samples, files, total):
    return f"{samples} of {total} samples ({100 * samples // total} %), {files} files"


def _verifying(_seconds, done, total):
    return f"{_amount(done)} of {_amount(total)} ({100 * done // max(total, 1)} %)"


def _made(made):
    print(f"{made.path}: {made.samples} samples, {_amount(made.bytes)}" + (f", on volume {made.volume}" if made.volume else "") +
          (", sealed" if made.sealed else ""))
    if made.reason:
        print(f"weft-pack: {made.path}: {made.reason}", file=sys.stderr)


def _pack(options):
    progress = _Progress(options.quiet, _packing)
    source = sources.detect(options.source)
    try:
        made = pack(source, options.output, progress=progress, cell=options.cell, align=options.align,
                    sums=not options.no_sample_checksums, seal=not options.no_seal, replace=options.force,
                    restart=options.restart)
    finally:
        progress.end()
    _made(made)


def _open(options):
    return Pack(options.pack if "/" in options.pack else f"./{options.pack}", bound=not options.any_volume)


def _unpack(options):
    progress = _Progress(options.quiet, _unpacking)
    with _open(options) as opened:
        try:
            to_tar = options.output.endswith(".tar")
            files = (unpack_tar if to_tar else unpack_folder)(opened, options.output, progress)
        finally:
            progress.end()
        print(f"{options.output}: {files} files of {len(opened)} samples")


def _info(options):
    with _open(options) as opened:
        known = opened.info()
    if options.json:
        print(json.dumps(known, indent=2))
        return
    try:
        known["created"] = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(known["created"]))
    except (OverflowError, ValueError, OSError):
        known["created"] = f"{known['created']} seconds after 1970"
    for name in ("longest_bytes", "payload_bytes", "file_bytes", "index_bytes", "cell_bytes", "align"):
        known[name] = f"{known[name]} ({_amount(known[name])})"
    for name, value in known.items():
        text = "-" if value is None else value if isinstance(value, str) else json.dumps(value)
        print(f"{name.replace('_', ' '):20} {text}")


def _verify(options):
    progress, count = _Progress(options.quiet, _verifying), 0
    with _open(options) as opened:
        begun = progress
        for problem in opened.problems(lambda done: begun(done, opened.header.data_bytes)):
            progress.end()
            print(f"{options.pack}: {problem}", file=sys.stderr)
            count += 1
        progress.end()
        if count:
            raise PackError(options.pack, f"{count} problems were found")
        print(f"{options.pack}: {len(opened)} samples in {opened.header.cells} cells: no problem was found")


def _seal(options):
    _made(seal(options.pack, not options.unbind))


def _parser():
    parser = argparse.ArgumentParser(prog="weft-pack", description="Makes, shows, verifies and unpacks packed datasets: billions "
                                     "of small samples in one file, for training. See weft-pack(1).")
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="COMMAND")

    def verb(name, function, text):
        one = verbs.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
        one.set_defaults(function=function)
        return one

    def reads(one):
        one.add_argument("pack", help="the dataset")
        one.add_argument("--any-volume", action="store_true", help="read it on another volume than its own, too")

    def shows_progress(one):
        one.add_argument("--quiet", action="store_true", help="show no progress")

    one = verb("pack", _pack, "make a dataset of a folder, of tar files or of a folder of MDS shards, or go on with it")
    one.add_argument("source", nargs="+", help="a folder, a folder with shards of MDS and their index.json, or tar files")
    one.add_argument("output", help="the file that is made; its work so far is in the folder .NAME.partial beside it")
    one.add_argument("--cell", type=_size, default="256K", metavar="SIZE",
                     help="bytes with a checksum, from 64K to 1M; samples below --align share a cell (default: 256K)")
    one.add_argument("--align", type=_size, default="4K", metavar="SIZE",
                     help="samples of at least so many bytes begin at a multiple of it, from 512 to 64K (default: 4K)")
    one.add_argument("--no-sample-checksums", action="store_true",
                     help="4 bytes less of index for each sample; a large sample is verified by its cells")
    one.add_argument("--no-seal", action="store_true", help="do not make the file immutable")
    one.add_argument("--force", action="store_true", help="replace an existing output if it is a regular file")
    one.add_argument("--restart", action="store_true", help="drop the work of an earlier attempt")
    shows_progress(one)
    one = verb("unpack", _unpack, "write the samples to files again")
    reads(one)
    one.add_argument("output", help="a new folder, or a new tar file if it ends with .tar")
    shows_progress(one)
    one = verb("info", _info, "show what is in the header")
    reads(one)
    one.add_argument("--json", action="store_true", help="as JSON")
    one = verb("verify", _verify, "read all bytes and compare all checksums")
    reads(one)
    shows_progress(one)
    one = verb("seal", _seal, "bind a dataset to the volume on which it lies now, and make it immutable")
    one.add_argument("pack", help="the dataset")
    one.add_argument("--unbind", action="store_true", help="bind it to no volume, so that copies of it can be read anywhere")
    return parser


def main(arguments=None):
    """Returns the exit status: 0, 1 for what went wrong with data, 2 for a wrong command line, 130 after an interrupt."""
    options = _parser().parse_args(arguments)
    try:
        options.function(options)
        sys.stdout.flush()
    except KeyboardInterrupt:
        goes_on = options.function is _pack
        print(f"weft-pack: interrupted{'; the same command goes on' if goes_on else ''}", file=sys.stderr)
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (PackError, ValueError, OSError) as wrong:
        text = wrong.strerror if isinstance(wrong, OSError) and wrong.strerror and not wrong.filename else str(wrong)
        print(f"weft-pack: {text}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
