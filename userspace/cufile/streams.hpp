// SPDX-License-Identifier: LGPL-2.1-or-later
/// I/O in the order of a CUDA stream.
#pragma once

#include "cufile.h"

#include <cstddef>
#include <sys/types.h>

namespace weft::cufile
{

/// Sizes, offsets and the result are the program's, and stay until the stream has done the I/O.
struct StreamRequest {
    bool write;
    void* handle;
    void* base;
    const std::size_t* size;
    const off_t* file_offset;
    const off_t* memory_offset;
    ssize_t* moved;
};

/// Puts the I/O into the stream. If its memory has no direct route, or is not registered, or memory of a GPU
/// is to be moved in other than whole blocks, it is done when this returns: CUDA does not allow copies while
/// a stream waits for a function of the host. If it is not in whole blocks any more when the stream gets
/// there, it fails. A stream that is captured into a graph takes none.
[[nodiscard]] CUfileError_t put(const StreamRequest& request, void* stream);

} // namespace weft::cufile
