// SPDX-License-Identifier: LGPL-2.1-or-later
/// I/O with io_uring.
#pragma once

#include "error.hpp"
#include "memory.hpp"
#include "target.hpp"

#include <chrono>
#ifdef __cpp_impl_coroutine
#include <coroutine>
#endif
#include <cstdint>
#include <memory>
#include <optional>

namespace weft
{

/// The range of one I/O, in bytes. A length beyond what one command of the kernel moves is split. With a
/// registration that allows the route staged, a read may be of any bytes, and host memory may begin anywhere:
/// what is not in whole blocks of the target, or not aligned, is staged. A write is in whole blocks.
struct Io {
    std::uint64_t offset = 0;        ///< in the target
    std::uint64_t memory_offset = 0; ///< in the memory
    std::uint64_t length = 0;
    /// Measured from the call of read() or write(); unset means no limit. At the deadline the I/O is
    /// cancelled and fails with ETIME. If the kernel cannot cancel it, the engine waits for its end. In both
    /// cases nothing accesses the memory after the completion.
    std::optional<std::chrono::nanoseconds> deadline = std::nullopt;
};

/// The result of one I/O.
struct Completion {
    std::uint64_t token = 0; ///< the token that the caller gave
    /// Number of bytes, or a negative errno. It is less than the length only at the end of the target.
    std::int64_t result = 0;
    Route route = Route::direct; ///< how its bytes were moved
};

struct EngineOptions {
    unsigned entries = 256; ///< largest number of I/Os in flight
    bool sqpoll = false;    ///< a kernel thread submits
    /// Any thread may use the engine, or end a registration that its I/O uses, one at a time: the caller
    /// ensures that. A thread that begins an I/O by a file lives until it ends, or the kernel ends it with
    /// EFAULT or ECANCELED. It costs some instructions an I/O.
    bool any_thread = false;
    /// Poll for completions. This works only for I/O with O_DIRECT that does not go through a .mem device.
    /// I/O in flight then cannot be cancelled, also not by its deadline, and flush() is done when it returns.
    bool iopoll = false;
    /// Staged I/O uses staging_slots * staging_bytes of pinned pages. A larger I/O is split into pieces of
    /// staging_bytes. A smaller one takes what it needs, in units of staging_bytes / 16, at least 4096 bytes.
    unsigned staging_slots = 8;
    std::size_t staging_bytes = 1 << 20;
    void* stream = nullptr; ///< CUDA stream for staged copies; nullptr: the engine makes its own
};

/// Identifies an I/O that was begun.
struct Ticket {
    std::uint32_t slot = 0;
    std::uint32_t generation = 0;
};

/// Gets completions instead of the caller of poll(). Streams, gathers and coroutines are sinks.
class WEFT_API Sink
{
public:
    /// Called in poll() or wait() of the engine, or in the destructor of the engine or of a registration. It
    /// may use the engine: begin I/O, poll, wait, run a gather or a stream. It must not destroy the engine.
    virtual void complete(std::uint64_t token, const Completion& completion) noexcept = 0;

protected:
    ~Sink() = default;
};

/// An io_uring for one thread: the first one that begins or polls I/O. It has no locks. I/O that another
/// thread begins fails with EEXIST, unless EngineOptions::any_thread is set. In a child of fork(), new I/O
/// and I/O in flight fail with ECHILD, and the parent's I/O continues. If the ring itself fails, all I/O ends
/// with its error.
///
/// After create() it allocates the pinned pages, at the first staged I/O, what attach() needs, and a little
/// at the first I/O on a GPU that needs flushes. All CUDA memory that it stages has to be of one context,
/// which has to outlive the engine. It may be moved while I/O is in flight and while gathers, streams and
/// coroutines use it.
class WEFT_API Engine
{
public:
    [[nodiscard]] static Result<Engine> create(const EngineOptions& options = {});
    Engine(Engine&& other) noexcept;
    Engine& operator=(Engine&& other) noexcept;
    /// Waits for all I/O in flight, also of gathers and streams. In another thread than the engine's it does
    /// not wait; the kernel then cancels what it can, later.
    ~Engine();

    /// Registers the target's file with the ring. This saves instructions for each I/O that does not use a
    /// .mem device, and keeps the file open until detach() or the engine's end. ENOSPC beyond 64 targets. A
    /// target stays attached when it is moved. After it is opened again, it is a new target.
    [[nodiscard]] Result<void> attach(const Target& target);
    void detach(const Target& target) noexcept;

    /// Begins an I/O; the next submit(), poll() or wait() passes it to the kernel. Returns nullopt if
    /// `entries` I/Os are in flight: call poll() first. Invalid arguments are reported in the completion. The
    /// target and the registration have to outlive the I/O.
    std::optional<Ticket> read(const Target& target, const Registration& memory, const Io& io,
                               std::uint64_t token, Sink* sink = nullptr) noexcept;
    std::optional<Ticket> write(const Target& target, const Registration& memory, const Io& io,
                                std::uint64_t token, Sink* sink = nullptr) noexcept;
    /// When it completes, all writes that completed before it began are on the medium.
    std::optional<Ticket> flush(const Target& target, std::uint64_t token, Sink* sink = nullptr) noexcept;

    /// Passes the I/O that was begun to the kernel. Returns 0 or a negative errno. EAGAIN, EBUSY, EINTR and
    /// ENOMEM are temporary; EEXIST and ECHILD are as above. After any other error the ring cannot be used.
    int submit() noexcept;
    /// Submits, and returns the completions that are available. Sinks get theirs directly; these do not
    /// count. With as many left from before as it may return, it returns these and submits nothing.
    std::size_t poll(Span<Completion> completions) noexcept;
    /// Like poll(), but waits first, if none is left from before: for any completion, also a sink's, or until
    /// the timeout. Without a timeout it returns 0 only if a sink got a completion or nothing is in flight,
    /// or in another thread than the engine's; with one, also before its end.
    std::size_t wait(Span<Completion> completions,
                     std::optional<std::chrono::nanoseconds> timeout = std::nullopt) noexcept;
    /// A descriptor, owned by the engine, that is readable from when poll() has work until poll() is called.
    /// EOPNOTSUPP with `iopoll` and without `sqpoll`: completions of such a ring are found by poll() alone.
    [[nodiscard]] Result<int> event_fd();
    /// Asks the kernel to cancel an I/O, with the next submit(), poll() or wait(). It then ends with
    /// ECANCELED, or normally if the kernel cannot cancel it. A ticket of a completed I/O, or of another
    /// engine, cancels nothing.
    void cancel(Ticket ticket) noexcept;
    /// Number of I/Os that were begun and whose completions poll() has not returned yet.
    [[nodiscard]] unsigned in_flight() const noexcept;
    /// How many of these poll() would return now.
    [[nodiscard]] unsigned undelivered() const noexcept;
    [[nodiscard]] unsigned entries() const noexcept;

    /// `co_await engine.co_read(...)` gives the completion; resumed in poll() or wait() of this engine. Await
    /// it in the expression that makes it: it refers to its arguments, and cannot be copied or moved.
    class Awaitable;
#ifdef __cpp_impl_coroutine
    [[nodiscard]] Awaitable co_read(const Target& target, const Registration& memory, const Io& io) noexcept;
    [[nodiscard]] Awaitable co_write(const Target& target, const Registration& memory, const Io& io) noexcept;
#endif

    struct WEFT_HIDDEN Impl;

private:
    explicit Engine(std::shared_ptr<Impl> impl) noexcept;
    std::shared_ptr<Impl> impl_; ///< shared with gathers and streams
    friend class Gather;
    friend class NewFile;
    friend class ReadStream;
    friend class WriteStream;
};

#ifdef __cpp_impl_coroutine
class WEFT_API Engine::Awaitable final : public Sink
{
public:
    Awaitable(Impl& engine, bool write, const Target& target, const Registration& memory,
              const Io& io) noexcept
        : engine_(engine), write_(write), target_(target), memory_(memory), io_(io)
    {
    }
    Awaitable(const Awaitable&) = delete;
    Awaitable& operator=(const Awaitable&) = delete;
    [[nodiscard]] bool await_ready() const noexcept { return false; }
    void await_suspend(std::coroutine_handle<> handle) noexcept;
    [[nodiscard]] Completion await_resume() const noexcept { return completion_; }
    void complete(std::uint64_t token, const Completion& completion) noexcept override;

private:
    friend struct Engine::Impl;
    bool begin() noexcept;
    Impl& engine_;
    bool write_;
    const Target& target_;
    const Registration& memory_;
    Io io_;
    Completion completion_;
    std::coroutine_handle<> handle_;
    Awaitable* next_ = nullptr; ///< in the list of those that wait for room
};
#endif

} // namespace weft
