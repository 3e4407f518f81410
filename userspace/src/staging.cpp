// SPDX-License-Identifier: LGPL-2.1-or-later
/// Operations on memory that devices cannot access. They use pinned pages, and copy one piece during the I/O
/// of the next.
#include "engine_impl.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>
#include <utility>

namespace weft
{

namespace
{

constexpr std::size_t page = 4096;

void signal_copy(void* fd)
{
    signal_event(static_cast<int>(reinterpret_cast<std::intptr_t>(fd)));
}

} // namespace

Staging::Staging(const EngineOptions& options)
    : piece_bytes(options.staging_bytes), stream(options.stream),
      unit_bytes_((options.staging_bytes / 16 + page - 1) / page * page)
{
    // create() refuses a size of 0 later.
    unit_bytes_ = std::max(unit_bytes_, page);
    slots.resize((piece_bytes + unit_bytes_ - 1) / unit_bytes_ * options.staging_slots);
    free_units_ = slots.size();
}

void Staging::leave() noexcept
{
    memory_ = nullptr;
}

Staging::~Staging()
{
    // Only the parent may use CUDA.
    if (!origin_.is_parents())
        unpin();
    if (memory_)
        ::munmap(memory_, bytes_);
}

int Staging::prepare(const Memory::Impl& memory) noexcept
{
    if (slots.empty())
        return -ENOBUFS;
    if (!memory_) {
        bytes_ = slots.size() * unit_bytes_;
        void* at = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (at == MAP_FAILED)
            return -ENOMEM;
        memory_ = static_cast<std::byte*>(at);
        for (std::size_t i = 0; i < slots.size(); i++)
            slots[i].data = memory_ + i * unit_bytes_;
    }
    if (!memory.device_pointer)
        return 0;
    if (context_ && !copying && !is_pinned()) {
        // The user's stream is gone with it.
        if (stream && !own_stream_)
            return -EIO;
        forget();
    }
    if (context_)
        return context_ == memory.context ? 0 : -EXDEV;
    context_ = memory.context;
    const int wrong = pin();
    if (wrong)
        unpin();
    return wrong;
}

/// Pins the pages for copies by CUDA, in context_.
int Staging::pin() noexcept
{
    const auto* cuda = shim::cuda();
    const shim::CurrentContext current(*cuda, context_);
    if (!current)
        return -EIO;
    if (cuda->host_register(memory_, bytes_, shim::cu_host_register_portable))
        return -ENOMEM;
    pinned_ = true;
    if (!stream) {
        if (cuda->stream_create(&stream, shim::cu_stream_non_blocking))
            return -EIO;
        own_stream_ = true;
    }
    for (auto& slot : slots)
        if (cuda->event_create(&slot.event, shim::cu_event_disable_timing)) {
            slot.event = nullptr;
            return -EIO;
        }
    return 0;
}

void Staging::wait_for_copies() noexcept
{
    if (!stream || !is_pinned())
        return;
    const auto* cuda = shim::cuda();
    const shim::CurrentContext current(*cuda, context_);
    cuda->stream_synchronize(stream);
}

/// Does the context in which the pages were pinned still live? CUDA forgets pages and streams with their
/// context, and a new context may have the address of one that has ended, as each primary context of a GPU
/// has. So this checks the pages, and not the context.
bool Staging::is_pinned() const noexcept
{
    shim::CuContext of = nullptr;
    return pinned_ &&
           !shim::cuda()->pointer_attribute(&of, shim::cu_pointer_context,
                                            reinterpret_cast<std::uintptr_t>(memory_)) &&
           of == context_;
}

/// The context has ended, and with it all that was made in it: to destroy that again is not allowed.
void Staging::forget() noexcept
{
    for (auto& slot : slots)
        slot.event = nullptr;
    if (std::exchange(own_stream_, false))
        stream = nullptr;
    pinned_ = false;
    context_ = nullptr;
}

void Staging::unpin() noexcept
{
    if (is_pinned()) {
        const auto* cuda = shim::cuda();
        const shim::CurrentContext current(*cuda, context_);
        for (auto& slot : slots)
            if (slot.event)
                cuda->event_destroy(slot.event);
        if (own_stream_)
            cuda->stream_destroy(stream);
        cuda->host_unregister(memory_);
    }
    forget();
}

/// Finds enough adjacent free units: the index of the first, or slots.size() if there are none.
std::size_t Staging::find(std::size_t bytes) const noexcept
{
    const auto wanted = (bytes + unit_bytes_ - 1) / unit_bytes_;
    if (free_units_ < wanted)
        return slots.size();
    std::size_t run = 0;
    for (std::size_t i = 0; i < slots.size(); i++) {
        run = slots[i].state == Slot::State::free ? run + 1 : 0;
        if (run == wanted)
            return i + 1 - wanted;
    }
    return slots.size();
}

Slot* Staging::take(std::size_t bytes) noexcept
{
    const auto first = find(bytes);
    if (first == slots.size())
        return nullptr;
    auto& slot = slots[first];
    slot.units = static_cast<std::uint32_t>((bytes + unit_bytes_ - 1) / unit_bytes_);
    for (std::size_t i = 0; i < slot.units; i++)
        slots[first + i].state = Slot::State::inside;
    free_units_ -= slot.units;
    return &slot;
}

void Staging::give_back(Slot& slot) noexcept
{
    const auto first = static_cast<std::size_t>(&slot - slots.data());
    for (std::size_t i = 0; i < slot.units; i++)
        slots[first + i].state = Slot::State::free;
    free_units_ += slot.units;
}

void Staging::give_back_all() noexcept
{
    for (auto& slot : slots)
        slot.state = Slot::State::free;
    free_units_ = slots.size();
}

/// The next piece of an operation: its place, and its I/O in whole blocks. All but the last end with a block.
/// Its length is 0 if a slot has no room for a block.
Slot Engine::Impl::next_piece(const Op& op) const noexcept
{
    Slot slot;
    const std::uint64_t block = op.way.block;
    const auto most = staging.piece_bytes / block * block;
    if (!most)
        return slot;
    slot.at = op.assigned;
    slot.skip = static_cast<std::uint32_t>((op.io.offset + slot.at) % block);
    slot.length =
        static_cast<std::uint32_t>(std::min<std::uint64_t>(most - slot.skip, op.io.length - op.assigned));
    slot.whole = static_cast<std::uint32_t>((slot.skip + slot.length + block - 1) / block * block);
    return slot;
}

/// Bytes of the piece that its I/O has moved so far, without what is around it in its blocks.
std::uint32_t Engine::Impl::useful(const Op& op, const Slot& slot) noexcept
{
    return op.kind == Kind::write ? slot.done
                                  : std::min(slot.done - std::min(slot.done, slot.skip), slot.length);
}

/// Appends an operation to those that wait for slots.
void Engine::Impl::queue(std::uint32_t index) noexcept
{
    auto& op = ops[index];
    op.waits = true;
    op.before = last_staged;
    (staged_count ? ops[last_staged].behind : first_staged) = index;
    last_staged = index;
    staged_count++;
    if (!op.io.deadline)
        return;
    if (!deadlines++ || is_before(op.until, alarm)) {
        alarm = op.until;
        alarmed = false;
        set_alarm();
    }
}

/// Removes an operation from those that wait for slots; false if it does not wait.
bool Engine::Impl::unqueue(std::uint32_t index) noexcept
{
    auto& op = ops[index];
    if (!op.waits)
        return false;
    op.waits = false;
    staged_count--;
    if (index == first_staged)
        first_staged = op.behind;
    else
        ops[op.before].behind = op.behind;
    if (index == last_staged)
        last_staged = op.before;
    else
        ops[op.behind].before = op.before;
    deadlines -= op.io.deadline.has_value();
    return true;
}

/// Gives free slots to waiting operations.
void Engine::Impl::pump() noexcept
{
    while (staged_count) {
        const auto index = first_staged;
        const auto& op = ops[index];
        if (const int wrong = staging.prepare(*op.way.memory)) {
            withdraw(index, wrong);
            continue;
        }
        const auto piece = next_piece(op);
        if (!piece.length) {
            withdraw(index, -ENOBUFS);
            continue;
        }
        auto* slot = staging.take(piece.whole);
        if (!slot)
            break;
        if (!fill_slot(*slot, index)) {
            staging.give_back(*slot);
            break;
        }
        // If a piece failed at once, the operation is not queued any more.
        if (op.assigned == op.io.length)
            unqueue(index);
    }
}

/// Gives an operation no more slots, so it begins no more pieces. It fails now if it has no slot, or with the
/// last of its slots.
void Engine::Impl::withdraw(std::uint32_t index, std::int64_t error) noexcept
{
    auto& op = ops[index];
    if (!op.result)
        op.result = error;
    op.assigned = op.io.length;
    if (unqueue(index) && !op.slots)
        failed.push_back(index);
}

/// Begins the next piece of an operation; false if the ring has no room now.
bool Engine::Impl::fill_slot(Slot& slot, std::uint32_t index) noexcept
{
    auto& op = ops[index];
    const auto piece = next_piece(op);
    slot.op = index;
    slot.at = piece.at;
    slot.length = piece.length;
    slot.skip = piece.skip;
    slot.whole = piece.whole;
    slot.done = 0;
    if (op.kind == Kind::read && !send_slot(slot))
        return false;
    op.assigned += slot.length;
    op.slots++;
    if (op.kind == Kind::write)
        if (const int wrong = copy(slot))
            release(slot, wrong);
    return true;
}

bool Engine::Impl::send_slot(Slot& slot) noexcept
{
    auto& op = ops[slot.op];
    auto* sqe = next_sqe(entries_of(op));
    if (!sqe)
        return false;
    prepare(sqe,
            {slot.data + slot.done, slot.whole - slot.done, op.io.offset + slot.at - slot.skip + slot.done,
             op.kind == Kind::write},
            op.way);
    io_uring_sqe_set_data64(sqe, slot_mark | static_cast<std::uint64_t>(&slot - staging.slots.data()));
    link_deadline(sqe, op);
    slot.state = Slot::State::io;
    return true;
}

void Engine::Impl::slot_done(std::uint32_t number, std::int64_t result) noexcept
{
    auto& slot = staging.slots[number];
    auto& op = ops[slot.op];
    const bool again = is_transient(result);
    if (op.kind == Kind::read && ended_within_block(result, slot.done, op.way))
        result = 0;
    if (result < 0 && !again) {
        release(slot, result);
        return;
    }
    slot.done += again ? 0 : static_cast<std::uint32_t>(result);
    // A write may be beyond what was the end when the target was opened.
    const bool ended =
        !again &&
        (!result || (op.kind == Kind::read && op.io.offset + slot.at - slot.skip + slot.done >= op.way.size));
    if (slot.done < slot.whole && !ended && !op.cancelled) {
        if (!send_slot(slot))
            release(slot, -EBUSY);
        return;
    }
    if (op.cancelled) {
        release(slot, -ECANCELED);
        return;
    }
    if (op.kind == Kind::write)
        release(slot, slot.done == slot.whole ? 0 : -EIO);
    else if (const int wrong = copy(slot))
        release(slot, wrong);
}

/// Copies between a slot and the memory. A copy by the CPU is done on return.
int Engine::Impl::copy(Slot& slot) noexcept
{
    auto& op = ops[slot.op];
    const auto& memory = *op.way.memory;
    const auto at = op.io.memory_offset + slot.at;
    const auto length = op.kind == Kind::read ? useful(op, slot) : slot.length;
    auto* const data = slot.data + slot.skip;
    slot.state = Slot::State::copying;
    staging.copying++;
    if (!memory.device_pointer) {
        if (const int wrong = op.kind == Kind::read ? memory.copy_in_now(at, data, length)
                                                    : memory.copy_out_now(at, data, length)) {
            staging.copying--;
            return -wrong;
        }
        copied(slot);
        return 0;
    }
    const auto* cuda = shim::cuda();
    const shim::CurrentContext current(*cuda, memory.context);
    const auto result = !current ? -1
                        : op.kind == Kind::read
                            ? cuda->copy_to_device(memory.device_pointer + at, data, length, staging.stream)
                            : cuda->copy_to_host(data, memory.device_pointer + at, length, staging.stream);
    if (result || cuda->event_record(slot.event, staging.stream)) {
        // Wait for a copy that may have been started, before the slot is used again.
        cuda->stream_synchronize(staging.stream);
        staging.copying--;
        return -EIO;
    }
    if (event && cuda->launch_host(staging.stream, signal_copy,
                                   reinterpret_cast<void*>(static_cast<std::intptr_t>(event.get())))) {
        cuda->stream_synchronize(staging.stream);
        signal_event(event.get());
    }
    return 0;
}

void Engine::Impl::copied(Slot& slot) noexcept
{
    const auto& op = ops[slot.op];
    staging.copying--;
    if (op.kind == Kind::read)
        release(slot, 0);
    else if (op.result || op.cancelled)
        release(slot, op.result ? op.result : -ECANCELED);
    else if (!send_slot(slot))
        release(slot, -EBUSY);
}

/// Sets a timeout for the earliest deadline of the operations that wait for slots.
void Engine::Impl::set_alarm() noexcept
{
    // A polled ring has no timeouts; each poll looks at the clock.
    auto* sqe = options.iopoll ? nullptr : next_sqe(1);
    if (!sqe)
        return;
    alarmed = true;
    io_uring_prep_timeout(sqe, &alarm, 0, IORING_TIMEOUT_ABS);
    io_uring_sqe_set_data64(sqe, alarm_mark);
}

/// Ends operations whose deadline has passed while they wait for slots.
void Engine::Impl::expire() noexcept
{
    if (!deadlines || alarmed)
        return;
    const auto now = from_now(std::chrono::nanoseconds(0));
    if (!is_before(now, alarm)) {
        const Op* next = nullptr;
        auto index = first_staged;
        for (auto left = staged_count; left; left--) {
            const auto& op = ops[index];
            const auto behind = op.behind;
            if (op.io.deadline && !is_before(now, op.until))
                withdraw(index, -ETIME);
            else if (op.io.deadline && (!next || is_before(op.until, next->until)))
                next = &op;
            index = behind;
        }
        if (!next)
            return;
        alarm = next->until;
    }
    set_alarm();
}

/// Stops waiting for slots, and asks the kernel to cancel the pieces in flight.
void Engine::Impl::cancel_staged(std::uint32_t index) noexcept
{
    withdraw(index, -ECANCELED);
    tell();
    for (std::size_t i = 0; i < staging.slots.size(); i++)
        if (staging.slots[i].state == Slot::State::io && staging.slots[i].op == index)
            cancel(slot_mark | i);
}

/// Ends a piece, and with the last piece the operation.
void Engine::Impl::release(Slot& slot, std::int64_t error) noexcept
{
    auto& op = ops[slot.op];
    const auto index = slot.op;
    staging.give_back(slot);
    const auto got = useful(op, slot);
    if (error)
        withdraw(index, error);
    else
        op.done += got;
    // A file may end within the range, and have grown when a later piece was read.
    if (got < slot.length)
        op.end = std::min(op.end, slot.at + got);
    op.slots--;
    if (!op.slots && op.assigned == op.io.length)
        finish(index, op.result ? op.result : static_cast<std::int64_t>(std::min(op.done, op.end)));
}

/// Waits for all copies. With a timeout, which CUDA does not support, polls until one copy is done, I/O has
/// completed, or the time is over.
void Engine::Impl::wait_for_copy(std::optional<std::chrono::nanoseconds> timeout) noexcept
{
    const auto* cuda = shim::cuda();
    if (!timeout) {
        cuda->stream_synchronize(staging.stream);
        return;
    }
    const auto is_done = [cuda](const Slot& slot) {
        return slot.state == Slot::State::copying && cuda->event_query(slot.event) != shim::cu_not_ready;
    };
    const auto start = std::chrono::steady_clock::now();
    while (std::none_of(staging.slots.begin(), staging.slots.end(), is_done) && !io_uring_cq_ready(&ring) &&
           std::chrono::steady_clock::now() - start < *timeout) {
        std::this_thread::sleep_for(std::chrono::microseconds(50));
        io_uring_get_events(&ring);
    }
}

void Engine::Impl::poll_copies(bool wait, std::optional<std::chrono::nanoseconds> timeout) noexcept
{
    if (!staging.copying)
        return;
    const auto* cuda = shim::cuda();
    const shim::CurrentContext current(*cuda, staging.context());
    if (wait)
        wait_for_copy(timeout);
    for (auto& slot : staging.slots) {
        if (slot.state != Slot::State::copying)
            continue;
        const auto result = cuda->event_query(slot.event);
        if (result == shim::cu_not_ready)
            continue;
        if (!result) {
            copied(slot);
        } else {
            // The copy may still be under way, and the slot is used again.
            cuda->stream_synchronize(staging.stream);
            staging.copying--;
            release(slot, -EIO);
        }
    }
}

Result<void> Engine::Impl::attach(const Target& target)
{
    if (const int wrong = reachable())
        return std::unexpected(
            Error{-wrong,
                  std::string("this engine belongs to another thread or process: ") + std::strerror(-wrong)});
    if (file_index(target.number_) >= 0)
        return {};
    constexpr unsigned most = 64;
    if (!has_files) {
        attached.reserve(most);
        if (const int result = io_uring_register_files_sparse(&ring, most); result < 0)
            return std::unexpected(
                Error{-result, std::string("files cannot be registered: ") + std::strerror(-result)});
        has_files = true;
    }
    auto place = std::find(attached.begin(), attached.end(), 0);
    if (place == attached.end() && attached.size() == most)
        return std::unexpected(Error{ENOSPC, "an engine has at most 64 targets attached"});
    if (place == attached.end())
        place = attached.insert(attached.end(), 0);
    int fd = target.fd_;
    const auto index = static_cast<unsigned>(place - attached.begin());
    if (const int result = io_uring_register_files_update(&ring, index, &fd, 1); result < 0)
        return std::unexpected(
            Error{-result, target.path() + " cannot be registered: " + std::strerror(-result)});
    *place = target.number_;
    return {};
}

void Engine::Impl::detach(const Target& target) noexcept
{
    const int index = file_index(target.number_);
    if (index < 0 || reachable())
        return;
    // Entries that the kernel has not taken name the file by its index, which the next one may get.
    if (!empty_queue())
        return;
    int none = -1;
    io_uring_register_files_update(&ring, static_cast<unsigned>(index), &none, 1);
    attached[static_cast<std::size_t>(index)] = 0;
}

int Engine::Impl::file_index(std::uint64_t number) const noexcept
{
    for (std::size_t i = 0; i < attached.size(); i++)
        if (attached[i] == number)
            return static_cast<int>(i);
    return -1;
}

} // namespace weft
