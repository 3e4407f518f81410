// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include "result.hpp"

#include <optional>
#include <string>

namespace weft
{

/// This host's NVMe qualified name from /etc/nvme/hostnqn, like all NVMe host tools. Without that file, a
/// constant one made of /etc/machine-id.
[[nodiscard]] result<std::string> host_nqn();

/// host_nqn() for what is kept under that name: an owner record, or a target's list of hosts. Where
/// /etc/nvme/hostnqn is missing, the name is written there, and its UUID to /etc/nvme/hostid: nvme-cli would
/// make random ones when it is installed. A user who may not write there gets the same name.
[[nodiscard]] result<std::string> lasting_host_nqn();

/// The id in /etc/machine-id, written as a UUID; unset if it is missing or not 32 characters long.
[[nodiscard]] std::optional<std::string> machine_uuid();

/// The release of the running kernel, from uname(2).
[[nodiscard]] std::string kernel_release();

} // namespace weft
