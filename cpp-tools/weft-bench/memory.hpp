// SPDX-License-Identifier: GPL-2.0-only
/// The memory that a measurement moves bytes to and from.
#pragma once

#include "bench.hpp"

namespace bench
{

/// Makes the memory of a job: `Job::depth` pieces of a GPU, of a PCI device's BAR, or of the host.
[[nodiscard]] weft::Result<weft::Memory> make_memory(const Job& job);

/// What a job's memory is, for reports: "GPU", "BAR", "host".
[[nodiscard]] const char* memory_name(const Job& job);

} // namespace bench
