// SPDX-License-Identifier: LGPL-2.1-or-later
#include "streams.hpp"

#include "forks.hpp"
#include "transfer.hpp"

#include <shim/cuda.hpp>

#include <cerrno>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace weft::cufile
{

namespace
{

/// The I/O with the values as they are now.
Request as_it_is(const StreamRequest& wanted, bool in_stream) noexcept
{
    return {wanted.write,        wanted.handle,         wanted.base, *wanted.size,
            *wanted.file_offset, *wanted.memory_offset, in_stream};
}

/// A thread that does the I/O of streams: a function that CUDA calls must not use CUDA, which I/O on a GPU
/// may have to do.
class Worker
{
public:
    Worker()
    {
        std::thread([this] { serve(); }).detach();
    }
    /// Does it, and returns when it is done. One caller at a time.
    void run(const StreamRequest& request)
    {
        std::unique_lock held(lock_);
        request_ = &request;
        changed_.notify_all();
        changed_.wait(held, [&] { return !request_; });
    }

private:
    [[noreturn]] void serve()
    {
        std::unique_lock held(lock_);
        for (;;) {
            changed_.wait(held, [&] { return request_; });
            const auto& wanted = *request_;
            held.unlock();
            *wanted.moved = transfer(as_it_is(wanted, true));
            held.lock();
            request_ = nullptr;
            changed_.notify_all();
        }
    }
    std::mutex lock_;
    std::condition_variable changed_;
    const StreamRequest* request_ = nullptr;
};

/// The workers that have nothing to do. As many are made as streams wait at a time. Never destroyed.
struct Idle {
    ProcessLock<std::mutex> lock;
    std::vector<Worker*> workers;
    unsigned forks = cufile::forks();
};

Idle& idle()
{
    static auto* const once = new Idle;
    return *once;
}

Worker* take_worker()
{
    const std::lock_guard held(idle().lock);
    // A child of fork() has no threads but its own.
    if (std::exchange(idle().forks, forks()) != forks())
        idle().workers.clear();
    if (idle().workers.empty())
        return new Worker; // NOLINT(cppcoreguidelines-owning-memory): its thread ends with the process
    auto* const worker = idle().workers.back();
    idle().workers.pop_back();
    return worker;
}

void give_back(Worker* worker)
{
    const std::lock_guard held(idle().lock);
    idle().workers.push_back(worker);
}

/// What CUDA calls when the stream gets there.
void run_in_stream(void* data)
{
    const std::unique_ptr<StreamRequest> request(static_cast<StreamRequest*>(data));
    try {
        auto* const worker = take_worker();
        worker->run(*request);
        give_back(worker);
    } catch (const std::bad_alloc&) {
        *request->moved = -ENOMEM;
    } catch (const std::system_error& failed) {
        *request->moved = -failed.code().value();
    }
}

} // namespace

CUfileError_t put(const StreamRequest& request, void* stream)
{
    const auto* cuda = shim::cuda();
    if (!cuda)
        return {CU_FILE_PLATFORM_NOT_SUPPORTED, {}};
    // A graph could be launched more than once, or never. To synchronise the stream would spoil the graph.
    int capturing = 0;
    if (const auto result = cuda->stream_is_capturing(stream, &capturing))
        return {CU_FILE_CUDA_DRIVER_ERROR, static_cast<CUresult>(result)};
    if (capturing)
        return {CU_FILE_ASYNC_NOT_SUPPORTED, {}};
    if (!goes_directly(as_it_is(request, false))) {
        const shim::RelaxedCapture relaxed(*cuda);
        if (const auto result = cuda->stream_synchronize(stream))
            return {CU_FILE_CUDA_DRIVER_ERROR, static_cast<CUresult>(result)};
        *request.moved = transfer(as_it_is(request, false));
        return {CU_FILE_SUCCESS, {}};
    }
    auto owned = std::make_unique<StreamRequest>(request);
    if (const auto result = cuda->launch_host(stream, run_in_stream, owned.get()))
        return {CU_FILE_CUDA_DRIVER_ERROR, static_cast<CUresult>(result)};
    static_cast<void>(owned.release());
    return {CU_FILE_SUCCESS, {}};
}

} // namespace weft::cufile
