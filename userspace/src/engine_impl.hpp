// SPDX-License-Identifier: LGPL-2.1-or-later
/// Inside an engine: operations, and the slots that staged ones go through.
#pragma once

#include "fd.hpp"
#include "shim/cuda.hpp"

#include <weft/engine.hpp>

#include <cerrno>
#include <liburing.h>
#include <unistd.h>
#include <vector>

namespace weft
{

enum class Kind : std::uint8_t { read, write, flush };

/// Of user data: a completion of a staging slot, and not of an operation itself.
constexpr std::uint64_t slot_mark = std::uint64_t{1} << 63;

/// An error that the same submission may not have again.
[[nodiscard]] constexpr bool is_transient(std::int64_t result) noexcept
{
    return result == -EAGAIN || result == -EINTR;
}

/// Of user data: the alarm.
constexpr std::uint64_t alarm_mark = ~std::uint64_t{1};

[[nodiscard]] constexpr bool is_before(const __kernel_timespec& a, const __kernel_timespec& b) noexcept
{
    return a.tv_sec != b.tv_sec ? a.tv_sec < b.tv_sec : a.tv_nsec < b.tv_nsec;
}

/// A time of the monotonic clock, as a timeout takes it; a century at most.
[[nodiscard]] inline __kernel_timespec from_now(std::chrono::nanoseconds duration) noexcept
{
    constexpr auto most = std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::years(100));
    const auto at = (std::chrono::steady_clock::now().time_since_epoch() + std::min(duration, most)).count();
    return {at / 1'000'000'000, at % 1'000'000'000};
}

/// Whoever polls it wakes up.
inline void signal_event(int fd) noexcept
{
    const std::uint64_t one = 1;
    // Full is signalled as well.
    static_cast<void>(!::write(fd, &one, sizeof(one)));
}

/// What one submission moves by file.
struct FilePiece {
    std::byte* data;
    std::uint32_t length;
    std::uint64_t offset;
    bool write;
};

/// What the caller asked for.
struct Op {
    std::uint32_t generation = 0; ///< of tickets; another when it is done
    Kind kind = Kind::read;
    bool cancelled = false;
    const Target* target = nullptr;
    const Registration* memory = nullptr;
    Sink* sink = nullptr;
    std::uint64_t token = 0;
    Io io{};
    std::uint32_t done = 0;     ///< bytes
    std::uint32_t assigned = 0; ///< bytes that staging slots have
    std::uint32_t slots = 0;    ///< that it has now
    std::int64_t result = 0;    ///< the first error
    __kernel_timespec until{};  ///< of a deadline, on the monotonic clock
};

/// Of the ring, for each submission.
[[nodiscard]] constexpr unsigned entries_of(const Op& op) noexcept
{
    return op.io.deadline ? 2 : 1;
}

/// A piece of a staged operation on its way.
struct Slot {
    enum class State : std::uint8_t { free, io, copying } state = State::free;
    std::uint32_t op = 0;
    std::uint32_t at = 0;     ///< of the operation's bytes
    std::uint32_t length = 0; ///< of the piece
    std::uint32_t done = 0;   ///< of it, by I/O
    std::byte* data = nullptr;
    shim::CuEvent event = nullptr;
};

/// Pinned pages, cut into slots.
class Staging
{
public:
    explicit Staging(const EngineOptions& options);
    ~Staging();
    Staging(const Staging&) = delete;
    Staging& operator=(const Staging&) = delete;
    /// The first staged operation finds its memory here; -ENOMEM, -EIO where CUDA refuses, -EXDEV where it
    /// is of another CUDA context than those before.
    int prepare(const Registration& memory) noexcept;
    [[nodiscard]] shim::CuContext context() const noexcept { return context_; }
    /// Nothing of CUDA's is on its way after it.
    void wait_for_copies() noexcept;

    std::vector<Slot> slots;
    std::size_t slot_bytes;
    unsigned copying = 0; ///< slots
    shim::CuStream stream;

private:
    int pin() noexcept;
    void unpin() noexcept;
    shim::CuContext context_ = nullptr; ///< of all memory that is staged by CUDA
    bool own_stream_ = false;
    bool pinned_ = false;
    std::byte* memory_ = nullptr;
    std::size_t bytes_ = 0;
};

struct Engine::Impl {
    explicit Impl(const EngineOptions& options);
    ~Impl();
    Impl(const Impl&) = delete;
    Impl& operator=(const Impl&) = delete;

    int start();
    io_uring_sqe* next_sqe(unsigned wanted) noexcept;
    void link_deadline(io_uring_sqe* sqe, Op& op) noexcept;
    void cancel(std::uint64_t data) noexcept;
    void prepare(io_uring_sqe* sqe, const FilePiece& piece, const Target& target) noexcept;
    void prepare_mem(io_uring_sqe* sqe, const Op& op) noexcept;
    bool send(std::uint32_t index) noexcept;
    int check(const Op& op) const noexcept;
    std::optional<Ticket> begin(Kind kind, const Target& target, const Registration* memory, const Io& io,
                                std::uint64_t token, Sink* sink) noexcept;
    void finish(std::uint32_t index, std::int64_t result) noexcept;
    void advance(std::uint32_t index, std::int64_t result) noexcept;
    void take(const io_uring_cqe& cqe) noexcept;
    [[nodiscard]] bool is_due() const noexcept;
    void tell() const noexcept;
    void settle() noexcept;
    bool begin_waiting() noexcept;
    void progress(bool wait, std::optional<std::chrono::nanoseconds> timeout) noexcept;
    std::size_t deliver(std::span<Completion> completions) noexcept;

    // Registered files.
    Result<void> attach(const Target& target);
    void detach(const Target& target) noexcept;
    [[nodiscard]] int file_index(const Target& target) const noexcept;

    // Staged operations: staging.cpp.
    void pump() noexcept;
    bool fill_slot(Slot& slot, std::uint32_t index) noexcept;
    void withdraw(std::uint32_t index, std::int64_t error) noexcept;
    void cancel_staged(std::uint32_t index) noexcept;
    void set_alarm() noexcept;
    void expire() noexcept;
    bool send_slot(Slot& slot) noexcept;
    void slot_done(std::uint32_t number, std::int64_t result) noexcept;
    int copy(Slot& slot) noexcept;
    void copied(Slot& slot) noexcept;
    void release(Slot& slot, std::int64_t error) noexcept;
    void wait_for_copy(std::optional<std::chrono::nanoseconds> timeout) noexcept;
    void poll_copies(bool wait, std::optional<std::chrono::nanoseconds> timeout) noexcept;

    EngineOptions options;
    io_uring ring{};
    bool started = false;
    std::vector<Op> ops;
    std::vector<std::uint32_t> free_ops;
    std::vector<Completion> ready; ///< a queue, from ready_first on
    std::size_t ready_first = 0;
    std::size_t ready_count = 0;
    std::uint64_t finished = 0;        ///< operations
    __kernel_timespec alarm{};         ///< the next deadline of what waits for slots
    bool alarmed = false;              ///< it is in the ring
    std::vector<std::uint32_t> failed; ///< before they were sent
    std::vector<std::uint32_t> staged; ///< that want slots, in turn
    Staging staging;
    std::vector<const Target*> attached; ///< by index of the registered file
    OwnedFd event;
    Awaitable* waiting = nullptr;
    Awaitable* waiting_last = nullptr;
};

} // namespace weft
