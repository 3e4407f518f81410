// SPDX-License-Identifier: GPL-2.0-only
/// weftctl assemble --saved: a volume as its file describes it.
#include "member_links.hpp"
#include "members.hpp"
#include "netlink.hpp"
#include "notify.hpp"
#include "sysfile.hpp"
#include "verbs.hpp"
#include "volume_file.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <thread>

namespace weft
{

namespace
{

/// One try after the other to bring a volume up as its file says.
class saved_assembly
{
public:
    saved_assembly(volume_file file, const assemble_options& options, bool dry_run)
        : file_(std::move(file)), options_(options), dry_run_(dry_run)
    {
        options_.read_only |= file_.read_only;
        options_.no_iostats |= !file_.iostats;
    }

    /// Assembles the volume if it is not, and adds the paths that it lacks.
    [[nodiscard]] result<void> attempt();
    [[nodiscard]] bool is_up() const { return up_; }
    /// Whether all paths of the file were there in the last attempt.
    [[nodiscard]] bool is_whole() const { return absent_.empty(); }
    /// Why it was not whole, in one sentence for each path.
    [[nodiscard]] std::string lack() const;
    /// What was done, and which paths are not there.
    [[nodiscard]] std::vector<action> actions() const;

private:
    [[nodiscard]] result<member_set> find(const std::vector<std::string>& devices) const;
    [[nodiscard]] result<void> assemble(const member_set& set);
    [[nodiscard]] result<void> apply_settings(netlink& kernel) const;
    void add_paths(netlink& kernel, const volume_status& volume, const member_set& set);
    void note(const std::string& verb, std::string text)
    {
        done_.push_back({verb, file_.name, std::move(text), dry_run_});
    }

    volume_file file_;
    assemble_options options_;
    bool dry_run_;
    bool up_ = false;
    member_links links_;
    std::vector<action> done_;
    std::vector<error> absent_;
};

std::string saved_assembly::lack() const
{
    std::string reasons;
    for (const auto& one : absent_)
        reasons += (reasons.empty() ? "" : "; ") + one.text;
    return reasons;
}

std::vector<action> saved_assembly::actions() const
{
    auto all = done_;
    if (all.empty())
        all.push_back({"assemble", file_.name, fmt::format("volume {} is assembled already", file_.name),
                       dry_run_, false});
    for (const auto& one : absent_)
        all.push_back(
            {"path add", file_.name, fmt::format("a path is not there: {}", one.text), dry_run_, false});
    return all;
}

result<member_set> saved_assembly::find(const std::vector<std::string>& devices) const
{
    // Without a device, find_members() would look at all devices of this host.
    const auto sets = devices.empty() ? result<std::vector<member_set>>() : find_members(devices);
    if (!sets)
        return std::unexpected(sets.error());
    auto set = sets->empty() ? fail(exit_code::missing, "no member of volume {} is there", file_.name)
                             : pick_volume(*sets, file_.uuid.empty() ? file_.name : file_.uuid);
    if (set && set->name != file_.name)
        return fail(exit_code::usage, "the volume with the UUID {} is called {}, not {}", file_.uuid,
                    set->name, file_.name);
    return set;
}

result<void> saved_assembly::assemble(const member_set& set)
{
    const auto devices = set.complete();
    if (!devices)
        return std::unexpected(devices.error());
    if (!dry_run_)
        if (auto done = assemble_volume(set.name, *devices, options_); !done)
            return done;
    note("assemble", fmt::format("assembled volume {} {}of {} members as /dev/weft/{}", set.name,
                                 options_.read_only ? "read-only " : "", devices->size(), set.name));
    return {};
}

result<void> saved_assembly::apply_settings(netlink& kernel) const
{
    const std::filesystem::path folder = "/sys/block/weft!" + file_.name + "/weft";
    const auto set = [&](const char* attribute, const std::string& value) -> result<void> {
        const int status = value.empty() ? 0 : write_attribute(folder / attribute, value);
        if (status)
            return fail(exit_code_of(-status), "volume {} is assembled, but {} cannot be set to {}: {}",
                        file_.name, attribute, value, std::strerror(-status));
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
        return fail(done.error().code, "volume {} is assembled, but has no QoS: {}", file_.name,
                    done.error().text);
    return {};
}

/// A path that cannot be added is one that is not there.
void saved_assembly::add_paths(netlink& kernel, const volume_status& volume, const member_set& set)
{
    const auto add = [&](std::uint32_t index, const std::string& device) {
        const auto disk = std::filesystem::path(device).filename();
        const auto& member = volume.members.at(index);
        if (std::ranges::any_of(member.paths, [&](const path_status& path) { return path.disk == disk; }))
            return;
        if (auto done = kernel.add_path(file_.name, index, device); !done)
            absent_.push_back(done.error());
        else
            note("path add",
                 fmt::format("member {} of {} is reached by {} as well", index, file_.name, device));
    };
    for (const auto& member : set.members)
        if (member.sb.member_index < volume.members.size())
            add(member.sb.member_index, member.path);
    for (const auto& disk : set.standby)
        if (disk.member < volume.members.size())
            add(disk.member, disk.path);
}

result<void> saved_assembly::attempt()
{
    auto kernel = netlink::open();
    if (!kernel)
        return std::unexpected(kernel.error());
    const auto volumes = kernel->volumes();
    if (!volumes)
        return std::unexpected(volumes.error());
    const bool assembled =
        std::ranges::any_of(*volumes, [&](const volume_status& one) { return one.name == file_.name; });
    absent_.clear();
    // The user has stopped it since.
    if (up_ && !assembled)
        return {};
    absent_ = links_.reach(file_.paths);
    const auto set = find(links_.devices());
    auto done = set ? result<void>() : result<void>(std::unexpected(set.error()));
    if (done && !assembled)
        done = assemble(*set);
    if (!done)
        return fail(done.error().code, "{}{}{}", done.error().text, absent_.empty() ? "" : "; ", lack());
    if (dry_run_)
        return {};
    links_.keep();
    const auto volume = kernel->volume(file_.name);
    if (!volume)
        return std::unexpected(volume.error());
    if (volume->uuid != set->uuid)
        return fail(exit_code::busy, "another volume called {} is assembled, {}", file_.name, volume->uuid);
    add_paths(*kernel, *volume, *set);
    return std::exchange(up_, true) ? result<void>() : apply_settings(*kernel);
}

/// Errors that may go away: a target or a disk is not there yet.
bool may_mend_itself(const error& problem)
{
    return problem.code == exit_code::missing || problem.code == exit_code::failure;
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
    auto delay = std::chrono::milliseconds(500);
    std::string told;
    for (;;) {
        const auto done = assembly.attempt();
        if (done)
            notify_ready();
        const bool over = clock::now() >= deadline;
        if (!done && (over || !may_mend_itself(done.error())))
            return std::unexpected(done.error());
        if (done && (over || assembly.is_whole()))
            return assembly.actions();
        // Once for each reason: a service waits for hours, and its journal has to say for what.
        const auto reason = done ? assembly.lack() : done.error().text;
        if (reason != told)
            fmt::print(stderr, "weftctl: volume {} is {}: {}\n", name,
                       assembly.is_up() ? "assembled, but not whole" : "awaited", reason);
        told = reason;
        std::this_thread::sleep_for(delay);
        // The user waits for the volume, but not for a further path.
        delay =
            std::min<std::chrono::milliseconds>(delay * 2, std::chrono::seconds(assembly.is_up() ? 60 : 2));
    }
}

} // namespace weft
