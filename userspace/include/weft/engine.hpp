// SPDX-License-Identifier: LGPL-2.1-or-later
/// I/O by io_uring.
#pragma once

#include "error.hpp"
#include "memory.hpp"
#include "target.hpp"

#include <chrono>
#include <coroutine>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

namespace weft
{

/// Where and how much. Bytes; whole blocks of the target.
struct Io {
    std::uint64_t offset = 0;        ///< in the target
    std::uint64_t memory_offset = 0; ///< in the memory
    std::uint32_t length = 0;
    /// From read() or write() on; nothing for as long as it takes. Then it is cancelled and fails with ETIME,
    /// where the kernel can cancel it, and waited for all the same: nothing uses the memory after a
    /// completion.
    std::optional<std::chrono::nanoseconds> deadline = std::nullopt;
};

/// What became of one I/O.
struct Completion {
    std::uint64_t token = 0; ///< the caller's
    /// Bytes, fewer than asked for only where the target ends; or a negative errno.
    std::int64_t result = 0;
    Route route = Route::direct; ///< that its bytes took
};

struct EngineOptions {
    unsigned entries = 256; ///< I/O in flight at most
    bool sqpoll = false;    ///< a kernel thread submits
    bool iopoll = false;    ///< completions are polled for; targets by file with O_DIRECT alone
    unsigned staging_slots = 8;
    std::size_t staging_bytes = 1 << 20; ///< of a slot
    void* stream = nullptr;              ///< CUDA stream of staged copies; nullptr for one of its own
};

/// An I/O that was begun.
struct Ticket {
    std::uint32_t slot = 0;
    std::uint32_t generation = 0;
};

/// What is told of completions instead of poll()'s caller: streams, gathers and coroutines.
class WEFT_API Sink
{
public:
    virtual void complete(std::uint64_t token, const Completion& completion) noexcept = 0;

protected:
    ~Sink() = default;
};

/// A ring of one thread: nothing in it is shared with another, or locked. Nothing is allocated after
/// create(). CUDA memory that it stages is of one context, which outlives it.
class WEFT_API Engine
{
public:
    [[nodiscard]] static Result<Engine> create(const EngineOptions& options = {});
    Engine(Engine&& other) noexcept;
    Engine& operator=(Engine&& other) noexcept;
    /// Waits for what is in flight.
    ~Engine();

    /// Registers the target's file with the ring, which saves instructions of each I/O by file. ENOSPC
    /// beyond 64. The target outlives that, or is detached first.
    [[nodiscard]] Result<void> attach(const Target& target);
    void detach(const Target& target) noexcept;

    /// Begins an I/O with the next submit(). Nothing where `entries` are in flight: poll() first. What is
    /// wrong with its arguments comes as its completion. Target and registration outlive it.
    std::optional<Ticket> read(const Target& target, const Registration& memory, const Io& io,
                               std::uint64_t token, Sink* sink = nullptr) noexcept;
    std::optional<Ticket> write(const Target& target, const Registration& memory, const Io& io,
                                std::uint64_t token, Sink* sink = nullptr) noexcept;
    /// What was written before and is complete is on the medium when this is.
    std::optional<Ticket> flush(const Target& target, std::uint64_t token, Sink* sink = nullptr) noexcept;

    /// Tells the kernel of what was begun. Returns 0 or a negative errno.
    int submit() noexcept;
    /// Completions that are there; submits what was begun. Sinks are told theirs, and do not count.
    std::size_t poll(std::span<Completion> completions) noexcept;
    /// As poll(), after waiting until there is something: a completion of whomever, or the time is over.
    std::size_t wait(std::span<Completion> completions,
                     std::optional<std::chrono::nanoseconds> timeout = std::nullopt) noexcept;
    /// A descriptor that is readable when poll() has something to do, until it is called; the engine's own.
    [[nodiscard]] Result<int> event_fd();
    /// Asks the kernel to end it early: with ECANCELED where it can, and in its own time where not.
    void cancel(Ticket ticket) noexcept;
    /// Begun, and not handed over yet.
    [[nodiscard]] unsigned in_flight() const noexcept;
    /// Of these, what poll() would hand over.
    [[nodiscard]] unsigned undelivered() const noexcept;
    [[nodiscard]] unsigned entries() const noexcept;

    /// `co_await engine.co_read(...)` gives the completion; resumed in poll() or wait() of this engine.
    class Awaitable;
    [[nodiscard]] Awaitable co_read(const Target& target, const Registration& memory, const Io& io) noexcept;
    [[nodiscard]] Awaitable co_write(const Target& target, const Registration& memory, const Io& io) noexcept;

    struct WEFT_HIDDEN Impl;

private:
    explicit Engine(std::unique_ptr<Impl> impl) noexcept;
    std::unique_ptr<Impl> impl_;
};

class WEFT_API Engine::Awaitable final : public Sink
{
public:
    Awaitable(Engine& engine, bool write, const Target& target, const Registration& memory,
              const Io& io) noexcept
        : engine_(engine), write_(write), target_(target), memory_(memory), io_(io)
    {
    }
    [[nodiscard]] bool await_ready() const noexcept { return false; }
    void await_suspend(std::coroutine_handle<> handle) noexcept;
    [[nodiscard]] Completion await_resume() const noexcept { return completion_; }
    void complete(std::uint64_t token, const Completion& completion) noexcept override;

private:
    friend struct Engine::Impl;
    bool begin() noexcept;
    Engine& engine_;
    bool write_;
    const Target& target_;
    const Registration& memory_;
    Io io_;
    Completion completion_;
    std::coroutine_handle<> handle_;
    Awaitable* next_ = nullptr; ///< that waits for room
};

} // namespace weft
