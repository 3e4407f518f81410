// SPDX-License-Identifier: LGPL-2.1-or-later
/// Memory for the examples: GPU memory if they are built with CUDA and there is a GPU, else host memory.
#pragma once

#include <weft/memory.hpp>

#if __has_include(<cuda.h>)
#include <cuda.h>
#endif

inline weft::Result<weft::Memory> device_memory(std::size_t bytes)
{
#if __has_include(<cuda.h>)
    CUcontext context = nullptr;
    CUdeviceptr pointer = 0;
    // The memory is not freed before the program ends.
    if (!cuInit(0) && !cuDevicePrimaryCtxRetain(&context, 0) && !cuCtxSetCurrent(context) &&
        !cuMemAlloc(&pointer, bytes))
        return weft::Memory::from_cuda(pointer, bytes);
#endif
    return weft::Memory::allocate(bytes);
}
