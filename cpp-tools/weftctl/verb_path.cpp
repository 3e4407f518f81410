// SPDX-License-Identifier: GPL-2.0-only
#include "netlink.hpp"
#include "path_adding.hpp"
#include "path_follow.hpp"
#include "sysfile.hpp"
#include "verbs.hpp"
#include "volume_file.hpp"
#include "waiting.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace weft
{

namespace
{

struct path_options {
    std::string volume;
    std::vector<std::string> paths;
    std::string policy;
    bool dry_run = false;
    connect_options connecting;
};

/// Finds a path by its disk, with or without /dev/, or by the URI it was connected with.
bool is_named(const path_status& path, const std::string& name, const std::vector<connection>& links)
{
    if (name == path.disk || name == "/dev/" + path.disk || name == path.address)
        return true;
    const auto uri = parse_member_uri(name);
    return uri && disk_nsid(path.disk) == uri->nsid &&
           std::any_of(links.begin(), links.end(), [&](const auto& link) {
               return link.controller == path.controller && is_reached_by(link, name);
           });
}

result<void> remove_one(netlink& kernel, const volume_status& volume, const std::string& name, bool dry_run)
{
    const auto links = connections();
    std::vector<std::pair<std::uint32_t, std::string>> named;
    for (const auto& member : volume.members)
        for (const auto& path : member.paths)
            if (is_named(path, name, links))
                named.emplace_back(member.index, path.disk);
    if (named.empty())
        return fail(exit_code::missing, "volume {} has no path {}; 'weftctl status {}' lists them",
                    volume.name, name, volume.name);
    if (named.size() > 1)
        return fail(exit_code::usage, "{} names {} paths of volume {}, {} and {} among them; name the disk",
                    name, named.size(), volume.name, named[0].second, named[1].second);
    const waiting telling(fmt::format("removing {}: waiting for its last I/O", name));
    return dry_run ? result<void>() : kernel.remove_path(volume.name, named[0].first, named[0].second);
}

result<void> remove_paths(netlink& kernel, const volume_status& volume, const path_options& options,
                          std::vector<action>& actions)
{
    for (const auto& name : options.paths) {
        if (auto done = remove_one(kernel, volume, name, options.dry_run); !done)
            return done;
        actions.push_back({"path remove", options.volume,
                           fmt::format("{} is removed from the paths of {}", name, options.volume),
                           options.dry_run});
    }
    return {};
}

/// Writes the kernel's attribute, which checks the name; the names are those of the stock host's multipath.
result<void> set_iopolicy(netlink& /*kernel*/, const volume_status& volume, const path_options& options,
                          std::vector<action>& actions)
{
    const auto& policy = options.policy;
    const int status =
        options.dry_run ? 0 : write_attribute("/sys/block/weft!" + volume.name + "/weft/iopolicy", policy);
    if (status == -EACCES)
        return fail(exit_code::permission, "volume {}: only root may set how I/O is spread over paths",
                    volume.name);
    if (status)
        return fail(exit_code::failure, "volume {}: the policy {} cannot be set: {}", volume.name, policy,
                    std::strerror(-status));
    actions.push_back({"path iopolicy", volume.name,
                       fmt::format("{} takes its paths by {}", volume.name, policy), options.dry_run});
    return {};
}

result<void> add_named(netlink& kernel, const volume_status& volume, const path_options& options,
                       std::vector<action>& actions)
{
    return add_paths(kernel, volume, options.paths, options.connecting, options.dry_run, actions);
}

result<exit_code> run_follow(follow_options& options, renderer& out)
{
    if (options.saved != options.services.empty())
        return fail(exit_code::usage,
                    "volume {} needs a discovery service to follow: name one, or use --saved",
                    options.volume);
    if (options.saved) {
        if (auto none = refuse_with_saved(options.connecting); !none)
            return std::unexpected(none.error());
        auto file = load_volume_file(options.volume);
        if (!file)
            return std::unexpected(file.error());
        if (file->follow.empty())
            return fail(exit_code::usage,
                        "{} names no discovery service: add follow = [ \"rdma://ADDRESS:PORT\", ... ]",
                        volume_file_path(options.volume).string());
        options.services = std::move(file->follow);
        options.connecting = std::move(file->connect);
    }
    return follow_paths(options, out);
}

using change = result<void>(netlink&, const volume_status&, const path_options&, std::vector<action>&);

/// Applies the change to the volume; without a change, shows the volume's paths.
result<exit_code> run_path(const path_options& options, change* apply, renderer& out)
{
    auto kernel = netlink::open();
    if (!kernel)
        return std::unexpected(kernel.error());
    const auto volume = kernel->volume(options.volume);
    if (!volume)
        return std::unexpected(volume.error());
    if (!apply) {
        out.paths(*volume);
        return exit_code::ok;
    }
    std::vector<action> actions;
    if (auto done = apply(*kernel, *volume, options, actions); !done)
        return std::unexpected(done.error());
    out.actions(actions);
    return exit_code::ok;
}

void add_arguments(CLI::App& command, path_options& options, const char* what)
{
    command.add_option("VOLUME", options.volume, "name of an assembled volume")->required();
    command.add_option("PATH", options.paths, what)->required();
}

} // namespace

verb add_path(CLI::App& app)
{
    auto options = std::make_shared<path_options>();
    auto* command = app.add_subcommand("path", "list the paths to a volume's members, add and remove them");
    auto* list = command->add_subcommand("list", "show each path with its state and its counters");
    list->add_option("VOLUME", options->volume, "name of an assembled volume")->required();
    auto* add = command->add_subcommand("add", "add a path to a member");
    add_arguments(*add, *options, "rdma://ADDRESS[:PORT]/SUBNQN[?ns=1], or a disk that is connected already");
    add_connect_options(*add, options->connecting);
    auto* remove = command->add_subcommand("remove", "remove a path from a member");
    add_arguments(*remove, *options, "URIs, or disks as 'weftctl status' shows them");
    auto* iopolicy = command->add_subcommand("iopolicy", "set which of several paths I/O takes");
    iopolicy->add_option("VOLUME", options->volume, "name of an assembled volume")->required();
    iopolicy
        ->add_option("POLICY", options->policy,
                     "round-robin: all in turn; numa: those whose RDMA device is nearest to the processor")
        ->required()
        ->check(CLI::IsMember({"round-robin", "numa"}));
    auto following = std::make_shared<follow_options>();
    auto* follow = command->add_subcommand("follow", "add the paths that targets announce, as they appear");
    follow->add_option("VOLUME", following->volume, "name of an assembled volume")->required();
    follow->add_option("SERVICE", following->services,
                       "rdma://ADDRESS[:PORT] of a discovery service; each port of a target has one");
    follow->add_flag("--saved", following->saved,
                     "use the services and connect options in /etc/weft/volumes/VOLUME.toml");
    auto* once =
        follow->add_flag("--once", following->once, "add the paths that are announced now, and exit");
    follow
        ->add_flag("--dry-run", following->dry_run,
                   "with --once: print the paths that it would add, and add none")
        ->needs(once);
    add_connect_options(*follow, following->connecting);
    for (auto* one : {add, remove, iopolicy})
        one->add_flag("--dry-run", options->dry_run, "check, say what would be done, change nothing");
    command->require_subcommand(1);
    command->footer(
        R"(A member can have up to eight paths. weft reads the superblock of a path's disk to learn to which member it leads.
If the ANA state of the path lets no I/O through, weft compares the disk's identifier (UUID, NGUID or EUI-64) instead,
and reads the superblock when the path is accessible. I/O takes a member's paths in turn, or with iopolicy numa the
nearest ones in turn. When a path is lost, I/O continues on the others at once. If weft sends a write again, other
writes to the same bytes wait until the target cannot execute the first copy any more. With the last path lost, I/O
waits no_path_timeout seconds (/sys/block/weft!NAME/weft/no_path_timeout; 600, -1 for ever) and then fails.

A target can report by ANA how well it reaches a namespace by a path. I/O takes a non-optimized path only while
the member has no optimized one. A path whose state is inaccessible or change is not used until that is over;
when a change takes longer than the target's ANATT, weft ends the association. Persistent loss removes the disk.

'follow' is for members by rdma:// and weft's own initiator. It keeps a connection of the stock host to each discovery
service, and adds each address at which a service announces the subsystem of a member. A service reports each change
by an event. A service that cannot be reached is tried again. 'follow' ends at a signal, or when the volume is
stopped. A path that you remove stays away until its target stops and starts to announce it, or until 'follow' is
started again: stop weft-follow@NAME while a rail is out of service.
weft-follow@NAME.service does this with --saved; the file of the volume then has a line such as
follow = [ "rdma://10.0.0.1:4420" ].

Examples:
  weftctl path list data
  weftctl path add data rdma://10.1.0.1/nqn.2014-08.org.example:a
  weftctl path iopolicy data numa
  weftctl path follow data rdma://10.0.0.1 rdma://10.1.0.1 --once
  weftctl path remove data rdma://10.1.0.1/nqn.2014-08.org.example:a)");
    return {command, [options, following, follow, add, iopolicy, list](renderer& out) {
                if (follow->parsed())
                    return run_follow(*following, out);
                return run_path(*options,
                                list->parsed()       ? nullptr
                                : iopolicy->parsed() ? set_iopolicy
                                : add->parsed()      ? add_named
                                                     : remove_paths,
                                out);
            }};
}

} // namespace weft
