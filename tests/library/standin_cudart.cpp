// SPDX-License-Identifier: GPL-2.0-only
/// A libcudart.so over the stand-in for libcuda: what fio's engine for cuFile uses.
#include "cuda/cuda_runtime.h"

#include <cstdint>
#include <vector>

extern "C" {

int cuDevicePrimaryCtxRetain(void** context, int device);
int cuCtxGetCurrent(void** context);
int cuCtxSetCurrent(void* context);
int cuMemAlloc_v2(std::uint64_t* pointer, std::size_t bytes);
int cuMemFree_v2(std::uint64_t pointer);
int cuMemcpyHtoD_v2(std::uint64_t to, const void* from, std::size_t bytes);
int cuMemcpyDtoH_v2(void* to, std::uint64_t from, std::size_t bytes);
int cuStreamSynchronize(void* stream);

static cudaError_t result_of(int result)
{
    return static_cast<cudaError_t>(result);
}

static std::uint64_t device_pointer(const void* memory)
{
    return reinterpret_cast<std::uintptr_t>(memory);
}

/// The primary context, in threads that have none yet, as the runtime does it.
static int use_device(int device)
{
    void* context = nullptr;
    if (const int result = cuCtxGetCurrent(&context); result || context)
        return result;
    if (const int result = cuDevicePrimaryCtxRetain(&context, device))
        return result;
    return cuCtxSetCurrent(context);
}

cudaError_t cudaSetDevice(int device)
{
    return result_of(use_device(device));
}

cudaError_t cudaMalloc(void** memory, std::size_t bytes)
{
    std::uint64_t pointer = 0;
    if (const int result = use_device(0))
        return result_of(result);
    const int result = cuMemAlloc_v2(&pointer, bytes);
    *memory = reinterpret_cast<void*>(pointer);
    return result_of(result);
}

cudaError_t cudaFree(void* memory)
{
    return result_of(cuMemFree_v2(device_pointer(memory)));
}

/// Of memory that is not pinned, the copy to the GPU is done when the default stream is.
static int put(std::uint64_t to, const void* from, std::size_t bytes)
{
    const int result = cuMemcpyHtoD_v2(to, from, bytes);
    return result ? result : cuStreamSynchronize(nullptr);
}

cudaError_t cudaMemset(void* memory, int value, std::size_t bytes)
{
    const std::vector<char> all(bytes, static_cast<char>(value));
    return result_of(put(device_pointer(memory), all.data(), bytes));
}

cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind)
{
    if (const int result = use_device(0))
        return result_of(result);
    return result_of(kind == cudaMemcpyHostToDevice ? put(device_pointer(to), from, bytes)
                                                    : cuMemcpyDtoH_v2(to, device_pointer(from), bytes));
}

const char* cudaGetErrorName(cudaError_t)
{
    return "stand-in error";
}

} // extern "C"
