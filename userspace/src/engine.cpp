// SPDX-License-Identifier: LGPL-2.1-or-later
#include "engine_impl.hpp"

#include "failure.hpp"
#include "faults.hpp"
#include "shim/uring.hpp"

#include "uapi/weft_mem.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <mutex>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>

namespace weft
{

namespace
{

// User data of cancellations and timeouts, whose completions are ignored.
constexpr std::uint64_t no_operation = ~std::uint64_t{0};

/// All engines of this process, for registrations that end. Never destroyed: global objects may end later.
struct Engines {
    std::mutex lock;
    std::vector<Engine::Impl*> all;
};

Engines& engines()
{
    static auto* const once = new Engines;
    return *once;
}

/// Binds the ring to the calling thread. liburing 2.3 has a function for this, but does not export it.
int enable_ring(const io_uring& ring) noexcept
{
    return ::syscall(__NR_io_uring_register, ring.ring_fd, IORING_REGISTER_ENABLE_RINGS, nullptr, 0) ? -errno
                                                                                                     : 0;
}

} // namespace

std::atomic<unsigned> fork_count = 0;

void watch_forks() noexcept
{
    // A child has no engines: the objects that it sees belong to its parent.
    static const int once = ::pthread_atfork([] { engines().lock.lock(); }, [] { engines().lock.unlock(); },
                                             [] {
                                                 engines().all.clear();
                                                 engines().lock.unlock();
                                                 fork_count++;
                                             });
    static_cast<void>(once);
}

void wait_for_io(const Registration::State& memory) noexcept
{
    for (;;) {
        Engine::Impl* own = nullptr;
        Engine::Impl* other = nullptr;
        {
            const std::lock_guard held(engines().lock);
            for (auto* engine : engines().all) {
                if (!engine->names(memory))
                    continue;
                const bool used = engine->has_user();
                // Of an unbound ring whose thread has ended, any other may take the completions.
                if (engine->options.any_thread || engine->task == own_task()) {
                    own = engine;
                } else if (!used && !engine->bound) {
                    // Under the lock: this thread alone has it from now on.
                    engine->task = own_task();
                    own = engine;
                } else if (used) {
                    other = engine;
                }
            }
        }
        if (!own && !other)
            return;
        if (own)
            own->progress(true, std::nullopt);
        else
            std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
}

Engine::Impl::Impl(const EngineOptions& wanted)
    : options(wanted), ops(wanted.entries), named(wanted.entries), ready(wanted.entries),
      told(wanted.entries), staging(wanted)
{
    free_ops.reserve(wanted.entries);
    for (unsigned i = wanted.entries; i > 0; i--)
        free_ops.push_back(i - 1);
    failed.reserve(wanted.entries);
}

Engine::Impl::~Impl()
{
    if (!started)
        return;
    if (origin.is_parents()) {
        // The ring's pages are not mapped in the child, and their addresses may be in use for something else.
        ::close(ring.ring_fd);
        return;
    }
    drain();
    {
        const std::lock_guard held(engines().lock);
        std::erase(engines().all, this);
    }
    // The kernel releases a ring later. Until then it would keep the claims of attached devices.
    if (!attached.empty() && !reachable())
        io_uring_unregister_files(&ring);
    // Waits also for CUDA's callbacks that signal the descriptor; they run after the copies.
    staging.wait_for_copies();
    // Another thread's, or of a ring that has failed.
    if (broken || free_ops.size() < ops.size())
        staging.leave();
    faults::ring_ends();
    io_uring_queue_exit(&ring);
}

/// Waits for all I/O, also for that which waits for room: nothing accesses memory after it.
void Engine::Impl::drain() noexcept
{
    while ((free_ops.size() < ops.size() || told_count || waiting) && usable() != -EEXIST) {
        // Dropped, to make room for what waits: the program takes no completion any more.
        ready_first = ready_count = 0;
        progress(true, std::nullopt);
    }
}

bool Engine::Impl::names(const Registration::State& memory) const noexcept
{
    return std::any_of(named.begin(), named.end(),
                       [&](const auto& one) { return one.load(std::memory_order_acquire) == &memory; });
}

int Engine::Impl::start()
{
    io_uring_params params{};
    params.flags = IORING_SETUP_SQE128 | IORING_SETUP_CQSIZE | IORING_SETUP_CLAMP;
    // Each deadline and each cancellation has its own completion.
    params.cq_entries = options.entries * 4;
    if (options.sqpoll)
        params.flags |= IORING_SETUP_SQPOLL;
    else if (!options.any_thread)
        params.flags |= IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_R_DISABLED;
    if (options.iopoll)
        params.flags |= IORING_SETUP_IOPOLL;
    const auto wanted = params;
    // An I/O with a deadline takes two entries of the submission queue.
    int result = io_uring_queue_init_params(2 * options.entries, &ring, &params);
    // Kernels before 6.1 do not have these flags.
    if (result == -EINVAL && !options.sqpoll) {
        params = wanted;
        params.flags &= ~(IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_R_DISABLED);
        result = io_uring_queue_init_params(2 * options.entries, &ring, &params);
    }
    started = !result;
    if (started) {
        faults::ring_made();
        bound = params.flags & IORING_SETUP_SINGLE_ISSUER;
        // Keep the rings from children of fork(), which would take their parent's completions.
        io_uring_ring_dontfork(&ring);
        const std::lock_guard held(engines().lock);
        engines().all.push_back(this);
    }
    return result;
}

/// Returns 0 if this thread may use the ring, or a negative errno.
int Engine::Impl::reachable() const noexcept
{
    if (origin.is_parents())
        return -ECHILD;
    if (broken || options.any_thread)
        return broken;
    // Not the id of pthreads, which a thread may have from one that has ended.
    const auto thread = task.load(std::memory_order_relaxed);
    return !thread || thread == own_task() || (!bound && !has_user()) ? 0 : -EEXIST;
}

/// Is there a thread that can poll the I/O in flight?
bool Engine::Impl::has_user() const noexcept
{
    const auto thread = task.load(std::memory_order_relaxed);
    return !thread || !::tgkill(::getpid(), thread, 0);
}

/// Returns 0 if this thread may do I/O, or a negative errno. Binds the ring to the first thread.
int Engine::Impl::usable() noexcept
{
    if (const int wrong = reachable())
        return wrong;
    const auto thread = own_task();
    if (task.load(std::memory_order_relaxed) == thread)
        return 0;
    task.store(thread, std::memory_order_relaxed);
    if (bound)
        note(enable_ring(ring));
    return broken;
}

void Engine::Impl::note(int result) noexcept
{
    if (is_final(result) && !broken)
        broken = result;
}

/// Ends all operations with an error: no more completions will arrive.
void Engine::Impl::end_all(std::int64_t error) noexcept
{
    if (!origin.is_parents())
        staging.wait_for_copies();
    staging.copying = 0;
    staging.give_back_all();
    while (staged_count)
        unqueue(first_staged);
    failed.clear();
    for (std::uint32_t i = 0; i < ops.size(); i++)
        if (ops[i].generation % 2)
            finish(i, error);
}

/// Replaces progress() when this thread cannot use the ring: completes what can be completed.
void Engine::Impl::give_up() noexcept
{
    const int why = usable();
    do {
        // Leave the I/O of another thread's engine alone.
        if (why != -EEXIST)
            end_all(why);
        while (!failed.empty()) {
            const auto index = failed.back();
            failed.pop_back();
            finish(index, ops[index].result);
        }
        hand_over();
    } while (begin_waiting() || !failed.empty());
}

io_uring_sqe* Engine::Impl::next_sqe(unsigned wanted) noexcept
{
    if (faults::full())
        return nullptr;
    if (io_uring_sq_space_left(&ring) < wanted) {
        int submitted = io_uring_submit(&ring);
        // The kernel thread takes the entries later, and some of them earlier than others.
        while (options.sqpoll && !is_final(submitted) && io_uring_sq_space_left(&ring) < wanted) {
            io_uring_sqring_wait(&ring);
            ::sched_yield();
            submitted = io_uring_submit(&ring);
        }
    }
    return io_uring_sq_space_left(&ring) < wanted ? nullptr : io_uring_get_sqe(&ring);
}

/// Gives the kernel all entries; false if it does not take them.
bool Engine::Impl::empty_queue() noexcept
{
    while (io_uring_sq_ready(&ring)) {
        const int submitted = io_uring_submit(&ring);
        note(submitted);
        if (submitted < 0 && !is_transient(submitted))
            return false;
        if (options.sqpoll)
            ::sched_yield();
    }
    return true;
}

void Engine::Impl::prepare(io_uring_sqe* sqe, const FilePiece& piece, const Way& way) noexcept
{
    // The kernel moves less than 2 GiB at a time.
    constexpr std::uint64_t most = 1 << 30;
    const auto length = faults::shorten(static_cast<std::uint32_t>(std::min(piece.length, most)));
    const int stalled = faults::stalled();
    const int index = stalled >= 0 ? -1 : file_index(way.number);
    const int fd = stalled >= 0 ? stalled : index >= 0 ? index : way.fd;
    if (piece.write)
        io_uring_prep_write(sqe, fd, piece.data, length, piece.offset);
    else
        io_uring_prep_read(sqe, fd, piece.data, length, piece.offset);
    if (index >= 0)
        sqe->flags |= IOSQE_FIXED_FILE;
}

void Engine::Impl::prepare_mem(io_uring_sqe* sqe, const Op& op) noexcept
{
    weft_mem_cmd command{};
    command.target = op.way.target;
    if (op.kind != Kind::flush) {
        command.memory = op.way.memory_id;
        command.offset = op.io.offset + op.done;
        command.memory_offset = op.io.memory_offset + op.done;
        command.length = static_cast<std::uint32_t>(
            std::min<std::uint64_t>(op.io.length - op.done, WEFT_MEM_CMD_BYTES_MAX));
    }
    io_uring_prep_rw(IORING_OP_URING_CMD, sqe, op.way.mem, nullptr, 0, 0);
    sqe->cmd_op = op.kind == Kind::read    ? WEFT_MEM_CMD_READ
                  : op.kind == Kind::write ? WEFT_MEM_CMD_WRITE
                                           : WEFT_MEM_CMD_FLUSH;
    // The type has the payload of a 64-byte entry; entries of this ring have 128 bytes.
    const auto payload = reinterpret_cast<std::uintptr_t>(sqe) + offsetof(io_uring_sqe, cmd);
    std::memcpy(reinterpret_cast<void*>(payload), &command, sizeof(command));
}

/// Submits an operation as one entry; false if the ring has no room.
bool Engine::Impl::send(std::uint32_t index) noexcept
{
    auto& op = ops[index];
    auto* sqe = next_sqe(entries_of(op));
    if (!sqe)
        return false;
    if (op.way.mem >= 0)
        prepare_mem(sqe, op);
    else if (op.kind == Kind::flush)
        io_uring_prep_fsync(sqe, op.way.fd, IORING_FSYNC_DATASYNC);
    else
        prepare(sqe,
                {op.way.memory->data + op.io.memory_offset + op.done, op.io.length - op.done,
                 op.io.offset + op.done, op.kind == Kind::write},
                op.way);
    io_uring_sqe_set_data64(sqe, index);
    link_deadline(sqe, op);
    return true;
}

/// Links the deadline's timeout to an entry. next_sqe() has found room for both.
void Engine::Impl::link_deadline(io_uring_sqe* sqe, Op& op) noexcept
{
    // A polled ring supports neither timeouts nor cancellation.
    if (!op.io.deadline || options.iopoll)
        return;
    sqe->flags |= IOSQE_IO_LINK;
    auto* timeout = io_uring_get_sqe(&ring);
    io_uring_prep_link_timeout(timeout, &op.until, IORING_TIMEOUT_ABS);
    io_uring_sqe_set_data64(timeout, no_operation);
}

void Engine::Impl::cancel(std::uint64_t data) noexcept
{
    auto* sqe = options.iopoll ? nullptr : next_sqe(1);
    if (!sqe)
        return;
    io_uring_prep_cancel64(sqe, data, 0);
    io_uring_sqe_set_data64(sqe, no_operation);
}

Way Engine::Impl::way_of(const Target& target, const Registration* memory) noexcept
{
    Way way{.number = target.number_,
            .size = target.size(),
            .block = target.geometry().block_size,
            .fd = target.fd_};
    const auto* state = memory ? memory->state_.get() : nullptr;
    if (state) {
        way.route = state->route;
        way.memory = state->memory.impl_.get();
        way.memory_id = state->id;
    }
    if (target.mem_ && (!state || state->id)) {
        way.mem = target.mem_->get();
        way.target = target.id_;
        if (way.memory && way.memory->flush && way.route == Route::direct)
            way.gpu = way.memory->context;
    }
    return way;
}

/// Is it what the target and the devices take? If nothing may be staged, the kernel decides about memory.
bool Engine::Impl::is_whole(const Op& op, const Target& target, const Registration::State& state) noexcept
{
    const auto& geometry = target.geometry();
    if (op.io.length % geometry.block_size || op.io.offset % geometry.block_size)
        return false;
    if (op.io.memory_offset % geometry.alignment == 0)
        return true;
    if (op.way.mem < 0)
        return op.way.route != Route::direct;
    return !state.may_stage || (op.way.route == Route::direct && op.way.memory->dmabuf);
}

int Engine::Impl::check(Op& op, const Target& target, const Registration* memory) noexcept
{
    if (op.kind == Kind::flush)
        return 0;
    const auto& io = op.io;
    const auto& geometry = target.geometry();
    const auto size = op.way.memory->size;
    const auto& state = *memory->state_;
    // On another volume, its id could be another memory.
    if (state.home != target.home_)
        return -EXDEV;
    // The kernel holds the pages of the process that registered them; a child has copies.
    if (state.id && !op.way.memory->dmabuf && state.origin.is_parents())
        return -ECHILD;
    // The kernel says the same of what is registered there.
    if (op.kind == Kind::read && state.read_only)
        return -EACCES;
    if (!io.length)
        return -EINVAL;
    if (io.memory_offset > size || io.length > size - io.memory_offset)
        return -ERANGE;
    if (!is_whole(op, target, state)) {
        const bool reachable = op.way.memory->data || op.way.memory->device_pointer;
        const bool blocks = io.length % geometry.block_size == 0 && io.offset % geometry.block_size == 0;
        // A write of other bytes would have to read what is around them.
        if ((op.kind == Kind::write && !blocks) || !state.may_stage || !reachable)
            return -EINVAL;
        op.way.route = Route::staged;
        op.way.mem = -1;
        op.way.gpu = nullptr;
    }
    if (io.length > INT64_MAX || io.offset > INT64_MAX - io.length)
        return -ERANGE;
    if (op.kind == Kind::read && io.offset + io.length > geometry.size) {
        const auto end = target.size_now();
        if (io.offset >= end)
            return -ERANGE;
        op.way.size = end;
        // The kernel refuses a command that goes beyond the last block, where a file's read is short.
        const auto block = geometry.block_size;
        if (op.way.mem >= 0)
            op.io.length = std::min(op.io.length, (end - io.offset + block - 1) / block * block);
    }
    if (io.deadline && io.deadline->count() <= 0)
        return -ETIME;
    return 0;
}

std::optional<Ticket> Engine::Impl::begin(Kind kind, const Target& target, const Registration* memory,
                                          const Io& io, std::uint64_t token, Sink* sink) noexcept
{
    if (!has_room())
        return std::nullopt;
    const auto index = free_ops.back();
    free_ops.pop_back();
    auto& op = ops[index];
    op = Op{.generation = op.generation + 1,
            .kind = kind,
            .way = way_of(target, memory),
            .sink = sink,
            .token = token,
            .io = io};
    const Ticket ticket{index, op.generation};
    if (op.way.gpu && !flushes) {
        flushes = true;
        flushed.reserve(ops.size());
        unflushed.reserve(ops.size());
    }
    named[index].store(memory ? memory->state_.get() : nullptr, std::memory_order_relaxed);
    if (io.deadline)
        op.until = from_now(*io.deadline);
    const int lost = usable();
    if (const int wrong = lost ? lost : check(op, target, memory)) {
        // Completed in the next poll(), like all others.
        op.result = wrong;
        failed.push_back(index);
        tell();
    } else if (kind == Kind::flush && options.iopoll && op.way.mem < 0) {
        // A polled ring does not support fsync either.
        op.result = ::fdatasync(op.way.fd) ? -errno : 0;
        failed.push_back(index);
        tell();
    } else if (op.way.route == Route::staged) {
        queue(index);
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
    const Completion completion{op.token, result, op.way.route};
    auto* sink = op.sink;
    // The registration may be destroyed after this.
    named[index].store(nullptr, std::memory_order_release);
    op.generation++;
    finished++;
    free_ops.push_back(index);
    if (sink) {
        // Call it later: it may use the engine, whose state is not consistent now.
        told[(told_first + told_count) % told.size()] = {sink, completion};
        told_count++;
    } else {
        ready[(ready_first + ready_count) % ready.size()] = completion;
        ready_count++;
    }
}

/// Handles the completion of an operation's entry.
void Engine::Impl::advance(std::uint32_t index, std::int64_t result) noexcept
{
    auto& op = ops[index];
    const bool by_file = op.kind != Kind::flush && op.way.mem < 0;
    if (op.way.gpu && op.kind == Kind::read && result > 0 &&
        std::ranges::find(unflushed, op.way.gpu) != unflushed.end())
        result = -EIO;
    if (is_transient(result) && !op.cancelled) {
        if (!send(index))
            finish(index, -EBUSY);
        return;
    }
    if (by_file && op.kind == Kind::read && ended_within_block(result, op.done, op.way))
        result = 0;
    if (result < 0 || op.kind == Kind::flush) {
        finish(index, is_transient(result) ? -ECANCELED : result);
        return;
    }
    op.done += static_cast<std::uint64_t>(result);
    const auto at = op.io.offset + op.done;
    // Continue what was split, and a short read or write, except at the target's end. A command is not short
    // elsewhere.
    const bool is_last = at >= op.way.size || (by_file ? !result : result < WEFT_MEM_CMD_BYTES_MAX);
    if (op.done >= op.io.length || (is_last && (op.kind == Kind::read || !by_file)))
        finish(index, static_cast<std::int64_t>(op.done));
    else if (op.cancelled)
        finish(index, -ECANCELED);
    else if (!result)
        finish(index, -EIO);
    else if (!send(index))
        finish(index, -EBUSY);
}

void Engine::Impl::take(const io_uring_cqe& cqe) noexcept
{
    const auto data = cqe.user_data;
    if (data == no_operation)
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

/// Flushes the GPUs that need it, for the first `count` completions of the ring: the payload of a read goes
/// to the GPU, and its completion to the host, so the GPU may see the payload later.
void Engine::Impl::flush_gpus(unsigned count) noexcept
{
    flushed.clear();
    unflushed.clear();
    unsigned head = 0;
    io_uring_cqe* cqe = nullptr;
    io_uring_for_each_cqe(&ring, head, cqe)
    {
        if (!count--)
            break;
        if (cqe->user_data >= ops.size() || cqe->res <= 0)
            continue;
        const auto& op = ops[cqe->user_data];
        auto* const gpu = op.way.gpu;
        if (op.kind != Kind::read || !gpu || std::ranges::find(flushed, gpu) != flushed.end())
            continue;
        flushed.push_back(gpu);
        const auto* cuda = shim::cuda();
        const shim::CurrentContext current(*cuda, gpu);
        if (!current || cuda->flush_writes(shim::cu_flush_current_context, shim::cu_flush_to_owner))
            unflushed.push_back(gpu);
    }
}

/// Does poll() have work that the ring does not signal?
bool Engine::Impl::is_due() const noexcept
{
    return !failed.empty() || ready_count || told_count || (waiting && has_room()) ||
           (staged_count && staging.has_room(next_piece(ops[first_staged]).whole));
}

void Engine::Impl::tell() const noexcept
{
    if (event && is_due())
        signal_event(event.get());
}

/// Gives slots to waiting operations, and finishes failed ones.
void Engine::Impl::settle() noexcept
{
    pump();
    while (!failed.empty()) {
        const auto index = failed.back();
        failed.pop_back();
        finish(index, ops[index].result);
    }
}

/// Calls the sinks. A sink may call this function again.
void Engine::Impl::hand_over() noexcept
{
    while (told_count) {
        const auto next = told[told_first];
        told_first = (told_first + 1) % told.size();
        told_count--;
        next.sink->complete(next.completion.token, next.completion);
    }
}

/// Begins the I/O of coroutines that wait for room; false if there was no room for any.
bool Engine::Impl::begin_waiting() noexcept
{
    bool any = false;
    while (waiting && has_room()) {
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

/// Takes the available completions. With `wait` it first waits for one, or until the timeout.
void Engine::Impl::progress(bool wait, std::optional<std::chrono::nanoseconds> timeout) noexcept
{
    if (usable()) {
        give_up();
        return;
    }
    if (event) {
        // Reset it before looking: later completions signal it again.
        std::uint64_t times = 0;
        static_cast<void>(!::read(event.get(), &times, sizeof(times)));
    }
    const auto before = finished;
    settle();
    // Return operations that have ended already; there may be no others to wait for.
    if (finished != before || told_count)
        wait = false;
    const bool expects = free_ops.size() < ops.size();
    if (wait && expects && !staging.copying) {
        io_uring_cqe* cqe = nullptr;
        __kernel_timespec until{};
        if (timeout)
            until = timespec_of(bounded(*timeout));
        note(io_uring_submit_and_wait_timeout(&ring, &cqe, 1, timeout ? &until : nullptr, nullptr));
    } else {
        note(io_uring_submit_and_get_events(&ring));
    }
    // Only these: the GPUs are not flushed for later ones yet.
    const unsigned count = io_uring_cq_ready(&ring);
    if (flushes)
        flush_gpus(count);
    unsigned head = 0, taken = 0;
    io_uring_cqe* cqe = nullptr;
    io_uring_for_each_cqe(&ring, head, cqe)
    {
        if (taken == count)
            break;
        take(*cqe);
        taken++;
    }
    io_uring_cq_advance(&ring, taken);
    poll_copies(wait && !taken, timeout);
    expire();
    do {
        settle();
        hand_over();
    } while (begin_waiting() || !failed.empty());
    note(io_uring_submit(&ring));
    if (broken)
        give_up();
    else if (event) {
        // Take completions that the kernel has deferred: it signals them only once.
        io_uring_get_events(&ring);
        tell();
    }
}

std::size_t Engine::Impl::deliver(Span<Completion> completions) noexcept
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

std::size_t Engine::Impl::wait(Span<Completion> completions,
                               std::optional<std::chrono::nanoseconds> timeout) noexcept
{
    if (ready_count && !completions.empty())
        return deliver(completions);
    const auto before = finished;
    // A step may complete no I/O: it is a copy, a part of a long one, or a signal.
    do
        progress(true, timeout);
    while (!timeout && !completions.empty() && finished == before && free_ops.size() < ops.size() &&
           !usable());
    return deliver(completions);
}

int Engine::Impl::submit() noexcept
{
    if (const int wrong = usable())
        return wrong;
    pump();
    const int result = io_uring_submit(&ring);
    note(result);
    tell();
    return result < 0 ? result : 0;
}

Engine::Engine(std::shared_ptr<Impl> impl) noexcept : impl_(std::move(impl)) {}
Engine::Engine(Engine&& other) noexcept = default;

Engine& Engine::operator=(Engine&& other) noexcept
{
    if (this != &other) {
        const Engine before(std::move(*this));
        impl_ = std::move(other.impl_);
    }
    return *this;
}

Engine::~Engine()
{
    // A gather or a stream may keep `impl_` longer.
    if (impl_)
        impl_->drain();
}

Result<Engine> Engine::create(const EngineOptions& options)
{
    if (!options.entries || options.entries > 32768)
        return failure(EINVAL,
                       std::to_string(options.entries) + " entries: an engine has from 1 to 32768 of them");
    constexpr std::size_t most = 1 << 30;
    if (options.staging_slots &&
        (!options.staging_bytes || options.staging_bytes % 4096 || options.staging_bytes > most))
        return failure(EINVAL, "a staging slot of " + std::to_string(options.staging_bytes) +
                                   " bytes is not a multiple of 4096, or more than 1 GiB");
    auto impl = std::make_shared<Impl>(options);
    const int result = impl->start();
    if (result < 0) {
        const auto why = why_io_uring_fails(-result);
        return failure(-result, std::string("io_uring cannot be set up: ") + std::strerror(-result) +
                                    (why.empty() ? "" : ": " + why));
    }
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
    return impl_->submit();
}

std::size_t Engine::poll(Span<Completion> completions) noexcept
{
    if (impl_->ready_count < completions.size() || completions.empty())
        impl_->progress(false, std::nullopt);
    return impl_->deliver(completions);
}

std::size_t Engine::wait(Span<Completion> completions,
                         std::optional<std::chrono::nanoseconds> timeout) noexcept
{
    return impl_->wait(completions, timeout);
}

Result<int> Engine::event_fd()
{
    if (const int wrong = impl_->reachable())
        return failure_of("io_uring's eventfd", -wrong);
    // Completions of such a ring are found by polls alone.
    if (impl_->options.iopoll && !impl_->options.sqpoll)
        return failure(EOPNOTSUPP, "a polled ring signals no completions: call poll()");
    if (!impl_->event) {
        OwnedFd event(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
        if (!event)
            return failure_of("eventfd");
        if (const int result = io_uring_register_eventfd(&impl_->ring, event.get()); result < 0)
            return failure_of("io_uring's eventfd", -result);
        impl_->event = std::move(event);
        // Copies that have begun do not signal it.
        impl_->staging.wait_for_copies();
        // Signal completions that were available before the descriptor existed.
        signal_event(impl_->event.get());
    }
    return impl_->event.get();
}

void Engine::cancel(Ticket ticket) noexcept
{
    if (ticket.slot >= impl_->ops.size())
        return;
    auto& op = impl_->ops[ticket.slot];
    if (op.generation != ticket.generation || impl_->usable())
        return;
    op.cancelled = true;
    if (op.way.route == Route::staged)
        impl_->cancel_staged(ticket.slot);
    else
        impl_->cancel(ticket.slot);
}

unsigned Engine::in_flight() const noexcept
{
    return static_cast<unsigned>(impl_->ops.size() - impl_->free_ops.size() + impl_->ready_count +
                                 impl_->told_count);
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
    return {*impl_, false, target, memory, io};
}

Engine::Awaitable Engine::co_write(const Target& target, const Registration& memory, const Io& io) noexcept
{
    return {*impl_, true, target, memory, io};
}

bool Engine::Awaitable::begin() noexcept
{
    const auto kind = write_ ? Kind::write : Kind::read;
    return engine_.begin(kind, target_, &memory_, io_, 0, this).has_value();
}

void Engine::Awaitable::await_suspend(std::coroutine_handle<> handle) noexcept
{
    handle_ = handle;
    auto& impl = engine_;
    if (!impl.waiting && begin())
        return;
    // No room: wait in the list for some.
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
