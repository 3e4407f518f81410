// SPDX-License-Identifier: LGPL-2.1-or-later
/// Memory for I/O, and its registrations.
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

/// A range of host memory, of a dma-buf, or of GPU memory. Several threads may use it. Registrations share
/// it: it may be moved or destroyed before they end. Memory that it allocated is freed after the last
/// registration.
class WEFT_API Memory
{
public:
    /// New host memory, zeroed, in whole pages. ENOMEM.
    [[nodiscard]] static Result<Memory> allocate(std::size_t bytes);
    /// New host memory as a dma-buf of udmabuf, to test dma-bufs without a GPU. ENOENT: the driver udmabuf is
    /// missing. EACCES. EINVAL: larger than its size_limit_mb.
    [[nodiscard]] static Result<Memory> allocate_udmabuf(std::size_t bytes);
    /// New memory of a GPU, given by its number in CUDA, in its primary context. It is freed with this
    /// object. ENOENT: there is no libcuda or no such GPU. ENOMEM.
    [[nodiscard]] static Result<Memory> allocate_cuda(int gpu, std::size_t bytes);
    /// The caller's own memory. It has to outlive this object and its registrations.
    [[nodiscard]] static Result<Memory> of(void* data, std::size_t bytes);
    /// A range of a dma-buf (udmabuf, AMD, Intel, a BAR exported by weft_p2p). The descriptor is duplicated.
    /// The range is mapped for the CPU if its exporter allows that. If it is a GPU's memory, and the GPU does
    /// not order writes of other devices, the caller flushes it after reads; see docs/memory.md.
    [[nodiscard]] static Result<Memory> from_dmabuf(int fd, std::uint64_t offset, std::size_t bytes);
    /// CUDA device memory of any allocation. It has to outlive this object. Its own context is used, so the
    /// calling thread needs no context. If the driver exports it as a dma-buf, that is used; otherwise I/O is
    /// staged. Reads end with EIO if the GPU needs a flush that fails. ENOENT: libcuda is missing. EINVAL:
    /// it is not device memory, or is shorter than `bytes`. EIO: CUDA refuses its context.
    [[nodiscard]] static Result<Memory> from_cuda(std::uint64_t device_pointer, std::size_t bytes);

    Memory(Memory&& other) noexcept;
    Memory& operator=(Memory&& other) noexcept;
    ~Memory();

    /// Copies bytes into it or out of it with the CPU or CUDA, and waits for the copy. Returns 0; EINVAL
    /// beyond its end; EOPNOTSUPP if neither the CPU nor CUDA can access it; or EIO. The caller makes sure
    /// that no I/O on these bytes is in flight.
    [[nodiscard]] int copy_in(std::size_t offset, const void* from, std::size_t bytes) const noexcept;
    [[nodiscard]] int copy_out(std::size_t offset, void* to, std::size_t bytes) const noexcept;

    [[nodiscard]] std::size_t size() const noexcept;
    /// A pointer for the CPU; nullptr if the CPU cannot access it. CPU caches may be out of date for a
    /// dma-buf. copy_in() and copy_out() handle this; users of the pointer have to call DMA_BUF_IOCTL_SYNC.
    [[nodiscard]] std::byte* data() const noexcept;
    /// CUDA's device pointer; 0 if it is not CUDA memory.
    [[nodiscard]] std::uint64_t device_pointer() const noexcept;
    /// Its CUDA context; nullptr if there is none.
    [[nodiscard]] void* cuda_context() const noexcept;
    /// The reason why GPU memory has no dma-buf; empty if it has one.
    [[nodiscard]] const std::string& reason() const noexcept;

    struct WEFT_HIDDEN Impl;

private:
    explicit Memory(std::shared_ptr<Impl> impl) noexcept;
    std::shared_ptr<Impl> impl_;
    friend class Target;
    friend class Engine;
    friend class Registration;
};

/// The routes that a registration may use. The default is strict: only direct, registered for each command
/// (and cached, for host memory on a file without O_DIRECT).
struct Policy {
    bool direct = true;     ///< false: do not use the direct route, for comparison
    bool vmap = false;      ///< software RDMA may access the bytes through their CPU mapping
    bool bounce = false;    ///< the kernel may copy them through its own pages
    bool staged = false;    ///< this process may copy them through pinned pages
    bool read_only = false; ///< I/O may only write the memory to the target
    /// Registered once; all targets of the volume can then access it at any time. With `staged`, it is
    /// registered for each command where it cannot be registered once.
    bool persistent = false;
};

/// A memory that is registered for I/O on a target, and on the other targets of the same weft volume. It may
/// be moved while I/O is in flight.
///
/// Its destructor waits for the I/O in flight on it. It polls the engines of this thread, and keeps their
/// completions for their poll(). I/O of another thread's engine ends when that thread polls.
class WEFT_API Registration
{
public:
    Registration(Registration&& other) noexcept;
    Registration& operator=(Registration&& other) noexcept;
    Registration(const Registration&) = delete;
    Registration& operator=(const Registration&) = delete;
    ~Registration();
    [[nodiscard]] Route route() const noexcept;
    [[nodiscard]] const Memory& memory() const noexcept;
    /// The reason why the route is not direct. Empty for the routes direct and cached.
    [[nodiscard]] const std::string& reason() const noexcept;

    struct WEFT_HIDDEN State;

private:
    explicit Registration(std::unique_ptr<State> state) noexcept;
    void end() noexcept;
    std::unique_ptr<State> state_;
    friend class Target;
    friend class Engine;
};

} // namespace weft
