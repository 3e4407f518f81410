// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include "result.hpp"

namespace weft
{

/// This host's NVMe qualified name: /etc/nvme/hostnqn as every NVMe host tool has it; where that is not, one
/// made of /etc/machine-id, so that it is the same at every start.
[[nodiscard]] result<std::string> host_nqn();

} // namespace weft
