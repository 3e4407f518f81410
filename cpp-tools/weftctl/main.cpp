// SPDX-License-Identifier: GPL-2.0-only
#include "verbs.hpp"

#include <array>

namespace
{

constexpr auto description = "weftctl: striped block volumes over NVMe over Fabrics and other block devices";

constexpr auto footer = R"(A volume stripes its data over its members: losing one member loses the volume.

Exit status:
  0  done
  1  an I/O or system error
  2  what was asked for cannot be
  3  in use, owned by another host, or there already
  4  a volume, member, module or superblock is not there
  5  superblocks are damaged or do not belong together
  6  a device holds something; --force overwrites it
  7  not allowed, or read-only

Examples:
  weftctl create data /dev/nvme1n1 /dev/nvme2n1 /dev/nvme3n1 /dev/nvme4n1
  mkfs.xfs /dev/weft/data
  weftctl status data
  weftctl stop data
  weftctl assemble data)";

} // namespace

int main(int argc, char** argv)
{
    CLI::App app{description};
    app.name("weftctl");
    app.footer(footer);
    app.require_subcommand(1);
    app.fallthrough();
    app.set_version_flag("--version", std::string("weftctl ") + WEFT_VERSION);
    bool json = false;
    app.add_flag("--json", json, "print JSON for programs");

    const std::array verbs{weft::add_create(app), weft::add_assemble(app), weft::add_stop(app),
                           weft::add_list(app),   weft::add_status(app),   weft::add_events(app),
                           weft::add_check(app),  weft::add_wipe(app)};
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& problem) {
        const int status = app.exit(problem);
        return status ? static_cast<int>(weft::exit_code::usage) : 0;
    }

    const auto renderer = json ? weft::make_json_renderer() : weft::make_text_renderer();
    for (const auto& verb : verbs) {
        if (!verb.command->parsed())
            continue;
        const auto done = verb.run(*renderer);
        if (done)
            return static_cast<int>(*done);
        renderer->failure(done.error());
        return static_cast<int>(done.error().code);
    }
    return static_cast<int>(weft::exit_code::usage);
}
