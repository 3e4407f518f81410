// SPDX-License-Identifier: LGPL-2.1-or-later
/// The parts of NVIDIA's management library (NVML) that weft uses, by its documented ABI: libnvidia-ml.so.1
/// is opened at run time.
#pragma once

#include "library.hpp"

namespace weft::shim
{

using NvmlResult = int; // nvmlReturn_t
using NvmlDevice = void*;

constexpr unsigned nvml_name_size = 96; // NVML_DEVICE_NAME_V2_BUFFER_SIZE
constexpr unsigned nvml_uuid_size = 96; // NVML_DEVICE_UUID_V2_BUFFER_SIZE

/// nvmlUtilization_t: percent of the last sample period, which is a sixth of a second to a second.
struct NvmlUtilization {
    unsigned gpu;    ///< in which kernels ran
    unsigned memory; ///< in which memory of the GPU was read or written
};

/// All of them are set.
struct Nvml {
    NvmlResult (*init)();
    NvmlResult (*count)(unsigned*);
    NvmlResult (*device)(unsigned, NvmlDevice*);
    NvmlResult (*name)(NvmlDevice, char*, unsigned);
    NvmlResult (*uuid)(NvmlDevice, char*, unsigned);
    NvmlResult (*utilization)(NvmlDevice, NvmlUtilization*);
};

/// The NVML of this process, initialised; nullptr if this host has no libnvidia-ml.so.1 or no driver for it.
[[nodiscard]] const Nvml* nvml() noexcept;

} // namespace weft::shim
