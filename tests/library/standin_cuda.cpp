// SPDX-License-Identifier: GPL-2.0-only
/// A libcuda.so.1 for machines without a GPU: the entry points that libweft uses, over host memory. Device
/// pointers are no addresses, so a program that follows one on the CPU is caught. Copies of a stream are made
/// by a thread of it, later. In the environment:
///   WEFT_STANDIN_DMABUF         memory has a dma-buf, which is a memfd
///   WEFT_STANDIN_BAR=ADDRESS    memory is the BAR of that PCI device, which weft_p2p exports
///   WEFT_STANDIN_UNORDERED      what devices write needs a flush; each flush is a line of standard error
///   WEFT_STANDIN_NO_FLUSH       a flush fails
///   WEFT_STANDIN_NO_HOST_FLUSH  the host cannot flush
///   WEFT_STANDIN_BROKEN_COPIES  a stream copies nothing from a device
///   WEFT_STANDIN_CAPTURING      streams are captured into a graph
///   WEFT_STANDIN_GRAPH          another thread captures a graph in the mode "global"
///   WEFT_STANDIN_DEVICES        2: so many GPUs, each with a context of its own
///   WEFT_STANDIN_NO_CONTEXT     pointers are of no context, as memory of a pool is
///   WEFT_STANDIN_MAPPINGS=BYTES memory consists of mappings of that size, as that of cuMemMap() does
#include "uapi/weft_p2p.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <fcntl.h>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace
{

constexpr int success = 0;
constexpr int invalid_value = 1;
constexpr int out_of_memory = 2;
constexpr int invalid_context = 201;
constexpr int not_ready = 600;
constexpr int already_registered = 712;
constexpr int launch_failed = 719;
constexpr int not_supported = 801;
constexpr int not_while_capturing = 900;
constexpr std::uint64_t device_bit = std::uint64_t{1} << 62;

struct Context {
    std::atomic<int> retained = 0;
};

struct Allocation {
    std::size_t size;
    int fd;
    Context* context;
};

// As with a real one, its memory is there until the process is gone: what is below is never destroyed.
std::mutex lock;
auto& allocations = *new std::map<std::uint64_t, Allocation>; // by device pointer

/// Where a device pointer is, or nullptr where `bytes` of it are not.
std::byte* find(std::uint64_t pointer, std::size_t bytes)
{
    const std::lock_guard held(lock);
    auto next = allocations.upper_bound(pointer);
    if (next == allocations.begin())
        return nullptr;
    const auto& [base, allocation] = *--next;
    if (pointer + bytes > base + allocation.size)
        return nullptr;
    return reinterpret_cast<std::byte*>(pointer & ~device_bit);
}

/// Nothing where either is gone by now.
void copy_bytes(std::byte* to, const void* from, std::size_t bytes)
{
    if (to && from)
        std::memcpy(to, from, bytes);
}

// Contexts that have ended. What was made in one is gone with it: to use it aborts, as a real one may do
// anything.
std::atomic<unsigned> ended_contexts = 0;

struct OfContext {
    const unsigned made_in = ended_contexts;
};

struct Stream : OfContext {
    std::mutex mutex;
    std::condition_variable changed;
    std::deque<std::function<void()>> work;
    bool busy = false;
    bool ended = false;
    std::thread thread{[this] { run(); }};

    void run()
    {
        std::unique_lock held(mutex);
        for (;;) {
            changed.wait(held, [this] { return ended || !work.empty(); });
            if (work.empty())
                return;
            auto next = std::move(work.front());
            work.pop_front();
            busy = true;
            held.unlock();
            std::this_thread::sleep_for(std::chrono::microseconds(200));
            next();
            held.lock();
            busy = false;
            changed.notify_all();
        }
    }
    void add(std::function<void()> next)
    {
        const std::lock_guard held(mutex);
        work.push_back(std::move(next));
        changed.notify_all();
    }
    void wait()
    {
        std::unique_lock held(mutex);
        changed.wait(held, [this] { return work.empty() && !busy; });
    }
    ~Stream()
    {
        {
            const std::lock_guard held(mutex);
            ended = true;
            changed.notify_all();
        }
        thread.join();
    }
};

struct Event : OfContext {
    std::mutex mutex;
    unsigned recorded = 0;
    unsigned reached = 0;
};

// A context that ends takes its events and streams with it. Here they stay, and are no leak of the program's.
auto& made = *new std::set<const OfContext*>;

std::array<Context, 2> contexts;
thread_local Context* current = nullptr;
auto& pinned = *new std::map<const void*, Context*>;

constexpr int capture_relaxed = 2;
thread_local int capture_mode = 0;

/// Is this a call that CUDA takes for unsafe while another thread captures?
bool breaks_graph()
{
    return std::getenv("WEFT_STANDIN_GRAPH") && capture_mode != capture_relaxed;
}

int device_of(const Context* context)
{
    return static_cast<int>(context - contexts.data());
}

int device_count()
{
    const char* wanted = std::getenv("WEFT_STANDIN_DEVICES");
    return wanted && !std::strcmp(wanted, "2") ? 2 : 1;
}

/// Most of the API is for who has a context.
bool usable()
{
    return current && current->retained > 0;
}

/// An event or a stream that may be used.
template <typename Kind>
Kind& living(void* one)
{
    auto* const it = static_cast<Kind*>(one);
    if (!usable() || it->made_in != ended_contexts)
        std::abort();
    return *it;
}

template <typename Kind>
Kind* make()
{
    auto* const one = new Kind;
    const std::lock_guard held(lock);
    made.insert(one);
    return one;
}

template <typename Kind>
void unmake(Kind& one)
{
    {
        const std::lock_guard held(lock);
        made.erase(&one);
    }
    delete &one;
}

/// Copies from pages that are not pinned: the caller has its pages back, the GPU not yet what was on them.
struct Pending {
    std::byte* to;
    std::vector<std::byte> data;
};
auto& pending = *new std::vector<Pending>;

/// The next range of a BAR as a dma-buf, or -1 after an error.
int bar_range(const char* address, std::size_t bytes)
{
    static std::uint64_t next = 0;
    const int device = open((std::string("/dev/weft/bar-") + address).c_str(), O_RDWR | O_CLOEXEC);
    weft_bar_export request{};
    request.start = next;
    request.length = (bytes + 4095) / 4096 * 4096;
    const int failed = device < 0 ? -1 : ioctl(device, WEFT_BAR_IOC_EXPORT, &request);
    if (device >= 0)
        close(device);
    if (failed)
        return -1;
    next += request.length;
    return request.fd;
}

/// What waits for the default stream.
void arrive()
{
    const std::lock_guard held(lock);
    for (const auto& copy : pending)
        std::memcpy(copy.to, copy.data.data(), copy.data.size());
    pending.clear();
}

} // namespace

extern "C" {

int cuInit(unsigned)
{
    return success;
}

int cuGetErrorString(int result, const char** text)
{
    *text = result == not_supported ? "operation not supported" : "stand-in error";
    return success;
}

int cuDeviceGetCount(int* count)
{
    *count = device_count();
    return success;
}

int cuDeviceGet(int* device, int index)
{
    *device = index;
    return index < 0 || index >= device_count() ? invalid_value : success;
}

int cuDeviceGetName(char* name, int length, int)
{
    std::strncpy(name, "stand-in", static_cast<std::size_t>(length));
    return success;
}

int cuDeviceGetPCIBusId(char* name, int length, int)
{
    std::strncpy(name, "0000:00:00.0", static_cast<std::size_t>(length));
    return success;
}

int cuDevicePrimaryCtxRetain(void** context, int device)
{
    auto& one = contexts.at(static_cast<std::size_t>(device));
    *context = &one;
    one.retained++;
    return success;
}

int cuDevicePrimaryCtxRelease_v2(int device)
{
    auto& one = contexts.at(static_cast<std::size_t>(device));
    if (one.retained <= 0)
        return invalid_context;
    if (!--one.retained) {
        const std::lock_guard held(lock);
        ended_contexts++;
        std::erase_if(pinned, [&](const auto& page) { return page.second == &one; });
    }
    return success;
}

int cuDeviceGetAttribute(int* value, int attribute, int)
{
    const bool ordered = !std::getenv("WEFT_STANDIN_UNORDERED");
    if (attribute == 117)
        *value = !std::getenv("WEFT_STANDIN_NO_HOST_FLUSH");
    else if (attribute == 118)
        *value = ordered ? 100 : 0;
    else
        return invalid_value;
    return success;
}

int cuCtxGetDevice(int* device)
{
    *device = current ? device_of(current) : 0;
    return usable() ? success : invalid_context;
}

int cuFlushGPUDirectRDMAWrites(int, int)
{
    if (!usable())
        return invalid_context;
    if (std::getenv("WEFT_STANDIN_NO_FLUSH"))
        return not_supported;
    std::fputs("stand-in: flushed\n", stderr);
    return success;
}

int cuCtxGetCurrent(void** context)
{
    *context = current;
    return success;
}

int cuCtxSetCurrent(void* context)
{
    auto* const known = std::ranges::find_if(contexts, [&](const auto& one) { return &one == context; });
    if (context && (known == contexts.end() || known->retained <= 0))
        return invalid_value;
    current = context ? known : nullptr;
    return success;
}

int cuMemAlloc_v2(std::uint64_t* pointer, std::size_t bytes)
{
    if (!usable())
        return invalid_context;
    if (bytes > std::size_t{1} << 30)
        return out_of_memory;
    const char* bar = std::getenv("WEFT_STANDIN_BAR");
    const int fd = bar ? bar_range(bar, bytes) : memfd_create("stand-in", MFD_CLOEXEC);
    if (fd < 0 || (!bar && ftruncate(fd, static_cast<off_t>(bytes))))
        return out_of_memory;
    void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED)
        return out_of_memory;
    const std::lock_guard held(lock);
    *pointer = reinterpret_cast<std::uintptr_t>(at) | device_bit;
    allocations[*pointer] = {bytes, fd, current};
    return success;
}

int cuMemFree_v2(std::uint64_t pointer)
{
    const std::lock_guard held(lock);
    const auto found = allocations.find(pointer);
    if (found == allocations.end())
        return invalid_value;
    const auto* start = reinterpret_cast<const std::byte*>(pointer & ~device_bit);
    std::erase_if(pending, [&](const Pending& copy) {
        return copy.to >= start && copy.to < start + found->second.size;
    });
    munmap(reinterpret_cast<void*>(pointer & ~device_bit), found->second.size);
    close(found->second.fd);
    allocations.erase(found);
    return success;
}

int cuPointerGetAttribute(void* data, int attribute, std::uint64_t pointer)
{
    if (!find(pointer, 1)) {
        const std::lock_guard held(lock);
        const auto page = pinned.find(reinterpret_cast<const void*>(pointer));
        if (attribute != 1 || page == pinned.end())
            return invalid_value;
        *static_cast<void**>(data) = page->second;
        return success;
    }
    const std::lock_guard held(lock);
    const auto& [start, allocation] = *std::prev(allocations.upper_bound(pointer));
    if (attribute == 1)
        *static_cast<void**>(data) = std::getenv("WEFT_STANDIN_NO_CONTEXT") ? nullptr : allocation.context;
    else if (attribute == 2)
        *static_cast<unsigned*>(data) = 2;
    else if (attribute == 9)
        *static_cast<int*>(data) = device_of(allocation.context);
    else if (attribute == 11)
        *static_cast<std::uint64_t*>(data) = start;
    else if (attribute == 12)
        *static_cast<std::size_t*>(data) = allocation.size;
    else
        return invalid_value;
    return success;
}

int cuMemGetAddressRange_v2(std::uint64_t* base, std::size_t* size, std::uint64_t pointer)
{
    if (!usable())
        return invalid_context;
    if (!find(pointer, 1))
        return invalid_value;
    const std::lock_guard held(lock);
    const auto& [start, allocation] = *--allocations.upper_bound(pointer);
    *base = start;
    *size = allocation.size;
    if (const char* mappings = std::getenv("WEFT_STANDIN_MAPPINGS")) {
        const auto each = std::strtoull(mappings, nullptr, 10);
        *base += (pointer - start) / each * each;
        *size = std::min<std::size_t>(each, start + allocation.size - *base);
    }
    return success;
}

int cuMemGetHandleForAddressRange(void* handle, std::uint64_t pointer, std::size_t bytes, int,
                                  unsigned long long)
{
    if (!usable())
        return invalid_context;
    if (!std::getenv("WEFT_STANDIN_DMABUF") && !std::getenv("WEFT_STANDIN_BAR"))
        return not_supported;
    if (!find(pointer, 1))
        return invalid_value;
    const std::lock_guard held(lock);
    const auto& [start, allocation] = *std::prev(allocations.upper_bound(pointer));
    // An allocation has whole pages, and the caller asks for those.
    if (pointer + bytes > start + (allocation.size + 4095) / 4096 * 4096)
        return invalid_value;
    *static_cast<int*>(handle) = dup(allocation.fd);
    return success;
}

int cuMemHostRegister_v2(void* data, std::size_t, unsigned)
{
    if (!usable())
        return invalid_context;
    const std::lock_guard held(lock);
    return pinned.emplace(data, current).second ? success : already_registered;
}

int cuMemHostUnregister(void* data)
{
    if (!usable())
        return invalid_context;
    const std::lock_guard held(lock);
    return pinned.erase(data) ? success : invalid_value;
}

int cuStreamCreate(void** stream, unsigned)
{
    if (!usable())
        return invalid_context;
    *stream = make<Stream>();
    return success;
}

int cuStreamDestroy_v2(void* stream)
{
    unmake(living<Stream>(stream));
    return success;
}

int cuStreamSynchronize(void* stream)
{
    if (!usable())
        return invalid_context;
    if (std::getenv("WEFT_STANDIN_CAPTURING") || breaks_graph())
        return not_while_capturing;
    if (stream)
        living<Stream>(stream).wait();
    else
        arrive();
    return success;
}

int cuStreamIsCapturing(void*, int* status)
{
    *status = std::getenv("WEFT_STANDIN_CAPTURING") ? 1 : 0;
    return success;
}

int cuThreadExchangeStreamCaptureMode(int* mode)
{
    std::swap(*mode, capture_mode);
    return success;
}

int cuEventCreate(void** event, unsigned)
{
    if (!usable())
        return invalid_context;
    *event = make<Event>();
    return success;
}

int cuEventDestroy_v2(void* event)
{
    unmake(living<Event>(event));
    return success;
}

int cuEventRecord(void* event, void* stream)
{
    auto* record = &living<Event>(event);
    unsigned number = 0;
    {
        const std::lock_guard held(record->mutex);
        number = ++record->recorded;
    }
    living<Stream>(stream).add([record, number] {
        const std::lock_guard held(record->mutex);
        record->reached = number;
    });
    return success;
}

int cuEventQuery(void* event)
{
    if (breaks_graph())
        return not_while_capturing;
    auto* record = &living<Event>(event);
    const std::lock_guard held(record->mutex);
    return record->reached == record->recorded ? success : not_ready;
}

int cuMemcpyHtoD_v2(std::uint64_t to, const void* from, std::size_t bytes)
{
    if (breaks_graph())
        return not_while_capturing;
    auto* at = find(to, bytes);
    if (!at)
        return invalid_value;
    if (!usable())
        return invalid_context;
    const auto* data = static_cast<const std::byte*>(from);
    const std::lock_guard held(lock);
    pending.push_back({at, {data, data + bytes}});
    return success;
}

int cuMemcpyDtoH_v2(void* to, std::uint64_t from, std::size_t bytes)
{
    if (breaks_graph())
        return not_while_capturing;
    const auto* at = find(from, bytes);
    if (!at)
        return invalid_value;
    if (!usable())
        return invalid_context;
    arrive();
    std::memcpy(to, at, bytes);
    return success;
}

int cuMemcpyHtoDAsync_v2(std::uint64_t to, const void* from, std::size_t bytes, void* stream)
{
    if (!usable())
        return invalid_context;
    if (!find(to, bytes))
        return invalid_value;
    living<Stream>(stream).add([=] { copy_bytes(find(to, bytes), from, bytes); });
    return success;
}

int cuMemcpyDtoHAsync_v2(void* to, std::uint64_t from, std::size_t bytes, void* stream)
{
    if (!usable())
        return invalid_context;
    if (std::getenv("WEFT_STANDIN_BROKEN_COPIES"))
        return launch_failed;
    if (!find(from, bytes))
        return invalid_value;
    living<Stream>(stream).add([=] { copy_bytes(static_cast<std::byte*>(to), find(from, bytes), bytes); });
    return success;
}

int cuLaunchHostFunc(void* stream, void (*function)(void*), void* data)
{
    living<Stream>(stream).add([=] { function(data); });
    return success;
}

} // extern "C"
