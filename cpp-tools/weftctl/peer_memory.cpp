// SPDX-License-Identifier: GPL-2.0-only
#include "peer_memory.hpp"

#include "uapi/weft_mem.h"
#include "uapi/weft_p2p.h"

#include <shim/cuda.hpp>

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <sys/ioctl.h>

namespace weft
{

namespace fs = std::filesystem;

namespace
{

constexpr std::size_t piece = 64 << 10;

class bar_memory final : public peer_memory
{
public:
    bar_memory(OwnedFd fd, std::string name) : fd_(std::move(fd)), name_(std::move(name)) {}
    [[nodiscard]] int fd() const override { return fd_.get(); }
    [[nodiscard]] std::size_t size() const override { return piece; }
    [[nodiscard]] const std::string& name() const override { return name_; }

private:
    OwnedFd fd_;
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
        const OwnedFd device(::open(entry.path().c_str(), O_RDWR | O_CLOEXEC));
        weft_bar_export request{};
        request.length = piece;
        if (!device)
            found.refusals.push_back(
                fmt::format("{}: {}: {}", name, entry.path().string(), std::strerror(errno)));
        else if (::ioctl(device.get(), WEFT_BAR_IOC_EXPORT, &request) < 0)
            found.refusals.push_back(
                fmt::format("{}: {}", name, request.why[0] ? request.why : std::strerror(errno)));
        else
            found.memories.push_back(std::make_unique<bar_memory>(OwnedFd(request.fd), name));
    }
}

class cuda_memory final : public peer_memory
{
public:
    // The page size of GPUs; an exported range has to be whole pages.
    static constexpr std::size_t bytes = 2 << 20;

    static result<std::unique_ptr<peer_memory>> make(const shim::Cuda& cuda, int index)
    {
        std::unique_ptr<cuda_memory> memory(new cuda_memory(cuda));
        if (const auto error = memory->fill(index); !error.empty())
            return fail(exit_code::failure, "GPU {}{}", index,
                        (memory->name_.empty() ? "" : " (" + memory->name_ + ")") + ": " + error);
        return memory;
    }
    ~cuda_memory() override
    {
        fd_ = OwnedFd();
        if (pointer_)
            cuda_.release(pointer_);
        if (retained_)
            cuda_.context_release(device_);
    }
    cuda_memory(const cuda_memory&) = delete;
    cuda_memory& operator=(const cuda_memory&) = delete;
    [[nodiscard]] int fd() const override { return fd_.get(); }
    [[nodiscard]] std::size_t size() const override { return bytes; }
    [[nodiscard]] const std::string& name() const override { return name_; }

private:
    explicit cuda_memory(const shim::Cuda& cuda) : cuda_(cuda) {}

    std::string fill(int index)
    {
        char model[96] = "", bus[32] = "";
        shim::CuContext context = nullptr;
        const auto failed = [this](const char* function, shim::CuResult result) {
            return fmt::format("{}: {}", function, cuda_.describe(result));
        };
        if (const auto e = cuda_.device_get(&device_, index))
            return failed("cuDeviceGet", e);
        if (!cuda_.device_name(model, sizeof(model), device_) &&
            !cuda_.device_bus_id(bus, sizeof(bus), device_))
            name_ = fmt::format("memory of {} at {}", model, bus);
        if (const auto e = cuda_.context_retain(&context, device_))
            return failed("cuDevicePrimaryCtxRetain", e);
        retained_ = true;
        if (const auto e = cuda_.context_set(context))
            return failed("cuCtxSetCurrent", e);
        if (const auto e = cuda_.allocate(&pointer_, bytes))
            return failed("cuMemAlloc", e);
        int fd = -1;
        if (const auto e = cuda_.handle(&fd, pointer_, bytes, shim::cu_handle_dma_buf, 0))
            return "its driver exports no dma-buf; use NVIDIA's open kernel modules: " +
                   failed("cuMemGetHandleForAddressRange", e);
        fd_ = OwnedFd(fd);
        return {};
    }

    const shim::Cuda& cuda_;
    shim::CuDevice device_ = 0;
    bool retained_ = false;
    shim::CuPointer pointer_ = 0;
    OwnedFd fd_;
    std::string name_;
};

void find_gpus(peer_memories& found)
{
    const auto* cuda = shim::cuda();
    int count = 0;
    if (!cuda || cuda->device_count(&count))
        return;
    for (int i = 0; i < count; i++) {
        auto memory = cuda_memory::make(*cuda, i);
        if (memory)
            found.memories.push_back(std::move(*memory));
        else
            found.refusals.push_back(memory.error().text);
    }
}

// The needed functions of libibverbs. Its structures stay opaque.
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

    [[nodiscard]] bool load(const shim::Library& verbs)
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
    const shim::Library library("libibverbs.so.1");
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
    const OwnedFd block(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    const OwnedFd mem(::open((path + ".mem").c_str(), O_RDWR | O_CLOEXEC));
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
