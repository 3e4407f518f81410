// SPDX-License-Identifier: GPL-2.0-only
/// The kernel's own NVMe target, by its folders below /sys/kernel/config/nvmet. What others made there is
/// used where it fits and never changed.
#pragma once

#include "uri.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <sys/types.h>
#include <vector>

namespace weft
{

/// A device, offered as the one namespace of a subsystem of its own.
struct export_spec {
    std::string device; ///< path that finds it after a reboot, too
    std::string subnqn;
    std::string uuid; ///< of the namespace: the same at every start, or hosts that were connected refuse it
    nvme_address at;
    std::vector<std::string> hosts; ///< NQNs that may connect
    bool any_host = false;
    std::string p2pmem = "off"; ///< "auto", a PCI address, or "off"
    std::uint64_t size = 0;     ///< bytes of the device: another size is another device

    /// What weft made for it and so removes when nothing uses it any more; all else was there before and
    /// stays.
    bool own_port = false;
    std::vector<std::string> own_hosts;
};

/// A subsystem of the target, ours or not.
struct served_subsystem {
    std::string subnqn;
    std::string device; ///< of its first namespace
    bool enabled = false;
    std::vector<nvme_address> ports;
};

class nvmet
{
public:
    /// Loads the target's modules for a transport ("" for none) and finds configfs.
    [[nodiscard]] static result<nvmet> open(const std::string& transport);

    /// What is served now.
    [[nodiscard]] std::vector<served_subsystem> subsystems() const;

    /// The subsystem that has this device, if any.
    [[nodiscard]] std::optional<std::string> subsystem_of(dev_t device) const;

    /// How much of an export is there.
    enum class presence {
        absent,  ///< no subsystem has its name
        serving, ///< all of it
        partial, ///< disabled, or not listened for: left by a command that was killed, or changed since
        foreign, ///< a subsystem of its name serves something else
    };
    [[nodiscard]] presence presence_of(const export_spec& spec) const;

    /// Makes subsystem, namespace, hosts and port, and notes in `spec` which of the last two are of its
    /// making. On failure nothing of it is left.
    [[nodiscard]] result<void> add(export_spec& spec) const;

    /// Undoes add(): its own port and hosts go with the last that uses them. Fine where nothing is there;
    /// what is foreign is refused.
    [[nodiscard]] result<void> remove(const export_spec& spec) const;
};

} // namespace weft
