// SPDX-License-Identifier: LGPL-2.1-or-later
#include "nvml.hpp"

#include <mutex>

namespace weft::shim
{

namespace
{

/// Never unloaded, as libcuda.
struct Loaded {
    Library library{"libnvidia-ml.so.1"};
    Nvml nvml{};
    bool found;
    std::mutex lock;
    bool ready = false;
    Loaded()
        : found(library.find(nvml.init, "nvmlInit_v2") && library.find(nvml.count, "nvmlDeviceGetCount_v2") &&
                library.find(nvml.device, "nvmlDeviceGetHandleByIndex_v2") &&
                library.find(nvml.name, "nvmlDeviceGetName") &&
                library.find(nvml.uuid, "nvmlDeviceGetUUID") &&
                library.find(nvml.utilization, "nvmlDeviceGetUtilizationRates"))
    {
    }
    /// The driver may be loaded after this process began, so a failure is not kept.
    bool is_ready() noexcept
    {
        const std::lock_guard held(lock);
        ready = ready || (found && !nvml.init());
        return ready;
    }
};

} // namespace

const Nvml* nvml() noexcept
{
    static auto* const once = new Loaded;
    return once->is_ready() ? &once->nvml : nullptr;
}

} // namespace weft::shim
