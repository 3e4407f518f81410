// SPDX-License-Identifier: LGPL-2.1-or-later
/// Memory that I/O goes to and comes from, and its registrations.
#pragma once

#include "api.hpp"
#include "error.hpp"
#include "route.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

namespace weft
{

/// A range of host memory, of a dma-buf, or of a GPU's memory. It may be used by several threads.
class WEFT_API Memory
{
public:
    /// New host memory, zeroed, in whole pages. ENOMEM.
    [[nodiscard]] static Result<Memory> allocate(std::size_t bytes);
    /// New host memory as a dma-buf, of udmabuf: what a GPU's is like, where there is no GPU. ENOENT without
    /// that driver, EACCES, EINVAL beyond its size_limit_mb.
    [[nodiscard]] static Result<Memory> allocate_udmabuf(std::size_t bytes);
    /// New memory of a GPU, by its number in CUDA, in its primary context; freed with this. ENOENT: there is
    /// no libcuda, or no such GPU. ENOMEM.
    [[nodiscard]] static Result<Memory> allocate_cuda(int gpu, std::size_t bytes);
    /// The caller's own, which outlives this.
    [[nodiscard]] static Result<Memory> of(void* data, std::size_t bytes);
    /// A range of a dma-buf (udmabuf, AMD, Intel, a BAR by weft_p2p). The descriptor is duplicated. Mapped
    /// for the CPU where its exporter lets it.
    [[nodiscard]] static Result<Memory> from_dmabuf(int fd, std::uint64_t offset, std::size_t bytes);
    /// CUDA device memory, of any allocation of the current context; it outlives this. Its dma-buf is taken
    /// where the driver gives one, otherwise I/O is staged. ENOENT: there is no libcuda.
    [[nodiscard]] static Result<Memory> from_cuda(std::uint64_t device_pointer, std::size_t bytes);

    Memory(Memory&& other) noexcept;
    Memory& operator=(Memory&& other) noexcept;
    ~Memory();

    /// Copies bytes into it or out of it, by the CPU or by CUDA, and waits for that. 0, or EINVAL beyond its
    /// end, EOPNOTSUPP where neither reaches it, EIO. No I/O on these bytes is in flight.
    [[nodiscard]] int copy_in(std::size_t offset, const void* from, std::size_t bytes) const noexcept;
    [[nodiscard]] int copy_out(std::size_t offset, void* to, std::size_t bytes) const noexcept;

    [[nodiscard]] std::size_t size() const noexcept;
    /// For the CPU; nullptr where it cannot be reached.
    [[nodiscard]] std::byte* data() const noexcept;
    /// CUDA's device pointer, 0 where it is none.
    [[nodiscard]] std::uint64_t device_pointer() const noexcept;
    /// CUDA's context of that; nullptr where there is none.
    [[nodiscard]] void* cuda_context() const noexcept;
    /// Why a GPU's memory has no dma-buf; empty where it has one.
    [[nodiscard]] const std::string& reason() const noexcept;

    struct WEFT_HIDDEN Impl;

private:
    explicit Memory(std::unique_ptr<Impl> impl) noexcept;
    std::unique_ptr<Impl> impl_;
    friend class Target;
    friend class Engine;
};

/// What a registration may do. The default is strict: direct, and registered for each command.
struct Policy {
    bool direct = true;      ///< false: not even where it could be, to compare
    bool vmap = false;       ///< software RDMA may move the bytes by the CPU's mapping
    bool bounce = false;     ///< the kernel may copy them through its pages
    bool staged = false;     ///< this process may copy them through pinned pages
    bool read_only = false;  ///< I/O may only write it to the target
    bool persistent = false; ///< registered once: every target of the volume is trusted with it
};

/// A memory that I/O on a target can name. Ends with this: it waits for what is in flight on it.
class WEFT_API Registration
{
public:
    Registration(Registration&& other) noexcept;
    Registration& operator=(Registration&& other) noexcept;
    Registration(const Registration&) = delete;
    Registration& operator=(const Registration&) = delete;
    ~Registration();
    [[nodiscard]] Route route() const noexcept { return route_; }
    [[nodiscard]] const Memory& memory() const noexcept { return *memory_; }
    /// Why there is no direct route, where there is none; the kernel's sentence, or ours. Empty for a direct
    /// one, and for `cached`.
    [[nodiscard]] const std::string& reason() const noexcept { return reason_; }

private:
    Registration(const Memory& memory, Route route) noexcept : memory_(&memory), route_(route) {}
    void end() noexcept;
    const Memory* memory_;
    Route route_;
    int mem_ = -1; ///< /dev/weft/NAME.mem, where it is registered there
    std::uint32_t id_ = 0;
    std::string reason_;
    friend class Target;
    friend class Engine;
};

} // namespace weft
