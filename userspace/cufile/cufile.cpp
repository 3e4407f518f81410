// SPDX-License-Identifier: LGPL-2.1-or-later
/// The functions of libcufile.so.0.
#include "cufile.h"

#include "batch.hpp"
#include "buffers.hpp"
#include "files.hpp"
#include "forks.hpp"
#include "report.hpp"
#include "streams.hpp"
#include "transfer.hpp"

#include <shim/cuda.hpp>

#include <atomic>
#include <cerrno>
#include <fstream>
#include <limits>
#include <mutex>
#include <new>
#include <set>
#include <unistd.h>

using namespace weft::cufile;

namespace
{

/// Of the interface, not of weft: 1.13.
constexpr int interface_version = 1130;

struct Driver {
    ProcessLock<std::mutex> lock;
    long uses = 0;
    bool polls = false;
    std::size_t poll_threshold = 4;
    std::size_t largest_direct = 16 << 10;
    std::size_t largest_cache = 128 << 10;
    std::size_t largest_pinned = std::numeric_limits<unsigned>::max();
    std::set<Batch*> batches;
};

/// Never destroyed: threads may do I/O until the process ends.
Driver& driver() noexcept
{
    static auto* const once = new Driver;
    return *once;
}

CUfileError_t error(CUfileOpError code) noexcept
{
    return {code, {}};
}

/// Runs a function that sets something up; errors of memory are its result.
template <typename F>
CUfileError_t guarded(F&& function) noexcept
{
    try {
        return function();
    } catch (const std::exception&) {
        return error(CU_FILE_INTERNAL_ERROR);
    }
}

/// An outcome as these functions return it.
ssize_t returned(Outcome outcome) noexcept
{
    if (outcome >= 0 || outcome < -CUFILEOP_BASE_ERR)
        return outcome;
    errno = static_cast<int>(-outcome);
    return -1;
}

/// "0.9.1" as 0 and 9; 0 and 0 if the module is not loaded.
std::pair<unsigned, unsigned> module_version()
{
    std::ifstream file("/sys/module/weft/version");
    unsigned major = 0, minor = 0;
    char dot = 0;
    file >> major >> dot >> minor;
    return file ? std::pair(major, minor) : std::pair(0U, 0U);
}

std::size_t clamped(std::size_t value) noexcept
{
    return std::min<std::size_t>(value, std::numeric_limits<unsigned>::max());
}

CUfileError_t set_limit(std::size_t Driver::*limit, std::size_t value, std::size_t multiple) noexcept
{
    if (!value || value % multiple)
        return error(CU_FILE_DRIVER_UNSUPPORTED_LIMIT);
    const std::lock_guard held(driver().lock);
    driver().*limit = value;
    return error(CU_FILE_SUCCESS);
}

/// Locks the driver while it looks: a batch must not be destroyed by another thread in use, which is the
/// program's duty. A child of fork() has none of its parent's.
Batch* find_batch(CUfileBatchHandle_t handle)
{
    const std::lock_guard held(driver().lock);
    const auto found = driver().batches.find(static_cast<Batch*>(handle));
    return found == driver().batches.end() || (*found)->is_parents() ? nullptr : *found;
}

CUfileError_t in_stream(const StreamRequest& request, CUstream stream)
{
    if (!request.size || !request.file_offset || !request.memory_offset || !request.moved)
        return error(CU_FILE_INVALID_VALUE);
    if (!find_handle(request.handle))
        return error(CU_FILE_HANDLE_NOT_REGISTERED);
    return guarded([&] { return put(request, stream); });
}

/// At the end of a process that does not close the driver.
struct Summary {
    ~Summary() { summarize(); }
};
const Summary summary_at_exit;

} // namespace

extern "C" {

#pragma GCC visibility push(default)

CUfileError_t cuFileHandleRegister(CUfileHandle_t* fh, CUfileDescr_t* descr)
{
    if (!fh || !descr)
        return error(CU_FILE_INVALID_VALUE);
    if (descr->type == CU_FILE_HANDLE_TYPE_OPAQUE_WIN32)
        return error(CU_FILE_PLATFORM_NOT_SUPPORTED);
    if (descr->type != CU_FILE_HANDLE_TYPE_OPAQUE_FD)
        return error(CU_FILE_INVALID_FILE_TYPE);
    return guarded([&] {
        auto handle = Handle::open(descr->handle.fd);
        if (!handle)
            return error(handle.error());
        *fh = add_handle(*std::move(handle));
        return error(CU_FILE_SUCCESS);
    });
}

void cuFileHandleDeregister(CUfileHandle_t fh)
{
    remove_handle(fh);
}

CUfileError_t cuFileBufRegister(const void* base, size_t length, int)
{
    return guarded([&] { return error(add_buffer(base, length)); });
}

CUfileError_t cuFileBufDeregister(const void* base)
{
    return guarded([&] {
        const auto buffer = remove_buffer(base);
        if (!buffer)
            return error(CU_FILE_MEMORY_NOT_REGISTERED);
        forget_everywhere(*buffer);
        return error(CU_FILE_SUCCESS);
    });
}

ssize_t cuFileRead(CUfileHandle_t fh, void* base, size_t size, off_t file_offset, off_t memory_offset)
{
    return returned(transfer({false, fh, base, size, file_offset, memory_offset}));
}

ssize_t cuFileWrite(CUfileHandle_t fh, const void* base, size_t size, off_t file_offset, off_t memory_offset)
{
    return returned(transfer({true, fh, base, size, file_offset, memory_offset}));
}

CUfileError_t cuFileDriverOpen(void)
{
    const std::lock_guard held(driver().lock);
    driver().uses++;
    return error(CU_FILE_SUCCESS);
}

CUfileError_t cuFileDriverClose_v2(void)
{
    bool last = false;
    {
        const std::lock_guard held(driver().lock);
        if (!driver().uses)
            return error(CU_FILE_DRIVER_NOT_INITIALIZED);
        last = !--driver().uses;
    }
    if (last)
        summarize();
    return error(CU_FILE_SUCCESS);
}

// Programs that were built before the function was counted call it by this name.
#undef cuFileDriverClose
CUfileError_t cuFileDriverClose(void)
{
    return cuFileDriverClose_v2();
}

long cuFileUseCount(void)
{
    const std::lock_guard held(driver().lock);
    return driver().uses;
}

CUfileError_t cuFileDriverGetProperties(CUfileDrvProps_t* props)
{
    if (!props)
        return error(CU_FILE_INVALID_VALUE);
    return guarded([&] {
        const auto [major, minor] = module_version();
        const bool fabrics = !::access("/sys/module/weft_rdma", F_OK);
        const bool streams = weft::shim::cuda();
        const std::lock_guard held(driver().lock);
        const auto& now = driver();
        *props = {};
        props->nvfs.major_version = major;
        props->nvfs.minor_version = minor;
        props->nvfs.poll_thresh_size = now.poll_threshold;
        props->nvfs.max_direct_io_size = now.largest_direct;
        props->nvfs.dstatusflags = fabrics ? 1U << CU_FILE_NVMEOF_SUPPORTED : 0;
        props->nvfs.dcontrolflags = (now.polls ? 1U << CU_FILE_USE_POLL_MODE : 0) |
                                    (is_strict() ? 0 : 1U << CU_FILE_ALLOW_COMPAT_MODE);
        props->fflags = 1U << CU_FILE_BATCH_IO_SUPPORTED | (streams ? 1U << CU_FILE_STREAMS_SUPPORTED : 0);
        props->max_device_cache_size = static_cast<unsigned>(clamped(now.largest_cache));
        props->per_buffer_cache_size = 1 << 10;
        props->max_device_pinned_mem_size = static_cast<unsigned>(clamped(now.largest_pinned));
        props->max_batch_io_size = most_of_batch;
        return error(CU_FILE_SUCCESS);
    });
}

CUfileError_t cuFileDriverSetPollMode(bool poll, size_t threshold)
{
    const std::lock_guard held(driver().lock);
    driver().polls = poll;
    driver().poll_threshold = threshold;
    return error(CU_FILE_SUCCESS);
}

CUfileError_t cuFileDriverSetMaxDirectIOSize(size_t size)
{
    return set_limit(&Driver::largest_direct, size, 4);
}

CUfileError_t cuFileDriverSetMaxCacheSize(size_t size)
{
    return set_limit(&Driver::largest_cache, size, 4);
}

CUfileError_t cuFileDriverSetMaxPinnedMemSize(size_t size)
{
    return set_limit(&Driver::largest_pinned, size, 4);
}

CUfileError_t cuFileGetVersion(int* version)
{
    if (!version)
        return error(CU_FILE_INVALID_VALUE);
    *version = interface_version;
    return error(CU_FILE_SUCCESS);
}

CUfileError_t cuFileBatchIOSetUp(CUfileBatchHandle_t* handle, unsigned nr)
{
    if (!handle || !nr || nr > most_of_batch)
        return error(CU_FILE_INVALID_VALUE);
    return guarded([&] {
        auto batch = std::make_unique<Batch>(nr);
        const std::lock_guard held(driver().lock);
        driver().batches.insert(batch.get());
        *handle = batch.release();
        return error(CU_FILE_SUCCESS);
    });
}

CUfileError_t cuFileBatchIOSubmit(CUfileBatchHandle_t handle, unsigned nr, CUfileIOParams_t* all, unsigned)
{
    auto* const batch = find_batch(handle);
    if (!batch || !nr || !all)
        return error(CU_FILE_INVALID_VALUE);
    return guarded([&] { return error(batch->submit(all, nr)); });
}

CUfileError_t cuFileBatchIOGetStatus(CUfileBatchHandle_t handle, unsigned min_nr, unsigned* nr,
                                     CUfileIOEvents_t* events, struct timespec* timeout)
{
    auto* const batch = find_batch(handle);
    if (!batch || !nr || (*nr && !events))
        return error(CU_FILE_INVALID_VALUE);
    std::optional<std::chrono::nanoseconds> longest;
    if (timeout) {
        constexpr auto most = std::chrono::duration_cast<std::chrono::seconds>(std::chrono::hours(24 * 365));
        if (timeout->tv_sec < 0 || timeout->tv_nsec < 0 || timeout->tv_nsec >= 1'000'000'000)
            return error(CU_FILE_INVALID_VALUE);
        longest = std::min(std::chrono::seconds(timeout->tv_sec), most) +
                  std::chrono::nanoseconds(timeout->tv_nsec);
    }
    return guarded([&] {
        *nr = batch->events(events, min_nr, *nr, longest);
        return error(CU_FILE_SUCCESS);
    });
}

CUfileError_t cuFileBatchIOCancel(CUfileBatchHandle_t handle)
{
    auto* const batch = find_batch(handle);
    if (!batch)
        return error(CU_FILE_INVALID_VALUE);
    return guarded([&] {
        batch->cancel();
        return error(CU_FILE_SUCCESS);
    });
}

void cuFileBatchIODestroy(CUfileBatchHandle_t handle)
{
    std::unique_ptr<Batch> batch(find_batch(handle));
    const std::lock_guard held(driver().lock);
    driver().batches.erase(batch.get());
}

CUfileError_t cuFileReadAsync(CUfileHandle_t fh, void* base, size_t* size, off_t* file_offset,
                              off_t* memory_offset, ssize_t* moved, CUstream stream)
{
    return in_stream({false, fh, base, size, file_offset, memory_offset, moved}, stream);
}

CUfileError_t cuFileWriteAsync(CUfileHandle_t fh, void* base, size_t* size, off_t* file_offset,
                               off_t* memory_offset, ssize_t* moved, CUstream stream)
{
    return in_stream({true, fh, base, size, file_offset, memory_offset, moved}, stream);
}

CUfileError_t cuFileStreamRegister(CUstream, unsigned flags)
{
    constexpr unsigned all = CU_FILE_STREAM_FIXED_BUF_OFFSET | CU_FILE_STREAM_FIXED_FILE_OFFSET |
                             CU_FILE_STREAM_FIXED_FILE_SIZE | CU_FILE_STREAM_PAGE_ALIGNED_INPUTS;
    if (!weft::shim::cuda())
        return error(CU_FILE_PLATFORM_NOT_SUPPORTED);
    return error(flags & ~all ? CU_FILE_INVALID_VALUE : CU_FILE_SUCCESS);
}

CUfileError_t cuFileStreamDeregister(CUstream)
{
    return error(weft::shim::cuda() ? CU_FILE_SUCCESS : CU_FILE_PLATFORM_NOT_SUPPORTED);
}

void weft_cufile_count(struct weft_cufile_bytes* bytes)
{
    const auto now = moved();
    *bytes = {now.direct, now.staged, now.cached};
}

#pragma GCC visibility pop

} // extern "C"
