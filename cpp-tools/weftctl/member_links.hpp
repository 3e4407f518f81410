// SPDX-License-Identifier: GPL-2.0-only
/// Converts members, which the user names by device or URI, to devices.
#pragma once

#include "volume_file.hpp"

#include <string>
#include <vector>

namespace weft
{

/// A path that was looked for: its device, or the reason why it is not there.
struct reached_path {
    member_path path;
    result<std::string> device;
};

/// Devices of members. Members named by a URI are connected. The destructor disconnects
/// them again unless they are kept, so that a failed command undoes its connections.
class member_links
{
public:
    /// Connects the members that are not connected, several at a time. devices() has their order, and the
    /// names of local devices as they were given. The error is that of the first that fails. `of` is how many
    /// members the volume has, if these are not all of them: the more, the fewer queues each has.
    [[nodiscard]] static result<member_links>
    resolve(const std::vector<std::string>& members, const connect_options& options = {}, std::size_t of = 0);
    member_links() = default;
    /// Connects those that can be connected now, several at a time. May be called again. devices() are those
    /// of the last call; a disk of several paths, as the stock host has them, is there once. `of`: as above.
    [[nodiscard]] std::vector<reached_path> reach(const std::vector<member_path>& members, std::size_t of);
    member_links(member_links&& other) noexcept
        : devices_(std::move(other.devices_)), made_(std::exchange(other.made_, {}))
    {
    }
    member_links(const member_links&) = delete;
    member_links& operator=(const member_links&) = delete;
    member_links& operator=(member_links&&) = delete;
    ~member_links();

    [[nodiscard]] const std::vector<std::string>& devices() const { return devices_; }
    void keep() { made_.clear(); }

private:
    [[nodiscard]] std::vector<reached_path> look_for(const std::vector<member_path>& members, std::size_t of,
                                                     bool live_only);
    std::vector<std::string> devices_;
    std::vector<connection> made_;
};

} // namespace weft
