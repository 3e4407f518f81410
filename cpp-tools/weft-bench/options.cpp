// SPDX-License-Identifier: GPL-2.0-only
#include "options.hpp"

#include <algorithm>
#include <cctype>
#include <string_view>

namespace bench
{

namespace
{

constexpr auto footer = R"(Routes:
  direct  libweft, strictly: devices move the bytes to and from the memory itself
  staged  libweft through pinned memory, the copy of one piece beside the I/O of the next
  pread   pread() or pwrite() and a copy, by a thread for each I/O in flight (up to 16)
  cufile  cuFile, where a libcufile.so.0 is found (NVIDIA's or weft's), by a thread for each I/O in flight (up to 16)

A route that is not possible says why.

Exit status:
  0  measured: each route that --routes names, or one at least
  1  an error of the system or of the source
  2  invalid or unsupported request
  3  a route that --routes names was refused or failed, or all were

CPU seconds are those of this process, without the kernel's own threads.
--write overwrites the contents of SOURCE, a device or a file, and needs --destroy. A block device that is mounted or
claimed by another program is refused.

Examples:
  weft-bench data --gpu 0
  weft-bench /mnt/shard-0001.bin --size 1G --json bench.json --svg bench.svg
  weft-bench data --file /mnt/shard-0001.bin --gpu 0 --routes direct,staged
  weft-bench data --bar 0000:05:00.0 --routes direct
  weft-bench data --write --destroy --size 1G)";

bool is_pci_address(std::string_view address)
{
    constexpr std::string_view form = "hhhh:hh:hh.h";
    return std::ranges::equal(address, form, [](char given, char wanted) {
        return wanted == 'h' ? std::isxdigit(static_cast<unsigned char>(given)) != 0 : given == wanted;
    });
}

} // namespace

void add_options(CLI::App& app, Options& options)
{
    app.add_option("SOURCE", options.job.source, "a weft volume's name, or a path of a block device or file")
        ->required();
    app.add_option("--file", options.job.file, "a file on that volume, which is read instead");
    app.add_option("--offset", options.job.offset, "first byte to move")->transform(CLI::AsSizeValue(false));
    app.add_option("--size", options.job.length, "bytes to move; default: all")
        ->transform(CLI::AsSizeValue(false));
    app.add_option("--block", options.block, "bytes of an I/O")
        ->transform(CLI::AsSizeValue(false))
        ->capture_default_str();
    app.add_option("--depth", options.job.depth, "I/O in flight")
        ->check(CLI::Range(1, 1024))
        ->capture_default_str();
    auto* gpu = app.add_option("--gpu", options.job.gpu,
                               "use memory of this GPU, by its number in CUDA, instead of host memory");
    app.add_option(
           "--bar", options.job.bar,
           "use memory of the PCI device at this address, which weft_p2p exports, instead of host memory")
        ->check([](const std::string& address) {
            return is_pci_address(address) ? std::string()
                                           : address + " is not a PCI address of the form DDDD:BB:DD.F";
        })
        ->excludes(gpu);
    app.add_flag("--write", options.job.write, "write from memory to the source; needs --destroy");
    app.add_flag("--destroy", options.job.destroy, "allow --write to overwrite what the source holds");
    app.add_option("--routes", options.routes, "routes to measure, separated by commas")
        ->delimiter(',')
        ->check(CLI::IsMember({"direct", "staged", "pread", "cufile"}));
    app.add_option("--json", options.json, "also write the figures to this file");
    app.add_option("--svg", options.svg, "also draw the figures to this file");
    app.footer(footer);
}

} // namespace bench
