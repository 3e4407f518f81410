// SPDX-License-Identifier: LGPL-2.1-or-later
#include "engine_impl.hpp"

#include "failure.hpp"
#include "faults.hpp"

#include "uapi/weft_mem.h"

#include <algorithm>
#include <cerrno>
#include <sys/eventfd.h>

namespace weft
{

namespace
{

// Completions of cancellations and timeouts tell nobody anything.
constexpr std::uint64_t nobody = ~std::uint64_t{0};

} // namespace

Engine::Impl::Impl(const EngineOptions& wanted)
    : options(wanted), ops(wanted.entries), ready(wanted.entries), staging(wanted)
{
    free_ops.reserve(wanted.entries);
    for (unsigned i = wanted.entries; i > 0; i--)
        free_ops.push_back(i - 1);
    staged.reserve(wanted.entries);
    failed.reserve(wanted.entries);
}

Engine::Impl::~Impl()
{
    if (!started)
        return;
    // Nothing may be written to memory after this.
    while (free_ops.size() < ops.size()) {
        progress(true, std::nullopt);
        ready_first = ready_count = 0;
    }
    // CUDA's function for the descriptor comes behind the copy that was waited for.
    staging.wait_for_copies();
    faults::ring_ends();
    io_uring_queue_exit(&ring);
}

int Engine::Impl::start()
{
    io_uring_params params{};
    params.flags = IORING_SETUP_SQE128 | IORING_SETUP_CQSIZE | IORING_SETUP_CLAMP;
    // A deadline and a cancellation each have a completion of their own.
    params.cq_entries = options.entries * 4;
    if (options.sqpoll)
        params.flags |= IORING_SETUP_SQPOLL;
    else
        params.flags |= IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN;
    if (options.iopoll)
        params.flags |= IORING_SETUP_IOPOLL;
    const auto wanted = params;
    // One with a deadline takes two entries of the submission queue.
    int result = io_uring_queue_init_params(2 * options.entries, &ring, &params);
    // Before 6.1 completions came by interrupting the thread.
    if (result == -EINVAL && !options.sqpoll) {
        params = wanted;
        params.flags &= ~(IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN);
        result = io_uring_queue_init_params(2 * options.entries, &ring, &params);
    }
    started = !result;
    if (started)
        faults::ring_made();
    return result;
}

io_uring_sqe* Engine::Impl::next_sqe(unsigned wanted) noexcept
{
    if (io_uring_sq_space_left(&ring) < wanted) {
        io_uring_submit(&ring);
        // A kernel thread takes them in its own time.
        if (options.sqpoll)
            io_uring_sqring_wait(&ring);
    }
    return io_uring_sq_space_left(&ring) < wanted ? nullptr : io_uring_get_sqe(&ring);
}

void Engine::Impl::prepare(io_uring_sqe* sqe, const FilePiece& piece, const Target& target) noexcept
{
    const auto length = faults::shorten(piece.length);
    const int stalled = faults::stalled();
    const int index = stalled >= 0 ? -1 : file_index(target);
    const int fd = stalled >= 0 ? stalled : index >= 0 ? index : target.fd_;
    if (piece.write)
        io_uring_prep_write(sqe, fd, piece.data, length, piece.offset);
    else
        io_uring_prep_read(sqe, fd, piece.data, length, piece.offset);
    if (index >= 0)
        sqe->flags |= IOSQE_FIXED_FILE;
}

void Engine::Impl::prepare_mem(io_uring_sqe* sqe, const Op& op) noexcept
{
    const auto* target = op.target;
    weft_mem_cmd command{};
    command.target = target->id_;
    if (op.kind != Kind::flush) {
        command.memory = op.memory->id_;
        command.offset = op.io.offset;
        command.memory_offset = op.io.memory_offset;
        command.length = op.io.length;
    }
    io_uring_prep_rw(IORING_OP_URING_CMD, sqe, target->mem_, nullptr, 0, 0);
    sqe->cmd_op = op.kind == Kind::read    ? WEFT_MEM_CMD_READ
                  : op.kind == Kind::write ? WEFT_MEM_CMD_WRITE
                                           : WEFT_MEM_CMD_FLUSH;
    // Its type has room for what an entry of 64 bytes has; in this ring they have 128.
    const auto payload = reinterpret_cast<std::uintptr_t>(sqe) + offsetof(io_uring_sqe, cmd);
    std::memcpy(reinterpret_cast<void*>(payload), &command, sizeof(command));
}

/// An operation of one submission; false where the ring has no room at all.
bool Engine::Impl::send(std::uint32_t index) noexcept
{
    auto& op = ops[index];
    auto* sqe = next_sqe(entries_of(op));
    if (!sqe)
        return false;
    if (op.kind == Kind::flush && op.target->mem_ < 0)
        io_uring_prep_fsync(sqe, op.target->fd_, IORING_FSYNC_DATASYNC);
    else if (op.kind == Kind::flush || op.memory->id_)
        prepare_mem(sqe, op);
    else
        prepare(sqe,
                {op.memory->memory().data() + op.io.memory_offset + op.done, op.io.length - op.done,
                 op.io.offset + op.done, op.kind == Kind::write},
                *op.target);
    io_uring_sqe_set_data64(sqe, index);
    link_deadline(sqe, op);
    return true;
}

/// Behind the entry of a submission, for which next_sqe() found room: the time at which it is cancelled.
void Engine::Impl::link_deadline(io_uring_sqe* sqe, Op& op) noexcept
{
    if (!op.io.deadline)
        return;
    sqe->flags |= IOSQE_IO_LINK;
    auto* timeout = io_uring_get_sqe(&ring);
    io_uring_prep_link_timeout(timeout, &op.until, IORING_TIMEOUT_ABS);
    io_uring_sqe_set_data64(timeout, nobody);
}

void Engine::Impl::cancel(std::uint64_t data) noexcept
{
    auto* sqe = next_sqe(1);
    if (!sqe)
        return;
    io_uring_prep_cancel64(sqe, data, 0);
    io_uring_sqe_set_data64(sqe, nobody);
}

int Engine::Impl::check(const Op& op) const noexcept
{
    if (op.kind == Kind::flush)
        return 0;
    const auto& io = op.io;
    const auto& geometry = op.target->geometry();
    const auto size = op.memory->memory().size();
    if (!io.length || io.length % geometry.block_size || io.offset % geometry.block_size ||
        io.length > INT32_MAX)
        return -EINVAL;
    if (io.memory_offset > size || io.length > size - io.memory_offset)
        return -ERANGE;
    if (op.memory->route() == Route::direct && !op.memory->id_ && io.memory_offset % geometry.alignment)
        return -EINVAL;
    if (op.kind == Kind::read && io.offset >= geometry.size)
        return -ERANGE;
    if (io.deadline && io.deadline->count() <= 0)
        return -ETIME;
    return 0;
}

std::optional<Ticket> Engine::Impl::begin(Kind kind, const Target& target, const Registration* memory,
                                          const Io& io, std::uint64_t token, Sink* sink) noexcept
{
    if (free_ops.empty() || ops.size() - free_ops.size() + ready_count >= ops.size())
        return std::nullopt;
    const auto index = free_ops.back();
    free_ops.pop_back();
    auto& op = ops[index];
    op = Op{.generation = op.generation + 1,
            .kind = kind,
            .target = &target,
            .memory = memory,
            .sink = sink,
            .token = token,
            .io = io};
    const Ticket ticket{index, op.generation};
    if (io.deadline)
        op.until = from_now(*io.deadline);
    if (const int wrong = check(op)) {
        // It is told of as others are: with the next poll().
        op.result = wrong;
        failed.push_back(index);
        tell();
    } else if (memory && memory->route() == Route::staged) {
        staged.push_back(index);
        set_alarm();
    } else if (!send(index)) {
        op.result = -EBUSY;
        failed.push_back(index);
        tell();
    }
    return ticket;
}

void Engine::Impl::finish(std::uint32_t index, std::int64_t result) noexcept
{
    auto& op = ops[index];
    if (result == -ECANCELED && op.io.deadline && !op.cancelled)
        result = -ETIME;
    const Completion completion{op.token, result, op.memory ? op.memory->route() : Route::direct};
    auto* sink = op.sink;
    op.generation++;
    finished++;
    free_ops.push_back(index);
    if (sink) {
        sink->complete(completion.token, completion);
    } else {
        ready[(ready_first + ready_count) % ready.size()] = completion;
        ready_count++;
    }
}

/// A submission of an operation itself came back.
void Engine::Impl::advance(std::uint32_t index, std::int64_t result) noexcept
{
    auto& op = ops[index];
    const bool by_file = op.kind != Kind::flush && !op.memory->id_;
    if (is_transient(result) && !op.cancelled) {
        if (!send(index))
            finish(index, -EBUSY);
        return;
    }
    if (result < 0 || !by_file) {
        finish(index, result);
        return;
    }
    op.done += static_cast<std::uint32_t>(result);
    const auto at = op.io.offset + op.done;
    const bool ended = !result || op.done >= op.io.length ||
                       (op.kind == Kind::read && at >= op.target->size()) || op.cancelled;
    // A short one is no end: the rest is asked for.
    if (ended || !send(index))
        finish(index, op.done);
}

void Engine::Impl::take(const io_uring_cqe& cqe) noexcept
{
    const auto data = cqe.user_data;
    if (data == nobody)
        return;
    if (data == alarm_mark) {
        alarmed = false;
        return;
    }
    if (data & slot_mark)
        slot_done(static_cast<std::uint32_t>(data & ~slot_mark), faults::replace(cqe.res));
    else
        advance(static_cast<std::uint32_t>(data), faults::replace(cqe.res));
}

/// Whether poll() has something to do that the ring does not tell of.
bool Engine::Impl::is_due() const noexcept
{
    return !failed.empty() || ready_count || (waiting && free_ops.size() > ready_count) ||
           (!staged.empty() && std::any_of(staging.slots.begin(), staging.slots.end(),
                                           [](const Slot& slot) { return slot.state == Slot::State::free; }));
}

void Engine::Impl::tell() const noexcept
{
    if (event && is_due())
        signal_event(event.get());
}

/// What waits gets slots, and what failed is over.
void Engine::Impl::settle() noexcept
{
    pump();
    while (!failed.empty()) {
        const auto index = failed.back();
        failed.pop_back();
        finish(index, ops[index].result);
    }
}

/// Coroutines that wait for room; false where none of them got some.
bool Engine::Impl::begin_waiting() noexcept
{
    bool any = false;
    while (waiting && free_ops.size() > ready_count) {
        auto* next = waiting;
        waiting = next->next_;
        if (!waiting)
            waiting_last = nullptr;
        if (!next->begin()) {
            next->next_ = waiting;
            waiting = next;
            if (!waiting_last)
                waiting_last = next;
            break;
        }
        any = true;
    }
    return any;
}

/// What is there is taken; with `wait` there is something then, or the time is over.
void Engine::Impl::progress(bool wait, std::optional<std::chrono::nanoseconds> timeout) noexcept
{
    if (event) {
        // Before looking: what comes from here on is told of again.
        std::uint64_t times = 0;
        static_cast<void>(!::read(event.get(), &times, sizeof(times)));
    }
    const auto before = finished;
    settle();
    // What has ended already is something to come back with, and may be all that there was.
    if (finished != before)
        wait = false;
    const bool expects = free_ops.size() < ops.size();
    if (wait && expects && !staging.copying) {
        io_uring_cqe* cqe = nullptr;
        __kernel_timespec until{};
        if (timeout)
            until = {timeout->count() / 1'000'000'000, timeout->count() % 1'000'000'000};
        io_uring_submit_and_wait_timeout(&ring, &cqe, 1, timeout ? &until : nullptr, nullptr);
    } else {
        io_uring_submit_and_get_events(&ring);
    }
    unsigned head = 0, taken = 0;
    io_uring_cqe* cqe = nullptr;
    io_uring_for_each_cqe(&ring, head, cqe)
    {
        take(*cqe);
        taken++;
    }
    io_uring_cq_advance(&ring, taken);
    poll_copies(wait && !taken, timeout);
    expire();
    do
        settle();
    while (begin_waiting());
    io_uring_submit(&ring);
    if (event) {
        // What the kernel has put off it told of once, before this looked.
        io_uring_get_events(&ring);
        tell();
    }
}

std::size_t Engine::Impl::deliver(std::span<Completion> completions) noexcept
{
    const auto count = std::min<std::size_t>(completions.size(), ready_count);
    for (std::size_t i = 0; i < count; i++) {
        completions[i] = ready[ready_first];
        ready_first = (ready_first + 1) % ready.size();
    }
    ready_count -= count;
    tell();
    return count;
}

Engine::Engine(std::unique_ptr<Impl> impl) noexcept : impl_(std::move(impl)) {}
Engine::Engine(Engine&& other) noexcept = default;
Engine& Engine::operator=(Engine&& other) noexcept = default;
Engine::~Engine() = default;

Result<Engine> Engine::create(const EngineOptions& options)
{
    if (!options.entries || options.entries > 32768)
        return failure(EINVAL,
                       std::to_string(options.entries) + " entries: an engine has from 1 to 32768 of them");
    if (options.staging_slots && (!options.staging_bytes || options.staging_bytes % 4096))
        return failure(EINVAL, "a staging slot of " + std::to_string(options.staging_bytes) +
                                   " bytes is no multiple of 4096");
    auto impl = std::make_unique<Impl>(options);
    if (const int result = impl->start(); result < 0)
        return failure(-result, std::string("io_uring cannot be set up: ") + std::strerror(-result) +
                                    (result == -EPERM ? " (kernel.io_uring_disabled?)" : ""));
    return Engine(std::move(impl));
}

std::optional<Ticket> Engine::read(const Target& target, const Registration& memory, const Io& io,
                                   std::uint64_t token, Sink* sink) noexcept
{
    return impl_->begin(Kind::read, target, &memory, io, token, sink);
}

std::optional<Ticket> Engine::write(const Target& target, const Registration& memory, const Io& io,
                                    std::uint64_t token, Sink* sink) noexcept
{
    return impl_->begin(Kind::write, target, &memory, io, token, sink);
}

std::optional<Ticket> Engine::flush(const Target& target, std::uint64_t token, Sink* sink) noexcept
{
    return impl_->begin(Kind::flush, target, nullptr, {}, token, sink);
}

int Engine::submit() noexcept
{
    impl_->pump();
    const int result = io_uring_submit(&impl_->ring);
    impl_->tell();
    return result < 0 ? result : 0;
}

std::size_t Engine::poll(std::span<Completion> completions) noexcept
{
    if (impl_->ready_count < completions.size() || completions.empty())
        impl_->progress(false, std::nullopt);
    return impl_->deliver(completions);
}

std::size_t Engine::wait(std::span<Completion> completions,
                         std::optional<std::chrono::nanoseconds> timeout) noexcept
{
    if (!impl_->ready_count || completions.empty())
        impl_->progress(true, timeout);
    return impl_->deliver(completions);
}

Result<int> Engine::event_fd()
{
    if (!impl_->event) {
        OwnedFd event(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
        if (!event)
            return failure_of("eventfd");
        if (const int result = io_uring_register_eventfd(&impl_->ring, event.get()); result < 0)
            return failure_of("io_uring's eventfd", -result);
        impl_->event = std::move(event);
        // Of what was there before it nothing was told.
        signal_event(impl_->event.get());
    }
    return impl_->event.get();
}

void Engine::cancel(Ticket ticket) noexcept
{
    auto& op = impl_->ops[ticket.slot];
    if (op.generation != ticket.generation)
        return;
    op.cancelled = true;
    if (op.memory && op.memory->route() == Route::staged)
        impl_->cancel_staged(ticket.slot);
    else
        impl_->cancel(ticket.slot);
}

unsigned Engine::in_flight() const noexcept
{
    return static_cast<unsigned>(impl_->ops.size() - impl_->free_ops.size() + impl_->ready_count);
}

unsigned Engine::undelivered() const noexcept
{
    return static_cast<unsigned>(impl_->ready_count);
}

unsigned Engine::entries() const noexcept
{
    return static_cast<unsigned>(impl_->ops.size());
}

Result<void> Engine::attach(const Target& target)
{
    return impl_->attach(target);
}

void Engine::detach(const Target& target) noexcept
{
    impl_->detach(target);
}

Engine::Awaitable Engine::co_read(const Target& target, const Registration& memory, const Io& io) noexcept
{
    return {*this, false, target, memory, io};
}

Engine::Awaitable Engine::co_write(const Target& target, const Registration& memory, const Io& io) noexcept
{
    return {*this, true, target, memory, io};
}

bool Engine::Awaitable::begin() noexcept
{
    const auto kind = write_ ? Kind::write : Kind::read;
    return engine_.impl_->begin(kind, target_, &memory_, io_, 0, this).has_value();
}

void Engine::Awaitable::await_suspend(std::coroutine_handle<> handle) noexcept
{
    handle_ = handle;
    auto& impl = *engine_.impl_;
    if (!impl.waiting && begin())
        return;
    // There is no room: it begins when there is, in turn.
    next_ = nullptr;
    (impl.waiting ? impl.waiting_last->next_ : impl.waiting) = this;
    impl.waiting_last = this;
}

void Engine::Awaitable::complete(std::uint64_t, const Completion& completion) noexcept
{
    completion_ = completion;
    handle_.resume();
}

} // namespace weft
