// SPDX-License-Identifier: GPL-2.0-only
/// Members as people name them, devices or URIs, brought to devices.
#pragma once

#include "fabrics.hpp"

#include <string>
#include <vector>

namespace weft
{

/// Devices of members; those named by a URI were connected for it. Unless kept, what this connected is
/// disconnected again when it goes, so that a command that fails leaves nothing behind.
class member_links
{
public:
    /// Connects where it must. In the order given.
    [[nodiscard]] static result<member_links> resolve(const std::vector<std::string>& members,
                                                      const connect_options& options = {});
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
    member_links() = default;

    std::vector<std::string> devices_;
    std::vector<connection> made_;
};

} // namespace weft
