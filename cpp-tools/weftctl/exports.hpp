// SPDX-License-Identifier: GPL-2.0-only
/// What this host exports, kept in /etc/weft/exports.json so that it is served again after a reboot.
#pragma once

#include "nvmet.hpp"
#include <fd.hpp>

#include <vector>

namespace weft
{

/// One export, saved, served, or both.
struct export_status {
    export_spec spec;
    bool saved = false;
    bool serving = false;
    std::string why; ///< it is not served, or that it is somebody else's
};

class export_book
{
public:
    /// Reads the saved exports; none where nothing was ever saved.
    [[nodiscard]] static result<export_book> load();
    /// The same for who will change them: other commands that would wait until this book is gone.
    [[nodiscard]] static result<export_book> open();
    [[nodiscard]] result<void> save() const;

    [[nodiscard]] const std::vector<export_spec>& entries() const { return entries_; }
    void add(export_spec spec) { entries_.push_back(std::move(spec)); }

    /// The one of this device or NQN.
    [[nodiscard]] const export_spec* find(const std::string& device_or_nqn) const;
    void remove(const std::string& subnqn);

    /// Serves an entry and notes what weft made for it; what a sibling made is the entry's own, too.
    [[nodiscard]] result<void> serve(const nvmet& target, export_spec& spec) const;
    /// The same for one that is in the book.
    [[nodiscard]] result<void> serve_saved(const nvmet& target, std::size_t index);

private:
    std::vector<export_spec> entries_;
    OwnedFd lock_;
};

/// A path to the device that stays when the order of devices changes: below /dev/disk/by-id where there is
/// one.
[[nodiscard]] std::string stable_path(const std::string& device);

/// A UUID made of this machine's id and a name: the same whenever it is asked for (RFC 4122, version 5).
[[nodiscard]] result<std::string> named_uuid(const std::string& name);

} // namespace weft
