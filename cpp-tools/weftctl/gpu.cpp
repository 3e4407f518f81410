// SPDX-License-Identifier: GPL-2.0-only
#include "gpu.hpp"

#include <shim/nvml.hpp>

namespace weft
{

std::vector<gpu_status> gpus()
{
    const auto* nvml = shim::nvml();
    unsigned count = 0;
    if (!nvml || nvml->count(&count))
        return {};
    std::vector<gpu_status> all;
    for (unsigned i = 0; i < count; i++) {
        shim::NvmlDevice device = nullptr;
        char model[shim::nvml_name_size]{}, uuid[shim::nvml_uuid_size]{};
        // One that fell off its bus answers nothing.
        if (nvml->device(i, &device) || nvml->name(device, model, sizeof(model)) ||
            nvml->uuid(device, uuid, sizeof(uuid)))
            continue;
        shim::NvmlUtilization busy{};
        gpu_status one{i, uuid, model, {}};
        if (!nvml->utilization(device, &busy))
            one.utilization = busy.gpu / 100.0;
        all.push_back(std::move(one));
    }
    return all;
}

} // namespace weft
