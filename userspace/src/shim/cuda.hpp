// SPDX-License-Identifier: LGPL-2.1-or-later
/// The parts of the CUDA driver API that weft uses. Types and values are those of its documented ABI, so that
/// building does not need CUDA.
#pragma once

#include "library.hpp"

#include <cstddef>
#include <string>

namespace weft::shim
{

using CuResult = int; // CUresult
using CuDevice = int;
using CuContext = void*;
using CuStream = void*;
using CuEvent = void*;
using CuPointer = unsigned long long; // CUdeviceptr

constexpr CuResult cu_success = 0;
constexpr CuResult cu_not_ready = 600;            // CUDA_ERROR_NOT_READY
constexpr int cu_handle_dma_buf = 1;              // CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD
constexpr int cu_pointer_context = 1;             // CU_POINTER_ATTRIBUTE_CONTEXT
constexpr int cu_pointer_memory_type = 2;         // CU_POINTER_ATTRIBUTE_MEMORY_TYPE
constexpr unsigned cu_memory_of_device = 2;       // CU_MEMORYTYPE_DEVICE
constexpr int cu_pointer_device = 9;              // CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
constexpr int cu_pointer_range_start = 11;        // CU_POINTER_ATTRIBUTE_RANGE_START_ADDR
constexpr int cu_pointer_range_size = 12;         // CU_POINTER_ATTRIBUTE_RANGE_SIZE
constexpr int cu_device_flush_options = 117;      // CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS
constexpr int cu_device_writes_ordering = 118;    // CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING
constexpr int cu_flush_by_host = 1;               // CU_FLUSH_GPU_DIRECT_RDMA_WRITES_OPTION_HOST
constexpr int cu_ordered_for_owner = 100;         // CU_GPU_DIRECT_RDMA_WRITES_ORDERING_OWNER
constexpr int cu_flush_current_context = 0;       // CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX
constexpr int cu_flush_to_owner = 100;            // CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER
constexpr unsigned cu_event_disable_timing = 2;   // CU_EVENT_DISABLE_TIMING
constexpr unsigned cu_stream_non_blocking = 1;    // CU_STREAM_NON_BLOCKING
constexpr unsigned cu_host_register_portable = 1; // CU_MEMHOSTREGISTER_PORTABLE
constexpr int cu_capture_relaxed = 2;             // CU_STREAM_CAPTURE_MODE_RELAXED

/// The functions of libcuda.so.1 that weft uses. All of them are set.
struct Cuda {
    CuResult (*init)(unsigned);
    CuResult (*error_string)(CuResult, const char**);
    CuResult (*device_count)(int*);
    CuResult (*device_get)(CuDevice*, int);
    CuResult (*device_name)(char*, int, CuDevice);
    CuResult (*device_bus_id)(char*, int, CuDevice);
    CuResult (*device_attribute)(int*, int, CuDevice);
    CuResult (*context_retain)(CuContext*, CuDevice);
    CuResult (*context_release)(CuDevice);
    CuResult (*context_get)(CuContext*);
    CuResult (*context_set)(CuContext);
    CuResult (*context_device)(CuDevice*);
    CuResult (*flush_writes)(int, int);
    CuResult (*allocate)(CuPointer*, std::size_t);
    CuResult (*release)(CuPointer);
    CuResult (*address_range)(CuPointer*, std::size_t*, CuPointer);
    CuResult (*pointer_attribute)(void*, int, CuPointer);
    CuResult (*handle)(void*, CuPointer, std::size_t, int, unsigned long long);
    CuResult (*host_register)(void*, std::size_t, unsigned);
    CuResult (*host_unregister)(void*);
    CuResult (*stream_create)(CuStream*, unsigned);
    CuResult (*stream_destroy)(CuStream);
    CuResult (*stream_synchronize)(CuStream);
    CuResult (*stream_is_capturing)(CuStream, int*);
    CuResult (*exchange_capture_mode)(int*); ///< of the calling thread
    CuResult (*event_create)(CuEvent*, unsigned);
    CuResult (*event_destroy)(CuEvent);
    CuResult (*event_record)(CuEvent, CuStream);
    CuResult (*event_query)(CuEvent);
    CuResult (*copy_to_device)(CuPointer, const void*, std::size_t, CuStream);
    CuResult (*copy_to_host)(void*, CuPointer, std::size_t, CuStream);
    CuResult (*copy_to_device_now)(CuPointer, const void*, std::size_t);
    CuResult (*copy_to_host_now)(void*, CuPointer, std::size_t);
    CuResult (*launch_host)(CuStream, void (*)(void*), void*);

    /// "CUDA_ERROR_...: out of memory (2)"
    [[nodiscard]] std::string describe(CuResult result) const;
};

/// Meanwhile the calling thread may make calls that CUDA otherwise forbids while another thread captures a
/// graph: none of them is on a stream that is captured, and one that is refused would make that graph
/// invalid.
class RelaxedCapture
{
public:
    explicit RelaxedCapture(const Cuda& cuda) noexcept
        : cuda_(cuda), changed_(!cuda.exchange_capture_mode(&mode_))
    {
    }
    ~RelaxedCapture()
    {
        if (changed_)
            cuda_.exchange_capture_mode(&mode_);
    }
    RelaxedCapture(const RelaxedCapture&) = delete;
    RelaxedCapture& operator=(const RelaxedCapture&) = delete;

private:
    const Cuda& cuda_;
    int mode_ = cu_capture_relaxed; ///< then the one before
    bool changed_;
};

/// Makes a context current in the calling thread, and restores the previous one at the end. Meanwhile, the
/// capture mode is relaxed.
class CurrentContext
{
public:
    CurrentContext(const Cuda& cuda, CuContext wanted) noexcept;
    ~CurrentContext();
    CurrentContext(const CurrentContext&) = delete;
    CurrentContext& operator=(const CurrentContext&) = delete;
    /// False if CUDA refused.
    explicit operator bool() const noexcept { return good_; }

private:
    RelaxedCapture relaxed_;
    const Cuda& cuda_;
    CuContext before_ = nullptr;
    bool changed_ = false;
    bool good_ = true;
};

/// The CUDA of this process, initialised; nullptr if it is missing or too old.
[[nodiscard]] const Cuda* cuda() noexcept;
/// The reason why cuda() is nullptr.
[[nodiscard]] const std::string& cuda_reason() noexcept;

} // namespace weft::shim
