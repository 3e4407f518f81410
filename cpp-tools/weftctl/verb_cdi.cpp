// SPDX-License-Identifier: GPL-2.0-only
#include "netlink.hpp"
#include "sysfile.hpp"
#include "to_json.hpp"
#include "verbs.hpp"

#include <cctype>

namespace weft
{

namespace
{

struct cdi_options {
    std::vector<std::string> volumes; ///< all if it is empty
    bool read_only = false;
    std::string output;
};

/// A container runtime takes names that begin and end with a letter or a digit.
bool is_device_name(const std::string& name)
{
    const auto plain = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; };
    return !name.empty() && plain(name.front()) && plain(name.back());
}

result<exit_code> run_cdi(const cdi_options& options, renderer& out)
{
    auto kernel = netlink::open();
    if (!kernel)
        return std::unexpected(kernel.error());
    const auto names = kernel->names(options.volumes);
    if (!names)
        return std::unexpected(names.error());
    if (names->empty())
        return fail(exit_code::missing,
                    "no volume is assembled, and a specification needs at least one device");
    std::vector<volume_status> volumes;
    for (const auto& name : *names) {
        auto volume = kernel->volume(name);
        if (!volume)
            return std::unexpected(volume.error());
        if (!is_device_name(name))
            return fail(exit_code::usage,
                        "a container runtime does not take a device called {}: the name must begin and end "
                        "with a letter or a digit; stop the volume and use 'weftctl rename'",
                        name);
        volume->read_only |= options.read_only;
        volumes.push_back(std::move(*volume));
    }
    if (options.output.empty()) {
        out.cdi(volumes);
        return exit_code::ok;
    }
    // Container runtimes read it, as any user.
    if (auto done = replace_file(options.output, dump(cdi_specification(volumes), 2) + '\n', 0644); !done)
        return std::unexpected(done.error());
    return exit_code::ok;
}

} // namespace

verb add_cdi(CLI::App& app)
{
    auto options = std::make_shared<cdi_options>();
    auto* command = app.add_subcommand("cdi", "print a specification of volumes for container runtimes");
    command->add_option("VOLUME", options->volumes, "names of assembled volumes; default: all");
    command->add_flag("--read-only", options->read_only,
                      "containers may only read, also from a volume that is writable");
    command->add_option(
        "--output", options->output,
        "file to replace, in one step; it is readable by all users. Runtimes look into /etc/cdi and "
        "/var/run/cdi");
    command->footer(
        R"(The specification has the form of the Container Device Interface (CDI). Podman, containerd, CRI-O and Docker read it, some
of them only if CDI is enabled in their configuration. Each volume is a device of the kind weft/volume: the container gets
/dev/weft/NAME, and /dev/weft/NAME.mem for registered memory. If the volume is assembled read-only, the container can only
read.

The device numbers are those of the moment when a container starts: the specification stays right when a volume is stopped
and assembled again. Owner and permissions of the nodes in the container are those that they have on this host when the
specification is written: the user in the container needs the group disk (--group-add with the group's number on this
host). The seccomp profile must allow io_uring (io_uring_setup, io_uring_enter, io_uring_register); the profiles of most
runtimes refuse it. The limit of locked memory (--ulimit memlock) must be as large as the registered memory.

Examples:
  weftctl cdi --output /etc/cdi/weft.json
  weftctl cdi data --read-only)");
    return {command, [options](renderer& out) { return run_cdi(*options, out); }};
}

} // namespace weft
