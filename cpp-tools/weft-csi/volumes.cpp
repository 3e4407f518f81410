// SPDX-License-Identifier: GPL-2.0-only
#include "volumes.hpp"

#include "mounts.hpp"

#include <device.hpp>
#include <fabrics.hpp>
#include <netlink.hpp>
#include <process.hpp>
#include <sysfile.hpp>
#include <volume_file.hpp>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <optional>
#include <ranges>
#include <sys/stat.h>
#include <sys/statvfs.h>

namespace weft
{

namespace
{

namespace fs = std::filesystem;
using grpc::Status;
using grpc::StatusCode;

/// A file for each volume that stage() assembled, with the sequence number of its disk: unstage() stops only
/// these. A boot empties the folder.
const fs::path marks = "/run/weft-csi";

/// For systemd: it unmounts what has this option before it takes the network down, which the last writes
/// need.
constexpr auto of_network = "_netdev";

template <typename... Args>
Status refuse(StatusCode code, fmt::format_string<Args...> text, Args&&... args)
{
    return {code, fmt::format(text, std::forward<Args>(args)...)};
}

Status refuse(const error& problem)
{
    return {StatusCode::INTERNAL, problem.text};
}

std::string device_of(const std::string& name)
{
    return "/dev/weft/" + name;
}

/// The assembled volume; unset if it is not assembled.
result<std::optional<volume_status>> find_volume(const std::string& name)
{
    auto kernel = netlink::open();
    if (!kernel)
        return std::unexpected(kernel.error());
    auto volume = kernel->volume(name);
    if (volume)
        return std::move(*volume);
    if (volume.error().code == exit_code::missing)
        return std::nullopt;
    return std::unexpected(volume.error());
}

StatusCode code_of(int status)
{
    switch (static_cast<exit_code>(status)) {
    case exit_code::usage:
        return StatusCode::INVALID_ARGUMENT;
    case exit_code::busy:
        return StatusCode::FAILED_PRECONDITION;
    case exit_code::missing:
        return StatusCode::NOT_FOUND;
    case exit_code::damaged:
        return StatusCode::DATA_LOSS;
    case exit_code::permission:
        return StatusCode::PERMISSION_DENIED;
    default:
        return StatusCode::INTERNAL;
    }
}

/// Runs weftctl as a process of its own: a signal ends only that process, and it undoes what it has begun.
Status weftctl(std::vector<std::string> arguments, std::string& output)
{
    arguments.insert(arguments.begin(), "weftctl");
    const auto done = run_process(arguments);
    if (done.status == 127)
        return {StatusCode::INTERNAL, "weftctl is not installed: install weft-tools"};
    output = done.output.substr(done.output.starts_with("weftctl: ") ? std::strlen("weftctl: ") : 0);
    output.erase(std::find_if(output.rbegin(), output.rend(), [](char c) { return c != '\n'; }).base(),
                 output.end());
    return done.status ? Status(code_of(done.status), output) : Status::OK;
}

/// How weftctl says that another command has assembled the volume, or is about to.
constexpr std::string_view assembled_before = "is assembled already";

/// The number of an assembled volume's disk: no other one of this boot has it.
std::string sequence_of(const std::string& name)
{
    return read_text("/sys/block/weft!" + name + "/diskseq").value_or("");
}

bool is_marked(const std::string& name)
{
    const auto sequence = sequence_of(name);
    return !sequence.empty() && read_text(marks / name) == sequence;
}

/// Stops a volume if it is this plugin's, and removes its mark.
Status stop_if(bool own, const std::string& name)
{
    std::string output;
    if (own)
        if (auto done = weftctl({"stop", name}, output);
            !done.ok() && done.error_code() != StatusCode::NOT_FOUND)
            return done;
    std::error_code ignored; // a number that is there once says nothing later
    fs::remove(marks / name, ignored);
    return Status::OK;
}

/// Stops a volume, if stage() assembled it.
Status stop_marked(const std::string& name)
{
    return stop_if(is_marked(name), name);
}

/// Assembles a volume that is not, and marks it. The kubelet calls again when a target is not there yet.
Status assemble(const volume_use& use)
{
    std::vector<std::string> arguments{"assemble", use.name};
    if (use.read_only)
        arguments.emplace_back("--read-only");
    if (use.members.empty()) {
        arguments.emplace_back("--saved");
    } else {
        arguments.emplace_back("--");
        for (const auto member : use.members | std::views::split(' '))
            if (!member.empty())
                arguments.emplace_back(member.begin(), member.end());
    }
    std::string output;
    auto done = weftctl(arguments, output);
    const auto sequence = sequence_of(use.name);
    const bool own = !sequence.empty() && has_assembled(done.ok(), output);
    if (own)
        if (const auto marked = replace_file(marks / use.name, sequence, 0600); !marked && done.ok())
            done = refuse(marked.error());
    // Another command was faster. The kubelet calls again, and finds it assembled.
    if (!done.ok() && output.find(assembled_before) != output.npos)
        return {StatusCode::ABORTED, done.error_message()};
    // Also if it has no mark: unstage() would leave it assembled.
    if (!done.ok())
        if (const auto stopped = stop_if(own && sequence_of(use.name) == sequence, use.name); !stopped.ok())
            return {done.error_code(), done.error_message() + "; " + stopped.error_message()};
    return done;
}

/// The devices of a member that is named by a device or a URI, as far as they are there.
std::vector<dev_t> numbers_of(const std::string& member, const std::vector<connection>& links)
{
    std::vector<dev_t> found;
    const auto add = [&found](const std::string& device) {
        if (const auto number = block_number(device))
            found.push_back(*number);
    };
    if (!is_uri(member)) {
        add(member);
        return found;
    }
    const auto uri = parse_member_uri(member);
    for (const auto& link : links)
        if (uri && is_reached_by(link, member))
            for (const auto& disk : link.disks)
                if (disk_nsid(fs::path(disk).filename()) == uri->nsid)
                    add(disk);
    return found;
}

/// Whether the members that are named are those of an assembled volume. One that is not there now says
/// nothing.
Status check_members(const volume_use& use, const volume_status& volume)
{
    std::vector<dev_t> paths;
    for (const auto& member : volume.members)
        for (const auto& path : member.paths)
            for (const auto& device : {path.address, "/dev/" + path.disk})
                if (const auto number = block_number(device))
                    paths.push_back(*number);
    const auto links = connections();
    bool any = false;
    for (const auto word : use.members | std::views::split(' ')) {
        const std::string member(word.begin(), word.end());
        const auto numbers = member.empty() ? std::vector<dev_t>() : numbers_of(member, links);
        for (const auto number : numbers)
            if (std::ranges::find(paths, number) == paths.end())
                return refuse(StatusCode::FAILED_PRECONDITION,
                              "another volume called {} is assembled on this host, without the member {}; "
                              "stop it, or correct the members",
                              use.name, member);
        any |= !numbers.empty();
    }
    return any ? Status::OK
               : refuse(StatusCode::FAILED_PRECONDITION,
                        "a volume called {} is assembled on this host, and none of the members {} is "
                        "available, so it may be another volume",
                        use.name, use.members);
}

/// Whether an assembled volume can be used so.
Status check_volume(const volume_use& use, const volume_status& volume)
{
    if (volume.state != "live")
        return refuse(StatusCode::UNAVAILABLE, "volume {} is {}", use.name, volume.state);
    if (volume.read_only && !use.read_only)
        return refuse(StatusCode::FAILED_PRECONDITION,
                      "volume {} is assembled read-only on this host: stop it and check read_only in its "
                      "file, or use MULTI_NODE_READER_ONLY",
                      use.name);
    // A filesystem can be mounted read-only.
    if (use.block && use.read_only && !volume.read_only)
        return refuse(
            StatusCode::FAILED_PRECONDITION,
            "volume {} is assembled writable on this host, and its device cannot be published read-only",
            use.name);
    if (!use.members.empty())
        return check_members(use, volume);
    const auto file = load_volume_file(use.name);
    if (!file && file.error().code != exit_code::missing)
        return refuse(file.error());
    if (file && !file->uuid.empty() && file->uuid != volume.uuid)
        return refuse(StatusCode::FAILED_PRECONDITION,
                      "volume {} on this host has the UUID {}, and its file has {}: correct one of the two",
                      use.name, volume.uuid, file->uuid);
    return Status::OK;
}

/// Whether the filesystem that is mounted at a path is on this volume.
bool is_of(const std::optional<mount_point>& mounted, const std::string& device)
{
    return mounted && block_number(device) == mounted->device;
}

/// Whether a mount is a device of the volume's that was bound: a node of the filesystem of all devices. It
/// was removed, and the volume may have another one since.
bool was_bound(const mount_point& mounted, const std::string& name)
{
    return mounted.root == "/weft/" + name + "//deleted";
}

/// Whether a mount is the volume's, whose device is gone.
bool was_of(const mount_point& mounted, const std::string& name)
{
    return mounted.source == device_of(name) || mounted.root == "/weft/" + name;
}

/// Whether a path is the volume's device.
bool is_device(const std::string& path, const std::string& device)
{
    const auto number = block_number(path);
    return number && number == block_number(device);
}

/// Unmounts the volume at a path, as often as it is mounted there.
Status unmount(const std::string& name, const std::string& path)
{
    const auto device = device_of(name);
    for (;;) {
        const auto top = mounted_at(path);
        if (!top)
            return refuse(top.error());
        if (!*top)
            return Status::OK;
        // The device may be gone, and its mount is still there.
        if (!is_of(*top, device) && !is_device(path, device) && !was_bound(**top, name) &&
            (fs::exists(device) || !was_of(**top, name)))
            return refuse(StatusCode::FAILED_PRECONDITION,
                          "the mount at {} is not of volume {}: it stays mounted", path, name);
        if (const auto done = unmount_top(path); !done)
            return {done.error().code == exit_code::busy ? StatusCode::FAILED_PRECONDITION
                                                         : StatusCode::INTERNAL,
                    done.error().text};
    }
}

std::string options_of(const volume_use& use)
{
    auto flags = use.flags;
    flags.emplace_back(of_network);
    if (use.read_only)
        flags.emplace_back("ro");
    return fmt::format("{}", fmt::join(flags, ","));
}

/// The type of the filesystem on a device.
Status filesystem_of(const volume_use& use, std::string& type)
{
    const auto device = block_device::open(device_of(use.name), block_device::access::read);
    if (!device)
        return refuse(device.error());
    const auto content = device->content();
    if (!content)
        return refuse(content.error());
    constexpr std::string_view kind = " filesystem";
    if (!*content)
        return refuse(
            StatusCode::FAILED_PRECONDITION,
            "volume {} has no filesystem; make one on the host that has it assembled writable: mkfs.xfs {}",
            use.name, device_of(use.name));
    type = content->value();
    if (!type.ends_with(kind))
        return refuse(StatusCode::FAILED_PRECONDITION, "volume {} has no filesystem, but {}", use.name, type);
    type.resize(type.size() - kind.size());
    // Its mounts do not say which device they are of.
    if (type == "btrfs")
        return refuse(StatusCode::FAILED_PRECONDITION,
                      "volume {} has btrfs, which weft-csi does not mount: use xfs or ext4", use.name);
    if (!use.filesystem.empty() && use.filesystem != type)
        return refuse(StatusCode::FAILED_PRECONDITION, "volume {} has the filesystem {}, not {}", use.name,
                      type, use.filesystem);
    return Status::OK;
}

Status mount_volume(const volume_use& use, const std::string& staging)
{
    const auto device = device_of(use.name);
    const auto mounted = mounted_at(staging);
    if (!mounted)
        return refuse(mounted.error());
    if (*mounted && !is_of(*mounted, device))
        return refuse(StatusCode::ALREADY_EXISTS, "another filesystem is mounted at {}", staging);
    const auto options = options_of(use);
    const bool read_only = says_read_only(options);
    if (*mounted)
        return (*mounted)->read_only == read_only
                   ? Status::OK
                   : refuse(StatusCode::ALREADY_EXISTS, "{} is mounted {}", staging,
                            read_only ? "writable, and should be read-only"
                                      : "read-only, and should be writable");
    std::string type;
    if (auto done = filesystem_of(use, type); !done.ok())
        return done;
    if (const auto done = mount_filesystem(device, staging, type, options); !done)
        return refuse(done.error());
    return Status::OK;
}

/// Makes what is mounted over: a folder, or a file for a device.
Status make_target(const std::string& target, bool block)
{
    const int done = block ? ::open(target.c_str(), O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_RDONLY, 0600)
                           : ::mkdir(target.c_str(), 0750);
    if (done < 0 && errno != EEXIST)
        return refuse(StatusCode::INTERNAL, "{} cannot be made: {}", target, std::strerror(errno));
    if (block)
        const OwnedFd closes(done);
    return Status::OK;
}

Status remove_target(const std::string& target)
{
    struct stat at {
    };
    if (::lstat(target.c_str(), &at))
        return errno == ENOENT ? Status::OK
                               : refuse(StatusCode::INTERNAL, "{}: {}", target, std::strerror(errno));
    // Only what make_target() makes: no data is removed, whatever the path is.
    const bool ours = S_ISDIR(at.st_mode) || (S_ISREG(at.st_mode) && !at.st_size);
    if (!ours)
        return refuse(StatusCode::INTERNAL, "{} is not what weft-csi published, and stays", target);
    if (S_ISDIR(at.st_mode) ? ::rmdir(target.c_str()) : ::unlink(target.c_str()))
        return refuse(StatusCode::INTERNAL, "{} cannot be removed: {}", target, std::strerror(errno));
    return Status::OK;
}

/// The reason why a volume does not work as it should; empty if it works.
std::string problem_of(const volume_status& volume)
{
    if (volume.state == "failed")
        return fmt::format("volume {} has lost a member, and I/O to that member fails", volume.name);
    if (!volume.read_only && volume.ownership != "held")
        return fmt::format("volume {}: its writes wait or fail, because its ownership is {}", volume.name,
                           volume.ownership);
    for (const auto& member : volume.members) {
        const auto usable = std::ranges::count_if(member.paths, &path_status::usable);
        // A target may say that a path is for when another one fails.
        const auto standby = std::ranges::count_if(
            member.paths, [](const auto& path) { return !path.usable && !is_accessible(path.ana_state); });
        if (!usable || usable + standby < std::ssize(member.paths))
            return fmt::format("volume {}: member {} has {} of {} paths", volume.name, member.index, usable,
                               member.paths.size());
    }
    return {};
}

} // namespace

bool has_assembled(bool succeeded, std::string_view output)
{
    // A failure after the assembly leaves the volume assembled.
    return succeeded ? output.find(assembled_before) == output.npos
                     : output.find("is assembled, but") != output.npos;
}

Status stage(const volume_use& use, const std::string& staging)
{
    auto volume = find_volume(use.name);
    if (!volume)
        return refuse(volume.error());
    const bool assembling = !*volume;
    if (assembling) {
        if (auto done = assemble(use); !done.ok())
            return done;
        volume = find_volume(use.name);
        if (!volume || !*volume)
            return refuse(StatusCode::UNAVAILABLE,
                          "volume {} was assembled, and then another command stopped it", use.name);
    }
    auto done = check_volume(use, **volume);
    if (done.ok() && !use.block)
        done = mount_volume(use, staging);
    if (!done.ok() && assembling)
        if (const auto stopped = stop_marked(use.name); !stopped.ok())
            return {done.error_code(), done.error_message() + "; " + stopped.error_message()};
    return done;
}

Status unstage(const std::string& name, const std::string& staging)
{
    if (auto done = unmount(name, staging); !done.ok())
        return done;
    return stop_marked(name);
}

Status publish(const volume_use& use, const std::string& staging, const std::string& target, bool read_only)
{
    const auto device = device_of(use.name);
    const auto volume = find_volume(use.name);
    const auto staged = mounted_at(staging);
    const auto mounted = mounted_at(target);
    if (!volume)
        return refuse(volume.error());
    if (!staged || !mounted)
        return refuse((!staged ? staged : mounted).error());
    if (!*volume || (!use.block && !is_of(*staged, device)))
        return refuse(StatusCode::FAILED_PRECONDITION, "volume {} is not staged at {}", use.name, staging);
    if (auto fits = check_volume(use, **volume); !fits.ok())
        return fits;
    // A device that is mounted read-only can be written.
    if (use.block && read_only && !use.read_only)
        return refuse(StatusCode::INVALID_ARGUMENT,
                      "a device of a volume that this host writes cannot be published read-only: use "
                      "MULTI_NODE_READER_ONLY, or a filesystem");
    if (*mounted) {
        const bool same = use.block ? is_device(target, device)
                                    : is_of(*mounted, device) &&
                                          (*mounted)->read_only == (read_only || (*staged)->read_only);
        return same ? Status::OK
                    : refuse(StatusCode::ALREADY_EXISTS, "another filesystem or device is mounted at {}",
                             target);
    }
    if (auto done = make_target(target, use.block); !done.ok())
        return done;
    // A filesystem stays until its last mount is gone. The node of a device is on no volume.
    const std::string options = use.block ? "" : fmt::format("{}{}", of_network, read_only ? ",ro" : "");
    if (const auto done = mount_bind(use.block ? device : staging, target, options); !done) {
        const auto undone = unpublish(use.name, target);
        return refuse(StatusCode::INTERNAL, "{}{}", done.error().text,
                      undone.ok() ? "" : "; " + undone.error_message());
    }
    return Status::OK;
}

Status unpublish(const std::string& name, const std::string& target)
{
    if (auto done = unmount(name, target); !done.ok())
        return done;
    return remove_target(target);
}

Status measure(const std::string& name, const std::string& path, volume_usage& usage)
{
    const auto volume = find_volume(name);
    if (!volume)
        return refuse(volume.error());
    const auto mounted = mounted_at(path);
    if (!mounted)
        return refuse(mounted.error());
    usage.block = *volume && is_device(path, device_of(name));
    if (!*volume || (!usage.block && !is_of(*mounted, device_of(name))))
        return refuse(StatusCode::NOT_FOUND, "volume {} is not at {}", name, path);
    usage.problem = problem_of(**volume);
    usage.counted = true;
    if (usage.block) {
        usage.bytes.total = static_cast<std::int64_t>((*volume)->size);
        return Status::OK;
    }
    struct stat folder {
    };
    struct statvfs is {
    };
    usage.counted = !::statvfs(path.c_str(), &is);
    // XFS counts also after it has shut down.
    if ((!usage.counted || ::stat(path.c_str(), &folder)) && usage.problem.empty())
        usage.problem = fmt::format("the filesystem of volume {} has failed: {}", name, std::strerror(errno));
    if (!usage.counted)
        return Status::OK;
    const auto bytes = [&is](fsblkcnt_t blocks) { return static_cast<std::int64_t>(blocks * is.f_frsize); };
    usage.bytes = {bytes(is.f_bavail), bytes(is.f_blocks), bytes(is.f_blocks - is.f_bfree)};
    usage.inodes = {static_cast<std::int64_t>(is.f_favail), static_cast<std::int64_t>(is.f_files),
                    static_cast<std::int64_t>(is.f_files - is.f_ffree)};
    return Status::OK;
}

Status probe()
{
    const auto kernel = netlink::open();
    return kernel ? Status::OK : Status(StatusCode::FAILED_PRECONDITION, kernel.error().text);
}

} // namespace weft
