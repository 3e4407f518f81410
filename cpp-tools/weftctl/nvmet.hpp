// SPDX-License-Identifier: GPL-2.0-only
/// The kernel's NVMe target, by its folders below /sys/kernel/config/nvmet. Objects of other programs are
/// used if they fit, and never changed.
#pragma once

#include "uri.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <sys/types.h>
#include <vector>

namespace weft
{

/// Where an export is served.
struct export_address {
    nvme_address at;
    bool own_port = false; ///< weft made the target's port: it goes with its last export
};

/// An exported device: the only namespace of its own subsystem.
struct export_spec {
    std::string device; ///< path that is valid after a reboot, too
    std::string subnqn;
    std::string
        uuid; ///< of the namespace; constant, because connected hosts refuse a namespace with another one
    std::vector<export_address> addresses; ///< one at least, all of one transport
    std::vector<std::string> hosts;        ///< NQNs that may connect
    bool any_host = false;
    std::string dhchap_secret_file;      ///< with the hosts' secret; empty: they need not authenticate
    std::string dhchap_ctrl_secret_file; ///< with this target's own, empty if it does not prove anything
    std::string tls_key_file;            ///< with the hosts' key for TLS; empty: without; tcp alone
    std::string dhchap_hash = "sha256", dhchap_group = "ffdhe2048"; ///< that it chooses
    std::string p2pmem = "off";                                     ///< "auto", a PCI address, or "off"
    std::uint64_t size = 0; ///< size of the device in bytes; with another size it is another device
    std::string identity;   ///< of the device, as identities_of() has it; empty: unknown

    /// Folders of hosts that weft made for it. It removes them when they are not used; everything else stays.
    std::vector<std::string> own_hosts;

    [[nodiscard]] const std::string& transport() const { return addresses.front().at.transport; }
    /// What other hosts call it, by one of its addresses.
    [[nodiscard]] std::string uri(const nvme_address& at) const { return member_uri{at, subnqn, 1}.text(); }
    [[nodiscard]] export_address* find(const nvme_address& at);
};

/// A subsystem of the target, ours or not.
struct served_subsystem {
    std::string subnqn;
    std::string device; ///< device of its first namespace
    bool enabled = false;
    std::vector<nvme_address> ports;
};

/// A subsystem that serves a device, or shares blocks with it: a disk and its partition.
struct serving_subsystem {
    std::string subnqn;
    std::string device; ///< path of what it serves
    bool same = true;   ///< it serves the device itself

    /// "PATH is", where PATH is the device, or "PATH shares blocks with DEVICE, which is".
    [[nodiscard]] std::string subject(const std::string& path) const;
};

class nvmet
{
public:
    /// Loads the target's modules for a transport ("" for none) and finds configfs.
    [[nodiscard]] static result<nvmet> open(const std::string& transport);

    /// The subsystems that are served now.
    [[nodiscard]] std::vector<served_subsystem> subsystems() const;

    /// The subsystem that has this device, its disk or a partition of it, if any.
    [[nodiscard]] static std::optional<serving_subsystem> subsystem_of(dev_t device);

    /// Refuses a device that is exported, in whole or in part: I/O of other hosts makes no claim on it here.
    /// `anyway` is the part of the sentence with the alternative, or is empty.
    [[nodiscard]] static result<void> check_unserved(const std::string& path, dev_t device,
                                                     const std::string& anyway);

    /// The state of an export in the target.
    enum class presence {
        absent,     ///< no subsystem has its name
        serving,    ///< it is complete
        incomplete, ///< served, but not at all of its addresses
        broken,     ///< disabled, or at no address: a command was killed, or another program changed it
        foreign,    ///< a subsystem of its name serves something else
    };
    [[nodiscard]] presence presence_of(const export_spec& spec) const;

    /// Is it served at this address?
    [[nodiscard]] static bool listens(const export_spec& spec, const nvme_address& at);

    /// Makes subsystem, namespace and hosts, and listens at the first address that this host has. Notes in
    /// `spec` which hosts and ports it made. On failure it undoes everything.
    [[nodiscard]] result<void> add(export_spec& spec) const;

    /// Serves an export at one of its addresses, too. Other hosts do not notice.
    [[nodiscard]] static result<void> listen(const export_spec& spec, export_address& address);

    /// Undoes listen(): hosts that are connected by this address lose that path.
    [[nodiscard]] static result<void> end_listening(const export_spec& spec, const export_address& address);

    /// Lets one more of the hosts of `spec` in.
    [[nodiscard]] static result<void> allow(export_spec& spec, const std::string& host);

    /// Lets a host in no more. The kernel keeps a connection that the host has.
    [[nodiscard]] static result<void> forbid(export_spec& spec, const std::string& host);

    /// Reads the TLS key of an export that is served already: a connection that begins now takes it.
    [[nodiscard]] static result<void> renew_tls_key(const export_spec& spec);

    /// Undoes add(). weft's own port and hosts are removed with their last user. Succeeds if there is
    /// nothing; refuses a foreign subsystem.
    [[nodiscard]] result<void> remove(const export_spec& spec) const;
};

} // namespace weft
