// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include "result.hpp"

#include <optional>
#include <string>

namespace weft
{

/// This host's NVMe qualified name: /etc/nvme/hostnqn as every NVMe host tool has it; where that is not, one
/// made of /etc/machine-id, so that it is the same at every start.
[[nodiscard]] result<std::string> host_nqn();

/// The id in /etc/machine-id, written as a UUID; nothing where it is missing or not 32 characters long.
[[nodiscard]] std::optional<std::string> machine_uuid();

/// Of the kernel that runs, as uname(2) tells it.
[[nodiscard]] std::string kernel_release();

} // namespace weft
