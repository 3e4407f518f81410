// SPDX-License-Identifier: GPL-2.0-only
#include "peer_memory.hpp"

#include "uapi/weft_mem.h"
#include "uapi/weft_p2p.h"

#include <cerrno>
#include <cstring>
#include <dlfcn.h>
#include <fcntl.h>
#include <filesystem>
#include <sys/ioctl.h>

namespace weft
{

namespace fs = std::filesystem;

namespace
{

constexpr std::size_t piece = 64 << 10;

/// A library that is there or not.
class shared_library
{
public:
    explicit shared_library(const char* name) : handle_(::dlopen(name, RTLD_NOW | RTLD_LOCAL)) {}
    ~shared_library()
    {
        if (handle_)
            ::dlclose(handle_);
    }
    shared_library(const shared_library&) = delete;
    shared_library& operator=(const shared_library&) = delete;
    [[nodiscard]] explicit operator bool() const { return handle_ != nullptr; }
    /// False where there is no such function.
    template <typename Function>
    [[nodiscard]] bool find(Function*& function, const char* name) const
    {
        function = reinterpret_cast<Function*>(::dlsym(handle_, name));
        return function != nullptr;
    }

private:
    void* handle_;
};

class bar_memory final : public peer_memory
{
public:
    bar_memory(unique_fd fd, std::string name) : fd_(std::move(fd)), name_(std::move(name)) {}
    [[nodiscard]] int fd() const override { return fd_.get(); }
    [[nodiscard]] std::size_t size() const override { return piece; }
    [[nodiscard]] const std::string& name() const override { return name_; }

private:
    unique_fd fd_;
    std::string name_;
};

void find_bars(peer_memories& found)
{
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator("/dev/weft", ignored)) {
        const auto file = entry.path().filename().string();
        if (file.rfind("bar-", 0) != 0)
            continue;
        const auto name = "the BAR of " + file.substr(4);
        const unique_fd device(::open(entry.path().c_str(), O_RDWR | O_CLOEXEC));
        weft_bar_export request{};
        request.length = piece;
        if (!device)
            found.refusals.push_back(
                fmt::format("{}: {}: {}", name, entry.path().string(), std::strerror(errno)));
        else if (::ioctl(device.get(), WEFT_BAR_IOC_EXPORT, &request) < 0)
            found.refusals.push_back(
                fmt::format("{}: {}", name, request.why[0] ? request.why : std::strerror(errno)));
        else
            found.memories.push_back(std::make_unique<bar_memory>(unique_fd(request.fd), name));
    }
}

// The CUDA driver API, as far as it is needed: types and values of its documented ABI.
using cu_result = int;
using cu_device = int;
using cu_context = void*;
using cu_pointer = unsigned long long;
constexpr int cu_handle_dma_buf = 1; // CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD

struct cuda_api {
    cu_result (*init)(unsigned);
    cu_result (*device_count)(int*);
    cu_result (*device_get)(cu_device*, int);
    cu_result (*device_name)(char*, int, cu_device);
    cu_result (*device_bus_id)(char*, int, cu_device);
    cu_result (*context_retain)(cu_context*, cu_device);
    cu_result (*context_release)(cu_device);
    cu_result (*context_set)(cu_context);
    cu_result (*allocate)(cu_pointer*, std::size_t);
    cu_result (*release)(cu_pointer);
    cu_result (*handle)(void*, cu_pointer, std::size_t, int, unsigned long long);

    [[nodiscard]] bool load(const shared_library& cuda)
    {
        return cuda.find(init, "cuInit") && cuda.find(device_count, "cuDeviceGetCount") &&
               cuda.find(device_get, "cuDeviceGet") && cuda.find(device_name, "cuDeviceGetName") &&
               cuda.find(device_bus_id, "cuDeviceGetPCIBusId") &&
               cuda.find(context_retain, "cuDevicePrimaryCtxRetain") &&
               cuda.find(context_release, "cuDevicePrimaryCtxRelease_v2") &&
               cuda.find(context_set, "cuCtxSetCurrent") && cuda.find(allocate, "cuMemAlloc_v2") &&
               cuda.find(release, "cuMemFree_v2") && cuda.find(handle, "cuMemGetHandleForAddressRange");
    }
};

/// libcuda with its functions; lives as long as memory of it.
struct cuda_library {
    shared_library library{"libcuda.so.1"};
    cuda_api api{};
};

class cuda_memory final : public peer_memory
{
public:
    // A GPU's pages are of this size, and a range that is handed out is whole pages.
    static constexpr std::size_t bytes = 2 << 20;

    static result<std::unique_ptr<peer_memory>> make(std::shared_ptr<cuda_library> cuda, int index)
    {
        std::unique_ptr<cuda_memory> memory(new cuda_memory(std::move(cuda)));
        if (const auto error = memory->fill(index); !error.empty())
            return fail(exit_code::failure, "GPU {}{}", index,
                        (memory->name_.empty() ? "" : " (" + memory->name_ + ")") + ": " + error);
        return memory;
    }
    ~cuda_memory() override
    {
        fd_ = unique_fd();
        if (pointer_)
            cuda_->api.release(pointer_);
        if (retained_)
            cuda_->api.context_release(device_);
    }
    cuda_memory(const cuda_memory&) = delete;
    cuda_memory& operator=(const cuda_memory&) = delete;
    [[nodiscard]] int fd() const override { return fd_.get(); }
    [[nodiscard]] std::size_t size() const override { return bytes; }
    [[nodiscard]] const std::string& name() const override { return name_; }

private:
    explicit cuda_memory(std::shared_ptr<cuda_library> cuda) : cuda_(std::move(cuda)) {}

    std::string fill(int index)
    {
        const auto& api = cuda_->api;
        char model[96] = "", bus[32] = "";
        cu_context context = nullptr;
        if (const auto e = api.device_get(&device_, index))
            return fmt::format("cuDeviceGet fails with {}", e);
        if (!api.device_name(model, sizeof(model), device_) && !api.device_bus_id(bus, sizeof(bus), device_))
            name_ = fmt::format("memory of {} at {}", model, bus);
        if (const auto e = api.context_retain(&context, device_))
            return fmt::format("cuDevicePrimaryCtxRetain fails with {}", e);
        retained_ = true;
        if (const auto e = api.context_set(context))
            return fmt::format("cuCtxSetCurrent fails with {}", e);
        if (const auto e = api.allocate(&pointer_, bytes))
            return fmt::format("cuMemAlloc of {} bytes fails with {}", bytes, e);
        int fd = -1;
        if (const auto e = api.handle(&fd, pointer_, bytes, cu_handle_dma_buf, 0))
            return fmt::format("its driver hands out no dma-buf (cuMemGetHandleForAddressRange fails with "
                               "{}); the open kernel modules do",
                               e);
        fd_ = unique_fd(fd);
        return {};
    }

    std::shared_ptr<cuda_library> cuda_;
    cu_device device_ = 0;
    bool retained_ = false;
    cu_pointer pointer_ = 0;
    unique_fd fd_;
    std::string name_;
};

void find_gpus(peer_memories& found)
{
    auto cuda = std::make_shared<cuda_library>();
    if (!cuda->library)
        return;
    int count = 0;
    if (!cuda->api.load(cuda->library)) {
        found.refusals.emplace_back(
            "libcuda.so.1 is too old to hand out memory as dma-buf: it takes CUDA 11.7");
        return;
    }
    if (const auto e = cuda->api.init(0); e || cuda->api.device_count(&count)) {
        found.refusals.push_back(fmt::format("cuInit fails with {}", e));
        return;
    }
    for (int i = 0; i < count; i++) {
        auto memory = cuda_memory::make(cuda, i);
        if (memory)
            found.memories.push_back(std::move(*memory));
        else
            found.refusals.push_back(memory.error().text);
    }
}

// libibverbs, as far as it is needed; its structures are never looked into.
struct verbs_api {
    void** (*list)(int*);
    void (*free_list)(void**);
    const char* (*name)(void*);
    void* (*open)(void*);
    int (*close)(void*);
    void* (*alloc_pd)(void*);
    int (*dealloc_pd)(void*);
    void* (*reg_dmabuf)(void*, std::uint64_t, std::size_t, std::uint64_t, int, int);
    int (*dereg)(void*);

    [[nodiscard]] bool load(const shared_library& verbs)
    {
        return verbs.find(list, "ibv_get_device_list") && verbs.find(free_list, "ibv_free_device_list") &&
               verbs.find(name, "ibv_get_device_name") && verbs.find(open, "ibv_open_device") &&
               verbs.find(close, "ibv_close_device") && verbs.find(alloc_pd, "ibv_alloc_pd") &&
               verbs.find(dealloc_pd, "ibv_dealloc_pd") && verbs.find(reg_dmabuf, "ibv_reg_dmabuf_mr") &&
               verbs.find(dereg, "ibv_dereg_mr");
    }
};

constexpr int verbs_access = 1 | 2 | 4; // IBV_ACCESS_LOCAL_WRITE, _REMOTE_WRITE, _REMOTE_READ

result<void> register_on(const verbs_api& verbs, void* context, const std::string& device,
                         const peer_memory& memory)
{
    const std::unique_ptr<void, int (*)(void*)> pd(verbs.alloc_pd(context), verbs.dealloc_pd);
    if (!pd)
        return fail(exit_code::failure, "{}: ibv_alloc_pd: {}", device, std::strerror(errno));
    const std::unique_ptr<void, int (*)(void*)> mr(
        verbs.reg_dmabuf(pd.get(), 0, memory.size(), 0, memory.fd(), verbs_access), verbs.dereg);
    if (!mr)
        return fail(exit_code::usage, "{} registers no dma-buf of it (ibv_reg_dmabuf_mr: {})", device,
                    std::strerror(errno));
    return {};
}

} // namespace

peer_memories find_peer_memories()
{
    peer_memories found;
    find_bars(found);
    find_gpus(found);
    return found;
}

result<void> try_register(const std::string& rdma_device, const peer_memory& memory)
{
    const shared_library library("libibverbs.so.1");
    verbs_api verbs{};
    if (!library || !verbs.load(library))
        return fail(exit_code::missing,
                    "libibverbs.so.1 with ibv_reg_dmabuf_mr is not installed (libibverbs1)");
    const std::unique_ptr<void*, void (*)(void**)> devices(verbs.list(nullptr), verbs.free_list);
    for (auto* each = devices.get(); each && *each; each++) {
        if (rdma_device != verbs.name(*each))
            continue;
        const std::unique_ptr<void, int (*)(void*)> context(verbs.open(*each), verbs.close);
        if (!context)
            return fail(exit_code::failure, "{} cannot be opened: {}", rdma_device, std::strerror(errno));
        return register_on(verbs, context.get(), rdma_device, memory);
    }
    return fail(exit_code::missing, "libibverbs has no driver for {}", rdma_device);
}

result<void> try_volume(const std::string& volume, const peer_memory& memory)
{
    const auto path = "/dev/weft/" + volume;
    const unique_fd block(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    const unique_fd mem(::open((path + ".mem").c_str(), O_RDWR | O_CLOEXEC));
    if (!block || !mem)
        return fail(exit_code_of(errno), "{}{}: {}", path, block ? ".mem" : "", std::strerror(errno));
    weft_mem_target target{};
    target.fd = block.get();
    target.access = WEFT_MEM_MAY_READ;
    if (::ioctl(mem.get(), WEFT_MEM_IOC_TARGET, &target) < 0)
        return fail(exit_code_of(errno), "{}", target.why[0] ? target.why : std::strerror(errno));
    weft_mem_register request{};
    request.kind = WEFT_MEM_KIND_DMABUF;
    request.fd = memory.fd();
    request.length = memory.size();
    if (::ioctl(mem.get(), WEFT_MEM_IOC_REGISTER, &request) < 0)
        return fail(exit_code_of(errno), "{}", request.why[0] ? request.why : std::strerror(errno));
    return {};
}

} // namespace weft
