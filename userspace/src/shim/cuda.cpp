// SPDX-License-Identifier: LGPL-2.1-or-later
#include "cuda.hpp"

namespace weft::shim
{

namespace
{

bool load(const Library& from, Cuda& to)
{
    return from.find(to.init, "cuInit") && from.find(to.error_string, "cuGetErrorString") &&
           from.find(to.device_count, "cuDeviceGetCount") && from.find(to.device_get, "cuDeviceGet") &&
           from.find(to.device_name, "cuDeviceGetName") &&
           from.find(to.device_bus_id, "cuDeviceGetPCIBusId") &&
           from.find(to.device_attribute, "cuDeviceGetAttribute") &&
           from.find(to.context_device, "cuCtxGetDevice") &&
           from.find(to.flush_writes, "cuFlushGPUDirectRDMAWrites") &&
           from.find(to.context_retain, "cuDevicePrimaryCtxRetain") &&
           from.find(to.context_release, "cuDevicePrimaryCtxRelease_v2") &&
           from.find(to.context_get, "cuCtxGetCurrent") && from.find(to.context_set, "cuCtxSetCurrent") &&
           from.find(to.allocate, "cuMemAlloc_v2") && from.find(to.release, "cuMemFree_v2") &&
           from.find(to.address_range, "cuMemGetAddressRange_v2") &&
           from.find(to.handle, "cuMemGetHandleForAddressRange") &&
           from.find(to.pointer_attribute, "cuPointerGetAttribute") &&
           from.find(to.host_register, "cuMemHostRegister_v2") &&
           from.find(to.host_unregister, "cuMemHostUnregister") &&
           from.find(to.stream_create, "cuStreamCreate") &&
           from.find(to.stream_destroy, "cuStreamDestroy_v2") &&
           from.find(to.stream_synchronize, "cuStreamSynchronize") &&
           from.find(to.stream_is_capturing, "cuStreamIsCapturing") &&
           from.find(to.exchange_capture_mode, "cuThreadExchangeStreamCaptureMode") &&
           from.find(to.event_create, "cuEventCreate") && from.find(to.event_destroy, "cuEventDestroy_v2") &&
           from.find(to.event_record, "cuEventRecord") && from.find(to.event_query, "cuEventQuery") &&
           from.find(to.copy_to_device, "cuMemcpyHtoDAsync_v2") &&
           from.find(to.copy_to_host, "cuMemcpyDtoHAsync_v2") &&
           from.find(to.copy_to_device_now, "cuMemcpyHtoD_v2") &&
           from.find(to.copy_to_host_now, "cuMemcpyDtoH_v2") && from.find(to.launch_host, "cuLaunchHostFunc");
}

/// Never unloaded: its threads run until the process ends, and global objects may have its memory until
/// then.
struct Loaded {
    Library library{"libcuda.so.1"};
    Cuda cuda{};
    std::string reason;
    Loaded()
    {
        if (!library)
            reason = "there is no libcuda.so.1 here";
        else if (!load(library, cuda))
            reason = "libcuda.so.1 is too old to export memory as dma-buf: use CUDA 11.7 or newer";
        else if (const auto result = cuda.init(0))
            reason = "cuInit: " + cuda.describe(result);
    }
};

const Loaded& loaded() noexcept
{
    static const auto* const once = new Loaded;
    return *once;
}

} // namespace

std::string Cuda::describe(CuResult result) const
{
    const char* text = nullptr;
    error_string(result, &text);
    return std::string(text ? text : "an error") + " (" + std::to_string(result) + ")";
}

CurrentContext::CurrentContext(const Cuda& cuda, CuContext wanted) noexcept : relaxed_(cuda), cuda_(cuda)
{
    if (cuda.context_get(&before_))
        before_ = nullptr;
    if (before_ == wanted)
        return;
    good_ = !cuda.context_set(wanted);
    changed_ = good_;
}

CurrentContext::~CurrentContext()
{
    if (changed_)
        cuda_.context_set(before_);
}

const Cuda* cuda() noexcept
{
    return loaded().reason.empty() ? &loaded().cuda : nullptr;
}

const std::string& cuda_reason() noexcept
{
    return loaded().reason;
}

} // namespace weft::shim
