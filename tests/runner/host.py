# SPDX-License-Identifier: GPL-2.0-only
"""Jobs that run on this machine: unit tests, fuzzers, style, headers. They do not load weft's modules."""
import os
import re
import shutil
from pathlib import Path

from weftlab import payload

from . import ROOT, memory, process
from .result import FAILED, PASSED, SKIPPED, Result, command, passed_if

PACKAGES = """g++ cmake ninja-build pkg-config git make perl codespell clang-format shellcheck libgtest-dev libcli11-dev
nlohmann-json3-dev libarchive-dev libblkid-dev libfmt-dev libisal-dev libkmod-dev libmicrohttpd-dev libmnl-dev libmount-dev
libnvme-dev libsmartcols-dev libtomlplusplus-dev liburing-dev uuid-dev libgrpc++-dev libprotobuf-dev protobuf-compiler-grpc
valgrind python3-numpy ccache clang-19 clang-tidy-19 libclang-rt-19-dev flake8 chromium fish zsh gdb gdbserver""".split()

LIBRARY_TESTS = ("weft-library-unit", "weft-cuda-unit", "weft-cufile-unit")


def tracked(*patterns):
    out = process.run(["git", "ls-files", "-co", "--exclude-standard", *patterns]).stdout
    return sorted(name for name in set(out.split()) if (ROOT / name).is_file())


def _built(folder, programs, *options):
    """Build programs for the host in their own folder below build/. Returns the results."""
    # With sanitizers, -O3 takes five times as long to compile and finds no more errors. The guests' tools are compiled with
    # -O3, and each warning is an error there as well.
    results = [command("the tools and tests are configured", [
        "cmake", "-S", ".", "-B", folder, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=None", "-DCMAKE_C_FLAGS=-Og",
        "-DCMAKE_CXX_FLAGS=-Og", "-DCMAKE_C_COMPILER_LAUNCHER=ccache", "-DCMAKE_CXX_COMPILER_LAUNCHER=ccache", *options])]
    if results[0].outcome == PASSED:
        results.append(command("they build without a warning", ["ninja", "-C", folder, *programs], env=_ccache()))
    return results


def _ccache():
    """An environment in which ccache keeps what it compiled beside the lab's caches, for every checkout."""
    return {**os.environ, "CCACHE_DIR": str(memory.cache.root() / "ccache"), "CCACHE_BASEDIR": str(ROOT),
            "CCACHE_NOHASHDIR": "1", "CCACHE_MAXSIZE": "2G", "CCACHE_SLOPPINESS": "pch_defines,time_macros"}


def unit(job, sanitizers, programs, runner=()):
    """GoogleTest on this machine, with sanitizers or under another program such as valgrind."""
    folder = ROOT / "build" / ("host-" + (sanitizers.split(",")[0] or "plain"))
    job.note = "building"
    results = _built(folder, programs, "-DWEFT_TESTS=ON", f"-DWEFT_SANITIZE={sanitizers}")
    if any(r.outcome == FAILED for r in results):
        return results
    for name in programs:
        job.note = name
        results += _gtest(folder / "tests/unit", name, runner)
    return results


def page(job):
    """weft-exporter's page in a browser. It uses what `unit` has built, so it runs after that."""
    folder = ROOT / "build/host-address"
    job.note = "building"
    results = _built(folder, ["weft-exporter", "weft-exporter-sample"], "-DWEFT_TESTS=ON", "-DWEFT_SANITIZE=address,undefined")
    return [*results, command("tests/page", ["tests/page", "chromium", folder / "cpp-tools/weft-exporter/weft-exporter",
                                             folder / "tests/unit/weft-exporter-sample"])]


def plan_report(job):
    """weft-plan: the commands of its document, and its report in a browser, after `unit`, as above."""
    folder = ROOT / "build/host-address"
    job.note = "building"
    results = _built(folder, ["weft-plan"], "-DWEFT_TESTS=ON", "-DWEFT_SANITIZE=address,undefined")
    program = folder / "cpp-tools/weft-plan/weft-plan"
    return [*results, command("tests/plan-document", ["tests/plan-document", program]),
            command("tests/plan-report", ["tests/plan-report", "chromium", program])]


def completion(job):
    """The completion of weftctl in its shells, as the tools of the guests have it: a build for this alone takes minutes."""
    folder = ROOT / "build/completion"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    unpack = ["tar", "-C", folder, "-xf", payload.tools("trixie") / "payload.tar", "--transform", "s,.*/,,", "--wildcards",
              "./usr/share/bash-completion/completions/weftctl", "./usr/share/fish/*/weftctl.fish", "./usr/share/zsh/*/_weftctl"]
    return [command("the tools have completion", unpack), command("tests/completion", ["tests/completion", folder])]


def _gtest(folder, name, runner):
    """Run a GoogleTest program in its own folder, so that its files are not taken for sources. Returns the results."""
    results = []
    done = process.run([*runner, folder / name, "--gtest_color=no"], cwd=folder)
    for line in done.stdout.splitlines():
        if match := re.match(r"\[ +(OK|FAILED|SKIPPED) +\] ([^ ,]+)(?:,.*)? \(\d+ ms\)$", line):
            outcome = {"OK": PASSED, "FAILED": FAILED, "SKIPPED": SKIPPED}[match[1]]
            results.append(Result(outcome, match[2], done.stdout[-3000:] if outcome == FAILED else ""))
    if done.returncode and not any(r.outcome == FAILED for r in results):
        results.append(Result(FAILED, f"{name} ends in order", done.stdout[-2000:] + done.stderr[-4000:]))
    return results or [Result(FAILED, f"{name} has tests", done.stdout[-2000:])]


def fuzz(job, seconds):
    """libFuzzer on each parser, for a fixed time, with an empty corpus and a fixed seed."""
    folder = ROOT / "build/host-fuzzer"
    names = [Path(n).stem for n in tracked("tests/fuzz/*.cpp")]
    results = _built(folder, [f"weft-fuzz-{n}" for n in names], "-DCMAKE_C_COMPILER=clang-19", "-DCMAKE_CXX_COMPILER=clang++-19",
                     "-DWEFT_SANITIZE=fuzzer")
    if any(r.outcome == FAILED for r in results):
        return results
    for name in names:
        job.note = name
        results.append(command(f"nothing is found in {name} in {seconds} s", [
            folder / "tests/fuzz" / f"weft-fuzz-{name}", f"-max_total_time={seconds}", "-seed=1", "-timeout=20",
            f"-artifact_prefix={folder}/{name}-"]))
    return results


def kernel_sources():
    return [n for n in tracked("kmod/*.c", "kmod/*.h", "uapi/*.h", "tests/hardware/*.c", "tests/hardware/*.h")
            if not n.endswith(("netlink-gen.c", "netlink-gen.h")) and n != "uapi/weft.h"]


# LONG_LINE is about the sentences for users. The others are usual in the kernel's trace headers, or need a MAINTAINERS
# file in the kernel's format.
CHECKPATCH_IGNORED = ("LONG_LINE", "FILE_PATH_CHANGES", "MACRO_ARG_REUSE", "LINUX_VERSION_CODE", "SPDX_LICENSE_TAG",
                      "OPEN_ENDED_LINE", "CONSTANT_COMPARISON", "EMBEDDED_FUNCTION_NAME", "MACRO_ARG_PRECEDENCE", "COMPLEX_MACRO")


def _kernel_tools():
    return Path(process.run([ROOT / "tests/lab/lab", "kernel-tools"]).stdout.strip())


def kernel_style(job):
    """checkpatch and kernel-doc of the newest kernel. Both check single files, so a file that passed is not checked again."""
    tools, results = _kernel_tools(), []
    docs = tools / "scripts/kernel-doc"
    for name in kernel_sources():
        job.note = name
        ignored = ",".join(CHECKPATCH_IGNORED + (("PARENTHESIS_ALIGNMENT",) if name.endswith("trace.h") else ()))
        results.append(command(f"checkpatch --strict {name}", [
            "perl", tools / "scripts/checkpatch.pl", "--no-tree", "--strict", "--quiet", "--no-summary", "--terse",
            "--show-types", "--max-line-length=100", f"--ignore={ignored}", "-f", name],
            quiet=True, known_by=memory.key("checkpatch", tools.name, ignored, name, Path(name))))
        if docs.exists() and name.startswith(("kmod/weft/", "kmod/rdma/", "kmod/p2p/", "kmod/compat/", "kmod/include/", "uapi/")):
            results.append(command(f"kernel-doc {name}", ["/usr/bin/python3", docs, "-none", "-Wall", name], quiet=True,
                                   known_by=memory.key("kernel-doc", tools.name, name, Path(name))))
    return results


def netlink(_job):
    """The generated netlink files in the tree are equal to newly generated ones."""
    out = ROOT / "build/generated"
    shutil.rmtree(out, ignore_errors=True)
    results = [command("the netlink code can be generated", ["uapi/generate", _kernel_tools(), out])]
    for name in ("uapi/weft.h", "kmod/weft/netlink-gen.h", "kmod/weft/netlink-gen.c"):
        results.append(command(f"{name} is what weft.yaml makes", ["diff", "-u", out / name, name]))
    return results


def prometheus(_job):
    """Metrics, alerts and dashboard, with Prometheus's own tool."""
    folder = process.run([ROOT / "tests/lab/lab", "make", "software:prometheus"]).stdout.strip()
    return [command("tests/lint-prometheus", ["tests/lint-prometheus", f"{folder}/root/usr/bin/promtool"])]


def style(_job):
    """clang-format, shellcheck, codespell, SPDX lines, links and names in documents, Python, the table of tests."""
    shells = [n for n in tracked("tests/*", ".ci/*", "uapi/generate", "fio-jobs/*", "packaging/*", "kmod/*", "userspace/*")
              if (ROOT / n).read_bytes().startswith((b"#!/bin/sh", b"#!/bin/bash", b"# shellcheck shell="))]
    cpp = tracked("*.cpp", "*.hpp")
    text = tracked("kmod/*", "uapi/*", "cpp-tools/*", "userspace/*", "docs/*", "*.md", "tests/*", "fio-jobs/*", "packaging/*")

    def checked(what, files, *arguments, extra=()):
        known_by = memory.key(what, *arguments, *files, *map(Path, [*files, *extra]))
        return command(what, [what, *arguments, *files], known_by=known_by)
    results = [
        checked("clang-format", cpp, "--dry-run", "-Werror", extra=[".clang-format"]),
        checked("shellcheck", shells, "-e", "SC1090,SC1091,SC2016,SC2015,SC2017"),
        checked("codespell", text, "-L", "inout,fo,hist,inflight,padd")]
    without = [n for n in tracked("kmod/*", "uapi/*", "cpp-tools/*", "userspace/*", "tests/*", "fio-jobs/*", "packaging/*",
                                  "Makefile", "Kbuild")
               if "SPDX-License-Identifier" not in (ROOT / n).read_text(errors="replace")[:300]
               and not n.endswith(("COPYING", ".config", ".json", ".prom")) and not n.startswith("packaging/debian/")]
    results.append(passed_if(not without, "every file has an SPDX line", "\n".join(without)))
    # These check the whole tree, and take seconds.
    for name in ("version", "release", "lint-calls", "lint-docs", "lint-python", "lint-tests"):
        results.append(command(f"tests/{name}", [f"tests/{name}"]))
    return results


# A first run on the whole tree takes 15 minutes, so it starts with the files that were changed last.
TIDY_SECONDS = 90


def tidy(_job, seconds):
    """clang-tidy, which stores itself which files were clean."""
    done = process.run(["tests/tidy", *(["--seconds", str(seconds)] if seconds else [])])
    results = [passed_if(not done.returncode, "clang-tidy", done.stdout + done.stderr)]
    if (left := re.search(r", (\d+) left for the next run$", done.stdout, re.M)) and int(left[1]):
        results.append(Result(SKIPPED, f"clang-tidy on {left[1]} more files: the next run goes on with them after {seconds} s"))
    return results


# What the reader of a document's C++ program has already.
PROGRAM = """#include <cstdio>
{includes}
void program(std::uint64_t pointer, std::size_t bytes);
void program(std::uint64_t pointer, std::size_t bytes)
{{
{statements}
}}
"""


def _program(document):
    """A file with the C++ program of a document, as a function."""
    lines = re.search(r"^```cpp\n(.*?)^```", (ROOT / document).read_text(), re.MULTILINE | re.DOTALL)[1].splitlines()
    path = ROOT / "build" / (Path(document).stem + ".cpp")
    path.parent.mkdir(exist_ok=True)
    path.write_text(PROGRAM.format(includes="\n".join(line for line in lines if line.startswith("#")),
                                   statements="\n".join(line for line in lines if not line.startswith("#"))))
    return path


def headers(job):
    """Each header compiles alone. The build already checks headers of .cpp files, which include their own header first. The
    library's document has a program."""
    results, every = [], tracked("*.hpp", "*.h")
    document, public = "docs/library.md", tracked("userspace/include/*.h*")
    results.append(command(f"the program of {document} compiles", [
        "g++", "-std=c++17", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-Iuserspace/include", _program(document)],
        known_by=memory.key("program", document, *map(Path, [document, *public]))))
    for name in [n for n in tracked("cpp-tools/*.hpp", "userspace/include/*.hpp") if not (ROOT / n).with_suffix(".cpp").exists()]:
        job.note = name
        # Users' compilers are older: CUDA's, and those of PyTorch's extensions.
        version = "c++17" if name.startswith("userspace/include/") else "c++23"
        results.append(command(f"{name} compiles alone", [
            "g++", f"-std={version}", "-fsyntax-only", "-x", "c++", "-I.", "-Icpp-tools/weftctl", "-Iuserspace/include",
            "-Iuserspace/src", f"-I{Path(name).parent}", name], known_by=memory.key("header", name, *map(Path, every))))
    return results
