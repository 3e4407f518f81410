// SPDX-License-Identifier: GPL-2.0-only
#include "connect_keys.hpp"
#include "device.hpp"
#include "exports.hpp"
#include "fabrics.hpp"
#include "host.hpp"
#include "netlink.hpp"
#include "sysfile.hpp"
#include "tls.hpp"
#include "verbs.hpp"
#include "volume_file.hpp"

#include <algorithm>
#include <filesystem>

namespace weft
{

namespace
{

namespace fs = std::filesystem;

struct save_options {
    std::vector<std::string> names;
    std::string dhchap_secret_file, dhchap_ctrl_secret_file, tls_key_file;
    bool dry_run = false;
};

std::optional<int> unless_negative(std::optional<int> number)
{
    return number && *number < 0 ? std::nullopt : number;
}

std::optional<int> unless_zero(std::optional<int> number)
{
    return number && *number == 0 ? std::nullopt : number;
}

/// The options that a controller was connected with, from its attributes. The stock host does not tell its
/// numbers of queues.
connect_options options_of(const connection& link)
{
    const bool own = link.initiator == "weft";
    const fs::path folder = fs::path(own ? "/sys/class/weft-rdma" : "/sys/class/nvme") / link.controller;
    connect_options options;
    // A target may admit only this name. A name that this host has anyway stays out of the file.
    const auto nqn = read_text(folder / "hostnqn").value_or("");
    if (nqn != host_nqn().value_or("")) {
        options.host_nqn = nqn;
        options.host_id = read_text(folder / "hostid").value_or("");
    }
    options.host_address = link.host_address;
    options.keep_alive = unless_zero(read_number<int>(folder / "kato"));
    options.reconnect_delay = unless_zero(read_number<int>(folder / "reconnect_delay"));
    // The stock host's is a multiple of its reconnect delay, and may be longer than a file may say.
    options.ctrl_loss_timeout =
        std::min(read_number<int>(folder / "ctrl_loss_tmo").value_or(-1), ctrl_loss_timeout_most);
    options.fast_io_fail_timeout = unless_negative(read_number<int>(folder / "fast_io_fail_tmo"));
    if (!own) {
        options.host_interface = link.host_interface;
        if (link.at.transport == "rdma")
            options.initiator = "nvme";
        return options;
    }
    options.queues = read_number<int>(folder / "io_queues");
    options.poll_queues = unless_zero(read_number<int>(folder / "poll_queues"));
    options.queue_depth = read_number<int>(folder / "queue_size");
    options.tos = unless_negative(read_number<int>(folder / "tos"));
    options.background_tos = unless_negative(read_number<int>(folder / "background_tos"));
    return options;
}

/// The device that the kernel was given, if it still is that disk or a partition of it; otherwise the disk.
std::string device_of(const path_status& path)
{
    std::error_code ignored;
    const auto given = fs::canonical(path.address, ignored);
    const bool is_it = fs::is_block_file(given, ignored) && disk_name(given) == path.disk;
    return stable_path(is_it ? given.string() : "/dev/" + path.disk);
}

/// A path by URI for each controller that leads to the disk: the stock host has several below one disk. A
/// partition has no URI.
result<std::vector<member_path>> paths_of(const path_status& path, const std::vector<connection>& links)
{
    std::error_code ignored;
    if (!fs::exists(fs::path("/sys/class/block") / path.disk, ignored))
        return fail(exit_code::missing,
                    "its path {} is gone, and its address with it; add the path again by its URI, or "
                    "remove the path by 'weftctl path remove'",
                    path.disk);
    std::vector<member_path> found;
    const auto device = device_of(path);
    if (fs::exists(fs::path("/sys/class/block") / fs::canonical(device, ignored).filename() / "partition",
                   ignored))
        return std::vector<member_path>{{device, {}}};
    const auto nsid = disk_nsid(path.disk);
    for (const auto& link : links)
        // Another program may have connected an address that no URI can say, such as one with a zone.
        if (nsid && check_address(link.at.address) &&
            std::ranges::find(link.disks, "/dev/" + path.disk) != link.disks.end())
            found.push_back({member_uri{link.at, link.subnqn, *nsid}.text(), options_of(link)});
    if (found.empty())
        found.push_back({device, {}});
    return found;
}

/// A boot has to find the secrets with which a controller is connected.
result<void> check_secrets(const std::string& volume, const connection& link, const connect_options& options)
{
    const auto is_proven = authentication_of(link);
    struct need {
        bool is_there;
        const std::string& file;
        const char* usual;
        std::string who;
    };
    for (const auto& [is_there, file, usual, who] :
         {need{is_proven.host, options.dhchap_secret_file, usual_dhchap_secret, link.controller},
          need{is_proven.target, options.dhchap_ctrl_secret_file, usual_dhchap_ctrl_secret,
               "the target of " + link.controller}}) {
        std::error_code ignored;
        if (is_there && file.empty() && !fs::exists(usual, ignored))
            return fail(exit_code::usage,
                        "volume {} cannot be saved: {} authenticates, and a boot would not find its secret; "
                        "put it into {}",
                        volume, who, usual);
    }
    return {};
}

/// A key makes TLS a condition, so the user names it: no file is taken by itself.
result<void> check_tls_key(const std::string& volume, const connection& link, const std::string& key_file)
{
    if (!is_encrypted(link) || !key_file.empty())
        return {};
    return fail(exit_code::usage,
                "volume {} cannot be saved: {} has TLS, and a boot would not find its key: 'weftctl save {} "
                "--tls-key-file FILE' names it",
                volume, link.controller, volume);
}

/// Whether two texts name one path: rdma://10.0.0.1/NQN is rdma://10.0.0.1:4420/NQN.
bool is_same_place(const std::string& one, const std::string& other)
{
    if (is_uri(one) && is_uri(other)) {
        const auto first = parse_member_uri(one);
        const auto second = parse_member_uri(other);
        return first && second && first->text() == second->text();
    }
    const auto number = block_number(one);
    return one == other || (number && number == block_number(other));
}

/// What the kernel does not know stays as the file has it that is replaced: which discovery services the
/// volume follows and how they are connected, and which files have the secrets. Without a file, these are the
/// usual ones. Adds to `left_out` the paths that the file had and the volume has not.
result<void> keep_what_was_written(volume_file& file, const std::vector<connection>& links,
                                   const save_options& options, std::vector<std::string>& left_out)
{
    const auto before = load_volume_file(file.name);
    // Its contents would be lost.
    if (!before && before.error().code != exit_code::missing)
        return fail(before.error().code, "{}; correct or remove it first", before.error().text);
    bool encrypted = false;
    if (before) {
        file.follow = before->follow;
        file.connect = before->connect;
    }
    for (auto& path : file.paths) {
        for (const auto& old : before ? before->paths : std::vector<member_path>())
            if (is_same_place(old.at, path.at)) {
                path.options.dhchap_secret_file = old.options.dhchap_secret_file;
                path.options.dhchap_ctrl_secret_file = old.options.dhchap_ctrl_secret_file;
                path.options.tls_key_file = old.options.tls_key_file;
            }
        for (const auto& link : links) {
            if (!is_reached_by(link, path.at))
                continue;
            if (is_encrypted(link) && path.options.tls_key_file.empty())
                path.options.tls_key_file = options.tls_key_file;
            const auto is_proven = authentication_of(link);
            if (is_proven.host && !options.dhchap_secret_file.empty())
                path.options.dhchap_secret_file = options.dhchap_secret_file;
            if (is_proven.target && !options.dhchap_ctrl_secret_file.empty())
                path.options.dhchap_ctrl_secret_file = options.dhchap_ctrl_secret_file;
            auto good = check_secrets(file.name, link, path.options);
            if (good)
                good = check_tls_key(file.name, link, path.options.tls_key_file);
            if (!good)
                return good;
        }
        encrypted |= !path.options.tls_key_file.empty();
    }
    if (!encrypted && !options.tls_key_file.empty())
        return fail(exit_code::usage,
                    "no member of volume {} is connected by TLS: save it without --tls-key-file", file.name);
    for (const auto& old : before ? before->paths : std::vector<member_path>())
        if (std::ranges::none_of(file.paths,
                                 [&](const member_path& path) { return is_same_place(old.at, path.at); }))
            left_out.push_back(old.at);
    return {};
}

result<volume_file> describe(netlink& kernel, const std::string& name, const save_options& options,
                             std::vector<std::string>& left_out)
{
    const auto volume = kernel.volume(name);
    if (!volume)
        return std::unexpected(volume.error());
    const auto qos = kernel.qos(name, 0);
    if (!qos)
        return std::unexpected(qos.error());
    volume_file file;
    file.name = name;
    file.uuid = volume->uuid;
    file.read_only = volume->read_only;
    file.iostats = volume->iostats;
    file.iopolicy = volume->iopolicy;
    file.no_path_timeout = read_number<int>("/sys/block/weft!" + name + "/weft/no_path_timeout");
    if (qos->on)
        file.qos = words_of(*qos);
    const auto links = connections();
    for (const auto& member : volume->members)
        for (const auto& path : member.paths)
            if (auto found = paths_of(path, links); found)
                std::ranges::move(*found, std::back_inserter(file.paths));
            else
                return fail(found.error().code, "volume {} cannot be saved: {}", name, found.error().text);
    if (auto done = keep_what_was_written(file, links, options, left_out); !done)
        return std::unexpected(done.error());
    return file;
}

result<exit_code> run_save(save_options options, renderer& out)
{
    auto kernel = netlink::open();
    if (!kernel)
        return std::unexpected(kernel.error());
    std::vector<action> actions;
    // A boot must not be the first to find out.
    if (!options.tls_key_file.empty())
        if (const auto key = read_tls_key(options.tls_key_file); !key)
            return std::unexpected(key.error());
    for (auto* file : {&options.tls_key_file, &options.dhchap_secret_file, &options.dhchap_ctrl_secret_file})
        *file = full_name(*file);
    if (const auto secrets = read_dhchap_secrets(options.dhchap_secret_file, options.dhchap_ctrl_secret_file);
        !secrets)
        return std::unexpected(secrets.error());
    for (const auto& name : options.names) {
        std::vector<std::string> left_out;
        const auto file = describe(*kernel, name, options, left_out);
        if (!file)
            return std::unexpected(file.error());
        const auto path = volume_file_path(name);
        const auto text = format_volume_file(*file);
        // A boot must not be the first to find out.
        if (auto good = parse_volume_file(text, name, path.string()); !good)
            return fail(
                good.error().code,
                "volume {} cannot be saved, because a volume file cannot hold one of its settings: {}", name,
                good.error().text);
        if (!options.dry_run)
            if (auto done = replace_file(path, text); !done)
                return std::unexpected(done.error());
        actions.push_back({"save", name,
                           fmt::format("saved volume {0} as {1}; 'systemctl enable weft-assemble@{0}' "
                                       "assembles it at boot",
                                       name, path.string()),
                           options.dry_run});
        for (const auto& at : left_out)
            actions.push_back({"save", name,
                               fmt::format("the file had the path {}, which volume {} has not now; save the "
                                           "volume again when it has it",
                                           at, name),
                               options.dry_run, false});
    }
    out.actions(actions);
    return exit_code::ok;
}

} // namespace

verb add_save(CLI::App& app)
{
    auto options = std::make_shared<save_options>();
    auto* command = app.add_subcommand(
        "save", "write the configuration of an assembled volume to a file, for the next boot");
    command->add_option("NAME", options->names, "names of assembled volumes")->required();
    command->add_option("--dhchap-secret-file", options->dhchap_secret_file,
                        "file with this host's secret for members that authenticate; default: the file that "
                        "the volume's file names, or else /etc/weft/dhchap-secret");
    command->add_option(
        "--dhchap-ctrl-secret-file", options->dhchap_ctrl_secret_file,
        "file with the targets' secret, for a host that authenticates its targets; default likewise");
    command->add_option("--tls-key-file", options->tls_key_file,
                        "file with the key of members that are connected by TLS; default: the file that the "
                        "volume's file names");
    command->add_flag("--dry-run", options->dry_run, "say what would be written, and write nothing");
    command->footer(
        R"(Writes /etc/weft/volumes/NAME.toml: all paths to all members with their connect options, whether the
volume is read-only and counts its I/O, iopolicy, no_path_timeout, and the QoS settings. 'weftctl assemble NAME --saved'
assembles the volume from it, and so does weft-assemble@NAME.service at boot. For members by the stock host (tcp://, --transport nvme), weftctl
cannot read queues, queue_depth and tos: add them to the file after each 'save'. You can edit the file; 'weftctl config
check' checks it:

  uuid = "2c9a6b6e-6c4e-4f0e-9d5b-0d6a4f0a7b11"
  members = [
      "rdma://10.0.0.1/nqn.2014-08.org.example:a",
      { at = "rdma://10.1.0.1/nqn.2014-08.org.example:a", host_address = "10.1.0.9" },
      "/dev/disk/by-id/nvme-eui.0025388b710116a1",
  ]
  no_path_timeout = 600

  [connect]
  keep_alive = 5

  [qos]
  feed_latency = "500us"

The keys of [connect] are the connect options of weftctl-assemble(8) and those of [qos] the options of weftctl-qos(8), with '_'
for '-'. A member with options of its own is a table. Above the first table the file may also have read_only = true,
iostats = false, iopolicy = "numa", and follow = [ "rdma://10.0.0.1:4420" ] for weft-follow@NAME.service.

A filesystem with these options in /etc/fstab is mounted as soon as the volume is assembled, even late, and is unmounted
before the service stops the volume. 'systemd-escape --path /dev/weft/NAME' prints the name of its device unit:

  _netdev,nofail,x-systemd.requires=weft-assemble@data.service,x-systemd.wanted-by=dev-weft-data.device

Examples:
  weftctl save data
  systemctl enable weft-assemble@data)");
    return {command, [options](renderer& out) { return run_save(*options, out); }};
}

} // namespace weft
