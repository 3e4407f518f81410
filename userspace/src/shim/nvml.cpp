// SPDX-License-Identifier: LGPL-2.1-or-later
#include "nvml.hpp"

namespace weft::shim
{

namespace
{

/// Never unloaded, as libcuda.
struct Loaded {
    Library library{"libnvidia-ml.so.1"};
    Nvml nvml{};
    bool good;
    Loaded()
        : good(library.find(nvml.init, "nvmlInit_v2") && library.find(nvml.count, "nvmlDeviceGetCount_v2") &&
               library.find(nvml.device, "nvmlDeviceGetHandleByIndex_v2") &&
               library.find(nvml.name, "nvmlDeviceGetName") && library.find(nvml.uuid, "nvmlDeviceGetUUID") &&
               library.find(nvml.utilization, "nvmlDeviceGetUtilizationRates") && !nvml.init())
    {
    }
};

} // namespace

const Nvml* nvml() noexcept
{
    static const auto* const once = new Loaded;
    return once->good ? &once->nvml : nullptr;
}

} // namespace weft::shim
