// SPDX-License-Identifier: GPL-2.0-only
/// The exports of this host, saved in /etc/weft/exports.json to serve them again after a reboot.
#pragma once

#include "nvmet.hpp"
#include <fd.hpp>

#include <vector>

namespace weft
{

/// An export that is saved, served, or both.
struct export_status {
    export_spec spec;
    bool saved = false;
    bool serving = false;
    std::vector<nvme_address> heard; ///< where it is served
    std::string why;                 ///< why it is not served, or that it is not weft's
};

/// Parses saved exports; `where` is the document's name for errors.
[[nodiscard]] result<std::vector<export_spec>> parse_exports(const std::string& text,
                                                             const std::string& where);

class export_book
{
public:
    /// Reads the saved exports. Without a file there are none.
    [[nodiscard]] static result<export_book> load();
    /// The same for changes: other commands that change them wait until this object is destroyed.
    [[nodiscard]] static result<export_book> open();
    /// Does nothing if nothing has changed.
    [[nodiscard]] result<void> save();

    [[nodiscard]] const std::vector<export_spec>& entries() const { return entries_; }
    void add(export_spec spec) { entries_.push_back(std::move(spec)); }

    /// A host has one TLS key for discovery, with which it finds all exports: refuses another one.
    [[nodiscard]] result<void> check_tls_key(const export_spec& spec) const;

    /// Finds the export of a device or NQN.
    [[nodiscard]] const export_spec* find(const std::string& device_or_nqn) const;
    /// Their indices, by devices or NQNs; or of all. Refuses a name of none.
    [[nodiscard]] result<std::vector<std::size_t>> select(const std::vector<std::string>& names,
                                                          bool all) const;
    void remove(const std::string& subnqn);

    [[nodiscard]] export_spec& entry(std::size_t index) { return entries_[index]; }

    /// Serves an entry at one of its addresses at least, and notes in it what weft made for it, also for
    /// another export on the same port.
    [[nodiscard]] result<void> serve(const nvmet& target, std::size_t index);

    /// Serves it at the addresses where it is not served. Returns the first failure.
    [[nodiscard]] result<void> complete(const nvmet& target, std::size_t index);

    /// Notes in an entry what weft made for other exports, and serves it, too.
    void share(const nvmet& target, std::size_t index);

private:
    std::vector<export_spec> entries_;
    std::string text_; ///< of the file, as it was read or written last
    OwnedFd lock_;
};

/// Refuses another disk than the one that was exported, by the identities of the one that is there now. Not
/// known are disks without any, and those of exports of older versions.
[[nodiscard]] result<void> check_same_disk(const export_spec& spec, const std::vector<std::string>& now);

/// Refuses the disk of one of these exports, by another path.
[[nodiscard]] result<void> check_other_disk(const export_spec& spec, const std::vector<export_spec>& exports);

/// What the UUID of an export is made of, for named_uuid(): the disk, so that another one at its path has
/// another UUID. If the disk has no identity, its path.
[[nodiscard]] std::string uuid_name(const export_spec& spec);

/// A stable path to the device, below /dev/disk/by-id if there is
/// one.
[[nodiscard]] std::string stable_path(const std::string& device);

/// Of the links to a device, the one that leads to no other device later.
[[nodiscard]] std::string most_stable(const std::vector<std::string>& links);

/// A constant UUID made of this machine's id and a name (RFC 4122, version 5).
[[nodiscard]] result<std::string> named_uuid(const std::string& name);

} // namespace weft
