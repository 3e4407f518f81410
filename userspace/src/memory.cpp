// SPDX-License-Identifier: LGPL-2.1-or-later
#include "memory_impl.hpp"

#include "failure.hpp"
#include "faults.hpp"
#include "shim/cuda.hpp"

#include "uapi/weft_mem.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <linux/dma-buf.h>
#include <linux/udmabuf.h>
#include <map>
#include <mutex>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace weft
{

namespace
{

/// Memory of this size and more has room for large pages of 2 MiB.
constexpr std::size_t large_memory = 4 << 20;

std::size_t page_size()
{
    static const auto size = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    return size;
}

std::size_t round_up(std::size_t bytes, std::size_t to)
{
    return (bytes + to - 1) / to * to;
}

/// A GPU's primary context. It is retained at the first use and not released: engines have pinned pages and
/// streams in it.
shim::CuResult primary_context(const shim::Cuda& cuda, shim::CuDevice device, shim::CuContext& context)
{
    static std::mutex lock;
    static std::map<shim::CuDevice, shim::CuContext> retained;
    const std::lock_guard held(lock);
    const auto found = retained.find(device);
    if (found != retained.end()) {
        context = found->second;
        return shim::cu_success;
    }
    const auto result = cuda.context_retain(&context, device);
    if (!result)
        retained.emplace(device, context);
    return result;
}

enum class Flush : std::uint8_t { never, by_host, impossible };

/// Does the GPU of the current context need a flush before its kernels see what another device wrote to it?
/// If CUDA does not answer, it does.
Flush flush_of(const shim::Cuda& cuda)
{
    shim::CuDevice device = 0;
    int ordering = 0, options = 0;
    if (cuda.context_device(&device))
        return Flush::impossible;
    if (!cuda.device_attribute(&ordering, shim::cu_device_writes_ordering, device) &&
        ordering >= shim::cu_ordered_for_owner)
        return Flush::never;
    return !cuda.device_attribute(&options, shim::cu_device_flush_options, device) &&
                   options & shim::cu_flush_by_host
               ? Flush::by_host
               : Flush::impossible;
}

/// The context of device memory. Memory of a pool, or mapped by cuMemMap(), has none: use the primary
/// context of its GPU.
shim::CuResult context_of(const shim::Cuda& cuda, shim::CuPointer pointer, shim::CuContext& context)
{
    if (!cuda.pointer_attribute(&context, shim::cu_pointer_context, pointer) && context)
        return shim::cu_success;
    int number = 0;
    shim::CuDevice device = 0;
    if (const auto result = cuda.pointer_attribute(&number, shim::cu_pointer_device, pointer))
        return result;
    if (const auto result = cuda.device_get(&device, number))
        return result;
    return primary_context(cuda, device, context);
}

/// The number of bytes of an allocation from the pointer on, counted until `wanted` are found. Of memory
/// that cuMemMap() mapped, cuMemGetAddressRange() reports one mapping, and the attributes report the address
/// range that was reserved. An allocator maps as much of it as it needs, one mapping after another: PyTorch's
/// expandable segments are such.
std::expected<std::uint64_t, shim::CuResult> reach_of(const shim::Cuda& cuda, shim::CuPointer pointer,
                                                      std::uint64_t wanted)
{
    shim::CuPointer base = 0, reserved = 0;
    std::size_t size = 0, reserved_size = 0;
    if (const auto result = cuda.address_range(&base, &size, pointer))
        return std::unexpected(result);
    auto end = base + size;
    if (cuda.pointer_attribute(&reserved, shim::cu_pointer_range_start, pointer) ||
        cuda.pointer_attribute(&reserved_size, shim::cu_pointer_range_size, pointer))
        return end - pointer;
    while (end - pointer < wanted && end < reserved + reserved_size &&
           !cuda.address_range(&base, &size, end) && base == end && size)
        end += size;
    return end - pointer;
}

/// Begins or ends CPU access to a dma-buf, so that the exporter can clean caches or map windows. Returns 0
/// or an errno.
int sync(const OwnedFd& dmabuf, unsigned long long flags)
{
    if (!dmabuf)
        return 0;
    faults::synced(flags);
    dma_buf_sync request{};
    request.flags = flags;
    while (::ioctl(dmabuf.get(), DMA_BUF_IOCTL_SYNC, &request))
        // A file that is not a dma-buf, but can be mapped, needs no synchronisation.
        if (errno != EINTR && errno != EAGAIN)
            return errno == ENOTTY ? 0 : errno;
    return 0;
}

int copy_between(const OwnedFd& dmabuf, unsigned long long direction, void* to, const void* from,
                 std::size_t bytes)
{
    if (const int wrong = sync(dmabuf, DMA_BUF_SYNC_START | direction))
        return wrong;
    std::memcpy(to, from, bytes);
    return sync(dmabuf, DMA_BUF_SYNC_END | direction);
}

} // namespace

int Memory::Impl::copy_in_now(std::size_t offset, const void* from, std::size_t bytes) const noexcept
{
    return copy_between(dmabuf, DMA_BUF_SYNC_WRITE, data + offset, from, bytes);
}

int Memory::Impl::copy_out_now(std::size_t offset, void* to, std::size_t bytes) const noexcept
{
    return copy_between(dmabuf, DMA_BUF_SYNC_READ, to, data + offset, bytes);
}

Memory::Impl::~Impl()
{
    if (mapping)
        ::munmap(mapping, mapped);
    if (!allocated || origin.is_parents())
        return;
    const shim::CurrentContext current(*shim::cuda(), context);
    if (current)
        shim::cuda()->release(allocated);
}

/// Checks a copy: 0 if the CPU or CUDA can do it, else an errno.
int Memory::Impl::reach(std::size_t offset, std::size_t bytes) const noexcept
{
    if (offset > size || bytes > size - offset)
        return EINVAL;
    return data || device_pointer ? 0 : EOPNOTSUPP;
}

Memory::Memory(std::shared_ptr<Impl> impl) noexcept : impl_(std::move(impl)) {}
Memory::Memory(Memory&& other) noexcept = default;
Memory& Memory::operator=(Memory&& other) noexcept = default;
Memory::~Memory() = default;

std::size_t Memory::size() const noexcept
{
    return impl_->size;
}

int Memory::copy_in(std::size_t offset, const void* from, std::size_t bytes) const noexcept
{
    if (const int wrong = impl_->reach(offset, bytes))
        return wrong;
    if (impl_->data)
        return impl_->copy_in_now(offset, from, bytes);
    const auto* cuda = shim::cuda();
    const shim::CurrentContext current(*cuda, impl_->context);
    // A copy from pages that are not pinned may return before the bytes are in GPU memory.
    return !current || cuda->copy_to_device_now(impl_->device_pointer + offset, from, bytes) ||
                   cuda->stream_synchronize(nullptr)
               ? EIO
               : 0;
}

int Memory::copy_out(std::size_t offset, void* to, std::size_t bytes) const noexcept
{
    if (const int wrong = impl_->reach(offset, bytes))
        return wrong;
    if (impl_->data)
        return impl_->copy_out_now(offset, to, bytes);
    const auto* cuda = shim::cuda();
    const shim::CurrentContext current(*cuda, impl_->context);
    return !current || cuda->copy_to_host_now(to, impl_->device_pointer + offset, bytes) ? EIO : 0;
}

std::byte* Memory::data() const noexcept
{
    return impl_->data;
}

std::uint64_t Memory::device_pointer() const noexcept
{
    return impl_->device_pointer;
}

void* Memory::cuda_context() const noexcept
{
    return impl_->context;
}

const std::string& Memory::reason() const noexcept
{
    return impl_->reason;
}

Result<Memory> Memory::allocate(std::size_t bytes)
{
    if (!bytes || bytes > SIZE_MAX - page_size())
        return failure(EINVAL, std::to_string(bytes) + " bytes are not a valid length of memory");
    auto impl = std::make_shared<Impl>();
    impl->mapped = round_up(bytes, page_size());
    impl->mapping = ::mmap(nullptr, impl->mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (impl->mapping == MAP_FAILED) {
        impl->mapping = nullptr;
        return failure_of(std::to_string(bytes) + " bytes of memory");
    }
    // Large pages are made and pinned with less work. A kernel without them does without.
    if (impl->mapped >= large_memory)
        static_cast<void>(::madvise(impl->mapping, impl->mapped, MADV_HUGEPAGE));
    impl->size = bytes;
    impl->data = static_cast<std::byte*>(impl->mapping);
    return Memory(std::move(impl));
}

Result<Memory> Memory::of(void* data, std::size_t bytes)
{
    if (!data || !bytes)
        return failure(EINVAL, "no memory was given");
    auto impl = std::make_shared<Impl>();
    impl->size = bytes;
    impl->data = static_cast<std::byte*>(data);
    return Memory(std::move(impl));
}

Result<Memory> Memory::from_dmabuf(int fd, std::uint64_t offset, std::size_t bytes)
{
    const auto end = ::lseek(fd, 0, SEEK_END);
    if (end < 0)
        return failure_of("descriptor " + std::to_string(fd) + " is not a dma-buf");
    if (!bytes || offset > static_cast<std::uint64_t>(end) ||
        bytes > static_cast<std::uint64_t>(end) - offset)
        return failure(EINVAL, "the range of " + std::to_string(bytes) + " bytes from " +
                                   std::to_string(offset) + " on is not within the dma-buf's " +
                                   std::to_string(end));
    auto impl = std::make_shared<Impl>();
    impl->dmabuf = OwnedFd(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
    if (!impl->dmabuf)
        return failure_of("descriptor " + std::to_string(fd));
    impl->dmabuf_offset = offset;
    impl->size = bytes;
    impl->mapped = static_cast<std::size_t>(end);
    impl->mapping = ::mmap(nullptr, impl->mapped, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (impl->mapping == MAP_FAILED)
        impl->mapping = nullptr;
    else
        impl->data = static_cast<std::byte*>(impl->mapping) + offset;
    return Memory(std::move(impl));
}

Result<Memory> Memory::allocate_udmabuf(std::size_t bytes)
{
    if (!bytes || bytes > SIZE_MAX - page_size())
        return failure(EINVAL, std::to_string(bytes) + " bytes are not a valid length of memory");
    const OwnedFd device(::open("/dev/udmabuf", O_RDWR | O_CLOEXEC));
    if (!device)
        return failure_of("/dev/udmabuf (modprobe udmabuf)");
    const auto size = round_up(bytes, page_size());
    const OwnedFd pages(::memfd_create("weft", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (!pages || ::ftruncate(pages.get(), static_cast<off_t>(size)) ||
        ::fcntl(pages.get(), F_ADD_SEALS, F_SEAL_SHRINK))
        return failure_of(std::to_string(bytes) + " bytes of a memfd");
    udmabuf_create request{};
    request.memfd = static_cast<__u32>(pages.get());
    request.flags = UDMABUF_FLAGS_CLOEXEC;
    request.size = size;
    const OwnedFd dmabuf(::ioctl(device.get(), UDMABUF_CREATE, &request));
    if (!dmabuf)
        return failure_of("a dma-buf of " + std::to_string(bytes) +
                          " bytes by udmabuf (its parameter size_limit_mb bounds it)");
    return from_dmabuf(dmabuf.get(), 0, bytes);
}

Result<Memory> Memory::allocate_cuda(int gpu, std::size_t bytes)
{
    const auto* cuda = shim::cuda();
    if (!cuda)
        return failure(ENOENT, shim::cuda_reason());
    const auto name = "GPU " + std::to_string(gpu);
    int count = 0;
    shim::CuDevice device = 0;
    if (const auto result = cuda->device_count(&count))
        return failure(EIO, "cuDeviceGetCount: " + cuda->describe(result));
    if (gpu < 0 || gpu >= count)
        return failure(ENOENT, "there is no " + name + ": CUDA has " + std::to_string(count));
    if (const auto result = cuda->device_get(&device, gpu))
        return failure(EIO, name + ": " + cuda->describe(result));
    shim::CuContext context = nullptr;
    if (const auto result = primary_context(*cuda, device, context))
        return failure(EIO, name + ": " + cuda->describe(result));
    const shim::CurrentContext current(*cuda, context);
    if (!current)
        return failure(EIO, name + ": its primary context cannot be used");
    // Whole GPU pages, so that a dma-buf of this memory contains no other memory.
    constexpr std::size_t gpu_page = 2 << 20;
    if (!bytes || bytes > SIZE_MAX - gpu_page)
        return failure(EINVAL, std::to_string(bytes) + " bytes are not a valid length of memory");
    shim::CuPointer pointer = 0;
    // Frees the memory if a later step fails.
    auto owner = std::make_shared<Impl>();
    if (const auto result = cuda->allocate(&pointer, round_up(bytes, gpu_page)))
        return failure(ENOMEM, std::to_string(bytes) + " bytes of " + name + ": " + cuda->describe(result));
    owner->allocated = pointer;
    owner->context = context;
    auto memory = from_cuda(pointer, bytes);
    if (memory)
        memory->impl_->allocated = std::exchange(owner->allocated, 0);
    return memory;
}

Result<Memory> Memory::from_cuda(std::uint64_t device_pointer, std::size_t bytes)
{
    const auto* cuda = shim::cuda();
    if (!cuda)
        return failure(ENOENT, shim::cuda_reason());
    auto impl = std::make_shared<Impl>();
    if (const auto result = context_of(*cuda, device_pointer, impl->context))
        return failure(EINVAL, "the pointer is not device memory of CUDA: " + cuda->describe(result));
    const shim::CurrentContext current(*cuda, impl->context);
    if (!current)
        return failure(EIO, "CUDA does not make the pointer's context current");
    const auto reach = reach_of(*cuda, device_pointer, bytes);
    if (!reach)
        return failure(EINVAL, "the pointer is not device memory of CUDA: " + cuda->describe(reach.error()));
    if (!bytes || bytes > *reach)
        return failure(EINVAL, std::to_string(bytes) + " bytes go beyond the end of their allocation, " +
                                   std::to_string(*reach) + " bytes away");
    impl->device_pointer = device_pointer;
    impl->size = bytes;
    // Export whole pages. An allocation consists of whole pages.
    const auto first = device_pointer / page_size() * page_size();
    const auto last = round_up(device_pointer + bytes, page_size());
    int fd = -1;
    const auto flush = flush_of(*cuda);
    impl->flush = flush == Flush::by_host;
    if (flush == Flush::impossible) {
        impl->reason = "bytes from an RDMA adapter are visible to this GPU only after a flush, and its "
                       "driver does not let the host flush";
    } else if (const auto result = cuda->handle(&fd, first, last - first, shim::cu_handle_dma_buf, 0)) {
        impl->reason = "the GPU's driver exports no dma-buf for it (cuMemGetHandleForAddressRange: " +
                       cuda->describe(result) + ")";
    } else {
        impl->dmabuf = OwnedFd(fd);
        impl->dmabuf_offset = device_pointer - first;
    }
    return Memory(std::move(impl));
}

Registration::Registration(std::unique_ptr<State> state) noexcept : state_(std::move(state)) {}
Registration::Registration(Registration&& other) noexcept = default;

Registration& Registration::operator=(Registration&& other) noexcept
{
    if (this != &other) {
        end();
        state_ = std::move(other.state_);
    }
    return *this;
}

Registration::~Registration()
{
    end();
}

Route Registration::route() const noexcept
{
    return state_->route;
}

const Memory& Registration::memory() const noexcept
{
    return state_->memory;
}

const std::string& Registration::reason() const noexcept
{
    return state_->reason;
}

void Registration::end() noexcept
{
    if (!state_)
        return;
    wait_for_io(*state_);
    if (state_->id && !state_->origin.is_parents())
        ::ioctl(state_->mem->get(), WEFT_MEM_IOC_UNREGISTER, &state_->id);
    state_.reset();
}

} // namespace weft
