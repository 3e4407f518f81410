// SPDX-License-Identifier: GPL-2.0-only
/// weftctl assemble --saved: a volume as its file describes it.
#include "awaited.hpp"
#include "device.hpp"
#include "member_links.hpp"
#include "members.hpp"
#include "netlink.hpp"
#include "notify.hpp"
#include "path_adding.hpp"
#include "process.hpp"
#include "sysfile.hpp"
#include "verbs.hpp"
#include "volume_file.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>

namespace weft
{

namespace
{

/// One try after the other to bring a volume up as its file says.
class saved_assembly
{
public:
    saved_assembly(volume_file file, const assemble_options& options, bool dry_run)
        : file_(std::move(file)), options_(options), dry_run_(dry_run), wanted_(file_.paths)
    {
        options_.read_only |= file_.read_only;
        options_.no_iostats |= !file_.iostats;
        // The name that claims the volume is the one that its targets know.
        for (const auto& path : file_.paths)
            if (options_.host_nqn.empty())
                options_.host_nqn = path.options.host_nqn;
    }

    /// Assembles the volume if it is not, sets it up, and adds the paths that it lacks. While it is not
    /// assembled, a failure is an error. Afterwards, lack() returns the failure.
    [[nodiscard]] result<void> attempt();
    [[nodiscard]] bool is_up() const { return up_; }
    [[nodiscard]] bool is_set_up() const { return set_up_; }
    /// Sentences about what the last attempt did not reach; empty if it reached everything.
    [[nodiscard]] std::string lack() const;
    /// What was done, and what is lacking.
    [[nodiscard]] std::vector<action> actions() const;

private:
    [[nodiscard]] result<void> try_once();
    [[nodiscard]] result<void> tell_failure(netlink& kernel, const error& problem) const;
    [[nodiscard]] result<member_set> find(const volume_status* assembled);
    [[nodiscard]] result<void> apply_settings(netlink& kernel) const;
    void set_up(netlink& kernel);
    void add_paths(netlink& kernel, const volume_status& volume, const member_set& set);

    volume_file file_;
    assemble_options options_;
    bool dry_run_;
    bool up_ = false;
    bool ours_ = false; ///< this command has assembled it
    bool set_up_ = false;
    std::vector<member_path> wanted_; ///< those of the file that were not part of the volume yet
    std::vector<reached_path> reached_;
    member_links links_;
    std::vector<action> done_;
    std::vector<error> lacking_;
};

std::string saved_assembly::lack() const
{
    return texts_of(lacking_);
}

std::vector<action> saved_assembly::actions() const
{
    auto all = done_;
    if (all.empty())
        all.push_back({"assemble", file_.name, fmt::format("volume {} is assembled already", file_.name),
                       dry_run_, false});
    for (const auto& one : lacking_)
        all.push_back({"assemble", file_.name, fmt::format("volume {} lacks: {}", file_.name, one.text),
                       dry_run_, false});
    return all;
}

/// The members on the devices that were reached. The volume lacks a device that fails, and may have another
/// path to that member.
result<member_set> saved_assembly::find(const volume_status* assembled)
{
    auto devices = links_.devices();
    // The disks that it has tell which member a disk is a path to that cannot be read now.
    if (assembled && !devices.empty())
        for (const auto& member : assembled->members)
            for (const auto& path : member.paths)
                if (path.usable && is_own_disk(path.disk) &&
                    std::ranges::find(devices, "/dev/" + path.disk) == devices.end())
                    devices.push_back("/dev/" + path.disk);
    const auto search = search_members(devices);
    for (auto& one : reached_) {
        for (const auto& failed : search.failed)
            if (one.device && *one.device == failed.path)
                one.device = std::unexpected(failed.why);
        if (!one.device)
            lacking_.push_back(one.device.error());
    }
    if (search.sets.empty())
        return fail(exit_code::missing, "no member of volume {} is available", file_.name);
    auto set = pick_volume(search.sets, file_.uuid.empty() ? file_.name : file_.uuid);
    if (!set)
        return set;
    if (set->name != file_.name)
        return fail(exit_code::usage, "the volume with the UUID {} is called {}, not {}", file_.uuid,
                    set->name, file_.name);
    const auto leads_to = [&](const std::string& device) {
        const auto is_it = [&](const auto& one) { return one.path == device; };
        return std::ranges::any_of(set->members, is_it) || std::ranges::any_of(set->standby, is_it);
    };
    for (const auto& one : reached_)
        if (one.device && !leads_to(*one.device))
            lacking_.push_back({exit_code::damaged, fmt::format("{} leads to another volume", one.path.at)});
    return set;
}

result<void> saved_assembly::apply_settings(netlink& kernel) const
{
    const std::filesystem::path folder = "/sys/block/weft!" + file_.name + "/weft";
    const auto* already = ours_ ? "" : " already";
    const auto set = [&](const char* attribute, const std::string& value) -> result<void> {
        const int status = value.empty() ? 0 : write_attribute(folder / attribute, value);
        if (status)
            return fail(exit_code_of(-status), "volume {} is assembled{}, but {} cannot be set to {}: {}",
                        file_.name, already, attribute, value, std::strerror(-status));
        return {};
    };
    auto done = set("iopolicy", file_.iopolicy);
    if (done)
        done = set("no_path_timeout", file_.no_path_timeout ? std::to_string(*file_.no_path_timeout) : "");
    if (!done || !file_.qos)
        return done;
    const auto request = parse_qos(*file_.qos, file_.name);
    done = request ? kernel.set_qos(*request) : result<void>(std::unexpected(request.error()));
    if (!done)
        return fail(done.error().code, "volume {} is assembled{}, but its QoS is not set: {}", file_.name,
                    already, done.error().text);
    return {};
}

void saved_assembly::set_up(netlink& kernel)
{
    if (set_up_)
        return;
    const auto done = apply_settings(kernel);
    set_up_ = done.has_value();
    if (!done)
        lacking_.push_back(done.error());
}

void saved_assembly::add_paths(netlink& kernel, const volume_status& volume, const member_set& set)
{
    const auto forget = [&](const std::string& device) {
        for (const auto& one : reached_)
            if (one.device && *one.device == device)
                std::erase_if(wanted_, [&](const member_path& path) { return is_same_path(path, one.path); });
    };
    const auto add = [&](std::uint32_t index, const std::string& device) {
        if (index >= volume.members.size())
            return;
        const auto disk = disk_name(device);
        const bool known = std::ranges::any_of(volume.members[index].paths,
                                               [&](const path_status& path) { return path.disk == disk; });
        result<void> done;
        if (!known)
            done = check_identifier(device, volume, index);
        if (!known && done)
            done = kernel.add_path(file_.name, index, device);
        if (!done) {
            lacking_.push_back(done.error());
            return;
        }
        if (!known)
            done_.push_back(path_added(file_.name, index, device, false));
        // If the user removes it later, it stays away.
        forget(device);
    };
    for (const auto& member : set.members)
        add(member.sb.member_index, member.path);
    for (const auto& disk : set.standby)
        add(disk.member, disk.path);
}

/// After a failure to assemble it: another command may have begun since this one looked.
result<void> saved_assembly::tell_failure(netlink& kernel, const error& problem) const
{
    const auto now = kernel.volume(file_.name);
    if (problem.code != exit_code::busy || !now)
        return std::unexpected(problem);
    if (auto good = check_assembled(file_, *now); !good)
        return good;
    return fail(exit_code::missing, "{}", problem.text); // the next attempt finds it
}

result<void> saved_assembly::try_once()
{
    lacking_.clear();
    auto kernel = netlink::open();
    if (!kernel)
        return std::unexpected(kernel.error());
    const auto volumes = kernel->volumes();
    if (!volumes)
        return std::unexpected(volumes.error());
    const bool assembled =
        std::ranges::any_of(*volumes, [&](const volume_status& one) { return one.name == file_.name; });
    if (up_ && !assembled) {
        wanted_.clear(); // the user has stopped it
        set_up_ = true;
        return {};
    }
    const auto before = assembled ? kernel->volume(file_.name) : result<volume_status>();
    if (!before)
        return std::unexpected(before.error());
    if (assembled)
        if (auto good = check_assembled(file_, *before); !good)
            return good;
    up_ |= assembled && !dry_run_;
    // Also while no further path is there.
    const bool was_up = up_;
    if (was_up)
        set_up(*kernel);
    if (!wanted_.empty()) {
        reached_ = links_.reach(wanted_, file_.paths.size());
        const auto set = find(assembled ? &*before : nullptr);
        if (!set)
            return std::unexpected(set.error());
        // The file says that the others are paths: of block devices, nothing else may tell.
        if (!assembled)
            if (auto done = assemble_members(set->without_other_paths(), options_, dry_run_, done_); !done)
                return tell_failure(*kernel, done.error());
        if (dry_run_)
            return {};
        ours_ |= !assembled;
        up_ = true;
        links_.keep();
        const auto volume = kernel->volume(file_.name);
        if (!volume)
            return std::unexpected(volume.error());
        add_paths(*kernel, *volume, *set);
    }
    if (!was_up)
        set_up(*kernel);
    return {};
}

result<void> saved_assembly::attempt()
{
    result<void> done;
    try {
        done = try_once();
    } catch (const std::exception& problem) { // as for a folder that vanishes while it is listed
        done = fail(exit_code::failure, "{}", problem.what());
    }
    if (done)
        return done;
    if (up_) {
        lacking_.push_back(done.error());
        return {};
    }
    return fail(done.error().code, "{}{}{}", done.error().text, lacking_.empty() ? "" : "; ", lack());
}

} // namespace

result<std::vector<action>> assemble_saved(const std::string& name, const assemble_options& options,
                                           unsigned int wait, bool dry_run)
{
    using clock = std::chrono::steady_clock;
    const auto deadline = clock::now() + std::chrono::seconds(wait);
    auto file = load_volume_file(name);
    if (!file)
        return std::unexpected(file.error());
    saved_assembly assembly(std::move(*file), options, dry_run);
    awaiting others_see(name);
    auto delay = std::chrono::milliseconds(500);
    std::string told;
    for (;;) {
        const auto done = assembly.attempt();
        const bool is_service = assembly.is_up() && notify_ready();
        const auto reason = done ? assembly.lack() : done.error().text;
        const bool over = clock::now() >= deadline || (!done && !may_mend_itself(done.error()));
        if (over && !done)
            return std::unexpected(done.error());
        // The failure of a service would take the mount of the volume away.
        if (over && assembly.is_up() && !assembly.is_set_up() && !is_service)
            return fail(exit_code::failure, "{}", reason);
        if (over || reason.empty())
            return assembly.actions();
        if (assembly.is_up())
            others_see.end();
        else if (reason != told)
            others_see.say(reason);
        // Once for each reason: a service waits for hours, and its journal has to say for what.
        if (reason != told)
            complain("weftctl: volume {} is {}: {}\n", name,
                     assembly.is_up() ? "assembled, but not whole" : "awaited", reason);
        told = reason;
        if (!wait_for(delay))
            return std::unexpected(interruption());
        // The user waits for the volume, but not for a further path.
        delay =
            std::min<std::chrono::milliseconds>(delay * 2, std::chrono::seconds(assembly.is_up() ? 60 : 2));
    }
}

} // namespace weft
