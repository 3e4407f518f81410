// SPDX-License-Identifier: LGPL-2.1-or-later
/// Internals of an engine: operations, and the slots of staged ones.
#pragma once

#include "fd.hpp"
#include "fork.hpp"
#include "memory_impl.hpp"
#include "shim/cuda.hpp"

#include <weft/engine.hpp>

#include <atomic>
#include <cerrno>
#include <liburing.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace weft
{

enum class Kind : std::uint8_t { read, write, flush };

/// In user data: the completion is of a staging slot, not of an operation.
constexpr std::uint64_t slot_mark = std::uint64_t{1} << 63;

/// An error after which the same submission may succeed.
[[nodiscard]] constexpr bool is_transient(std::int64_t result) noexcept
{
    return result == -EAGAIN || result == -EINTR;
}

/// An error after which the ring cannot be used.
[[nodiscard]] constexpr bool is_final(int result) noexcept
{
    return result < 0 && !is_transient(result) && result != -EBUSY && result != -ETIME && result != -ENOMEM;
}

/// User data of the alarm.
constexpr std::uint64_t alarm_mark = ~std::uint64_t{1};

[[nodiscard]] constexpr bool is_before(const __kernel_timespec& a, const __kernel_timespec& b) noexcept
{
    return a.tv_sec != b.tv_sec ? a.tv_sec < b.tv_sec : a.tv_nsec < b.tv_nsec;
}

/// A duration that the kernel can add to its clock: at most a century.
[[nodiscard]] inline std::chrono::nanoseconds bounded(std::chrono::nanoseconds duration) noexcept
{
    return std::min<std::chrono::nanoseconds>(duration, std::chrono::years(100));
}

[[nodiscard]] inline __kernel_timespec timespec_of(std::chrono::nanoseconds time) noexcept
{
    return {time.count() / 1'000'000'000, time.count() % 1'000'000'000};
}

/// A time on the monotonic clock for a timeout, at most a century from now.
[[nodiscard]] inline __kernel_timespec from_now(std::chrono::nanoseconds duration) noexcept
{
    return timespec_of(std::chrono::steady_clock::now().time_since_epoch() + bounded(duration));
}

/// Makes an event descriptor readable.
inline void signal_event(int fd) noexcept
{
    const std::uint64_t one = 1;
    // An error means that the counter is full, so the descriptor is readable.
    static_cast<void>(!::write(fd, &one, sizeof(one)));
}

/// Everything of the target and the registration that a submission needs. Both may be moved meanwhile, and
/// the registration may be destroyed before the last completion is handled.
struct Way {
    std::uint64_t number = 0; ///< of the target
    std::uint64_t size = 0;   ///< of the target; for a read beyond it, the size when the read began
    std::uint32_t block = 1;  ///< of the target
    int fd = -1;              ///< the target's descriptor, for I/O by file
    int mem = -1;             ///< /dev/weft/NAME.mem, if it is used
    std::uint32_t target = 0; ///< id there
    std::uint32_t memory_id = 0;
    Route route = Route::direct;
    const Memory::Impl* memory = nullptr; ///< nullptr for a flush
    shim::CuContext gpu = nullptr;        ///< the GPU to flush before a read is reported, if it needs that
};

/// Is it the error of a read that went on after a part of a block, which O_DIRECT does not take? The file
/// ended there then, and has grown.
[[nodiscard]] constexpr bool ended_within_block(std::int64_t result, std::uint64_t done,
                                                const Way& way) noexcept
{
    return result == -EINVAL && done % way.block;
}

/// The range of one submission by file.
struct FilePiece {
    std::byte* data;
    std::uint64_t length;
    std::uint64_t offset;
    bool write;
};

/// An operation that the caller requested.
struct Op {
    std::uint32_t generation = 0; ///< of its ticket; changes when it is done
    Kind kind = Kind::read;
    bool cancelled = false;
    Way way{};
    Sink* sink = nullptr;
    std::uint64_t token = 0;
    Io io{};
    std::uint64_t done = 0;         ///< bytes
    std::uint64_t end = UINT64_MAX; ///< where the first piece that is short ends
    std::uint64_t assigned = 0;     ///< bytes given to staging slots
    std::uint32_t slots = 0;        ///< number of slots that it has now
    std::int64_t result = 0;        ///< the first error
    __kernel_timespec until{};      ///< its deadline, on the monotonic clock
    bool waits = false;             ///< it waits for staging memory, between `before` and `behind`
    std::uint32_t before = 0;
    std::uint32_t behind = 0;
};

/// A completion that is to be passed to its sink.
struct Told {
    Sink* sink = nullptr;
    Completion completion;
};

/// Entries of the ring for each submission of an operation.
[[nodiscard]] constexpr unsigned entries_of(const Op& op) noexcept
{
    return op.io.deadline ? 2 : 1;
}

/// A piece of a staged operation in flight. Each unit of the staging memory has a slot. A piece of several
/// units uses the slot of the first one.
struct Slot {
    enum class State : std::uint8_t { free, io, copying, inside } state = State::free;
    std::uint32_t op = 0;
    std::uint64_t at = 0;     ///< offset in the operation
    std::uint32_t length = 0; ///< length of the piece
    std::uint32_t skip = 0;   ///< bytes before it, to the beginning of its first block
    std::uint32_t whole = 0;  ///< bytes of I/O: from there to the end of its last block
    std::uint32_t done = 0;   ///< bytes done by I/O
    std::uint32_t units = 0;
    std::byte* data = nullptr;
    shim::CuEvent event = nullptr;
};

/// Pinned pages, in units. A piece takes as many adjacent units as it needs.
class Staging
{
public:
    explicit Staging(const EngineOptions& options);
    ~Staging();
    Staging(const Staging&) = delete;
    Staging& operator=(const Staging&) = delete;
    /// Allocates and pins the pages at the first staged operation. Returns -ENOMEM; -EIO if CUDA refuses;
    /// -EXDEV if the memory is of another CUDA context than before.
    int prepare(const Memory::Impl& memory) noexcept;
    [[nodiscard]] shim::CuContext context() const noexcept { return context_; }
    /// Waits for all copies by CUDA.
    void wait_for_copies() noexcept;
    /// The kernel still has I/O on the pages: they stay as long as the process.
    void leave() noexcept;
    /// Takes a slot with room for `bytes`, at most piece_bytes; nullptr if there is none now.
    [[nodiscard]] Slot* take(std::size_t bytes) noexcept;
    void give_back(Slot& slot) noexcept;
    void give_back_all() noexcept;
    [[nodiscard]] bool has_room(std::size_t bytes) const noexcept { return find(bytes) < slots.size(); }

    std::vector<Slot> slots;
    std::size_t piece_bytes;
    unsigned copying = 0; ///< slots
    shim::CuStream stream;

private:
    [[nodiscard]] std::size_t find(std::size_t bytes) const noexcept;
    int pin() noexcept;
    [[nodiscard]] bool is_pinned() const noexcept;
    void forget() noexcept;
    void unpin() noexcept;
    std::size_t unit_bytes_;
    std::size_t free_units_;
    shim::CuContext context_ = nullptr; ///< context of all memory that CUDA stages
    bool own_stream_ = false;
    bool pinned_ = false;
    Origin origin_;
    std::byte* memory_ = nullptr;
    std::size_t bytes_ = 0;
};

struct Engine::Impl {
    explicit Impl(const EngineOptions& options);
    ~Impl();
    Impl(const Impl&) = delete;
    Impl& operator=(const Impl&) = delete;

    int start();
    [[nodiscard]] int reachable() const noexcept;
    [[nodiscard]] bool has_user() const noexcept;
    int usable() noexcept;
    void note(int result) noexcept;
    void end_all(std::int64_t error) noexcept;
    void give_up() noexcept;
    io_uring_sqe* next_sqe(unsigned wanted) noexcept;
    void link_deadline(io_uring_sqe* sqe, Op& op) noexcept;
    void cancel(std::uint64_t data) noexcept;
    void prepare(io_uring_sqe* sqe, const FilePiece& piece, const Way& way) noexcept;
    static void prepare_mem(io_uring_sqe* sqe, const Op& op) noexcept;
    bool send(std::uint32_t index) noexcept;
    static bool is_whole(const Op& op, const Target& target, const Registration::State& state) noexcept;
    static int check(Op& op, const Target& target, const Registration* memory) noexcept;
    static Way way_of(const Target& target, const Registration* memory) noexcept;
    std::optional<Ticket> begin(Kind kind, const Target& target, const Registration* memory, const Io& io,
                                std::uint64_t token, Sink* sink) noexcept;
    void finish(std::uint32_t index, std::int64_t result) noexcept;
    void advance(std::uint32_t index, std::int64_t result) noexcept;
    void take(const io_uring_cqe& cqe) noexcept;
    void flush_gpus(unsigned count) noexcept;
    [[nodiscard]] bool is_due() const noexcept;
    void tell() const noexcept;
    void settle() noexcept;
    void hand_over() noexcept;
    [[nodiscard]] bool has_room() const noexcept { return free_ops.size() > ready_count + told_count; }
    bool begin_waiting() noexcept;
    void progress(bool wait, std::optional<std::chrono::nanoseconds> timeout) noexcept;
    std::size_t deliver(Span<Completion> completions) noexcept;
    std::size_t wait(Span<Completion> completions,
                     std::optional<std::chrono::nanoseconds> timeout = std::nullopt) noexcept;
    int submit() noexcept;
    void drain() noexcept;
    [[nodiscard]] bool names(const Registration::State& memory) const noexcept;

    // Registered files.
    Result<void> attach(const Target& target);
    void detach(const Target& target) noexcept;
    [[nodiscard]] int file_index(std::uint64_t number) const noexcept;

    // Staged operations: staging.cpp.
    void pump() noexcept;
    [[nodiscard]] Slot next_piece(const Op& op) const noexcept;
    [[nodiscard]] static std::uint32_t useful(const Op& op, const Slot& slot) noexcept;
    bool fill_slot(Slot& slot, std::uint32_t index) noexcept;
    void queue(std::uint32_t index) noexcept;
    bool unqueue(std::uint32_t index) noexcept;
    void withdraw(std::uint32_t index, std::int64_t error) noexcept;
    void cancel_staged(std::uint32_t index) noexcept;
    bool empty_queue() noexcept;
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
    /// The registration of each operation in flight. Other threads read it, too.
    std::vector<std::atomic<const Registration::State*>> named;
    bool bound = false;                     ///< only one thread may use the ring
    std::atomic<pid_t> task = 0;            ///< the last thread that used it; the only one if it is bound
    int broken = 0;                         ///< an error of the ring itself, negative
    bool flushes = false;                   ///< there was an operation with Way::gpu
    std::vector<shim::CuContext> flushed;   ///< for the completions that are handled now
    std::vector<shim::CuContext> unflushed; ///< those of them that CUDA did not flush
    Origin origin;
    std::vector<std::uint32_t> free_ops;
    std::vector<Completion> ready; ///< a queue, from ready_first on
    std::size_t ready_first = 0;
    std::size_t ready_count = 0;
    std::vector<Told> told; ///< a queue, from told_first on
    std::size_t told_first = 0;
    std::size_t told_count = 0;
    std::uint64_t finished = 0;  ///< operations
    __kernel_timespec alarm{};   ///< earliest deadline of operations that wait for slots, or an earlier time
    bool alarmed = false;        ///< the alarm's timeout is in the ring
    std::uint32_t deadlines = 0; ///< number of deadlines of operations that wait for slots
    std::vector<std::uint32_t> failed; ///< operations that failed or were done before they were sent
    std::uint32_t first_staged = 0;    ///< list of operations that want slots, if staged_count > 0
    std::uint32_t last_staged = 0;
    std::uint32_t staged_count = 0;
    Staging staging;
    bool has_files = false;              ///< the ring has a table of files
    std::vector<std::uint64_t> attached; ///< numbers of targets, by index of the registered file; 0: none
    OwnedFd event;
    Awaitable* waiting = nullptr;
    Awaitable* waiting_last = nullptr;
};

} // namespace weft
