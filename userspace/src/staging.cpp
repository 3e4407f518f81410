// SPDX-License-Identifier: LGPL-2.1-or-later
/// Operations on memory that no device reaches: through pinned pages, the copy of one piece beside the I/O of
/// the next.
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

void signal_copy(void* fd)
{
    signal_event(static_cast<int>(reinterpret_cast<std::intptr_t>(fd)));
}

} // namespace

Staging::Staging(const EngineOptions& options)
    : slots(options.staging_slots), slot_bytes(options.staging_bytes), stream(options.stream)
{
}

Staging::~Staging()
{
    unpin();
    if (memory_)
        ::munmap(memory_, bytes_);
}

int Staging::prepare(const Registration& memory) noexcept
{
    if (slots.empty())
        return -ENOBUFS;
    if (!memory_) {
        bytes_ = slots.size() * slot_bytes;
        void* at = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (at == MAP_FAILED)
            return -ENOMEM;
        memory_ = static_cast<std::byte*>(at);
        for (std::size_t i = 0; i < slots.size(); i++)
            slots[i].data = memory_ + i * slot_bytes;
    }
    if (!memory.memory().device_pointer())
        return 0;
    if (context_)
        return context_ == memory.memory().cuda_context() ? 0 : -EXDEV;
    context_ = memory.memory().cuda_context();
    const int wrong = pin();
    if (wrong)
        unpin();
    return wrong;
}

/// For copies by CUDA, in context_.
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
    if (!context_ || !stream)
        return;
    const auto* cuda = shim::cuda();
    const shim::CurrentContext current(*cuda, context_);
    cuda->stream_synchronize(stream);
}

void Staging::unpin() noexcept
{
    if (!context_)
        return;
    const auto* cuda = shim::cuda();
    const shim::CurrentContext current(*cuda, context_);
    for (auto& slot : slots)
        if (auto event = std::exchange(slot.event, nullptr))
            cuda->event_destroy(event);
    if (std::exchange(own_stream_, false))
        cuda->stream_destroy(std::exchange(stream, nullptr));
    if (std::exchange(pinned_, false))
        cuda->host_unregister(memory_);
    context_ = nullptr;
}

/// Slots for who waits for some.
void Engine::Impl::pump() noexcept
{
    for (auto& slot : staging.slots) {
        if (staged.empty())
            break;
        if (slot.state != Slot::State::free)
            continue;
        const auto index = staged.front();
        if (!fill_slot(slot, index))
            break;
        // A piece that failed at once has taken it out already.
        const auto& op = ops[index];
        if (!staged.empty() && staged.front() == index && (op.result || op.assigned == op.io.length))
            staged.erase(staged.begin());
    }
    while (staging.slots.empty() && !staged.empty())
        withdraw(staged.front(), -ENOBUFS);
}

/// An operation gets no more slots: what is not begun is not. It fails where it has none, and with the last
/// of those that it has.
void Engine::Impl::withdraw(std::uint32_t index, std::int64_t error) noexcept
{
    auto& op = ops[index];
    if (!op.result)
        op.result = error;
    op.assigned = op.io.length;
    if (std::erase(staged, index) && !op.slots)
        failed.push_back(index);
}

/// The next piece of an operation begins; false where the ring has no room now.
bool Engine::Impl::fill_slot(Slot& slot, std::uint32_t index) noexcept
{
    auto& op = ops[index];
    if (const int wrong = staging.prepare(*op.memory)) {
        withdraw(index, wrong);
        return true;
    }
    slot.op = index;
    slot.at = op.assigned;
    slot.length =
        static_cast<std::uint32_t>(std::min<std::size_t>(staging.slot_bytes, op.io.length - op.assigned));
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
            {slot.data + slot.done, slot.length - slot.done, op.io.offset + slot.at + slot.done,
             op.kind == Kind::write},
            *op.target);
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
    if (result < 0 && !again) {
        release(slot, result);
        return;
    }
    slot.done += again ? 0 : static_cast<std::uint32_t>(result);
    const bool ended = !again && (!result || op.io.offset + slot.at + slot.done >= op.target->size());
    if (slot.done < slot.length && !ended && !op.cancelled) {
        if (!send_slot(slot))
            release(slot, -EBUSY);
        return;
    }
    if (op.cancelled) {
        release(slot, -ECANCELED);
        return;
    }
    if (op.kind == Kind::write)
        release(slot, slot.done == slot.length ? 0 : -EIO);
    else if (const int wrong = copy(slot))
        release(slot, wrong);
}

/// Between a slot and the memory; done at once where the CPU does it.
int Engine::Impl::copy(Slot& slot) noexcept
{
    auto& op = ops[slot.op];
    const auto& memory = op.memory->memory();
    const auto at = op.io.memory_offset + slot.at;
    const auto length = op.kind == Kind::read ? slot.done : slot.length;
    slot.state = Slot::State::copying;
    staging.copying++;
    if (!memory.device_pointer()) {
        if (op.kind == Kind::read)
            std::memcpy(memory.data() + at, slot.data, length);
        else
            std::memcpy(slot.data, memory.data() + at, length);
        copied(slot);
        return 0;
    }
    const auto* cuda = shim::cuda();
    const shim::CurrentContext current(*cuda, memory.cuda_context());
    const auto result =
        !current ? -1
        : op.kind == Kind::read
            ? cuda->copy_to_device(memory.device_pointer() + at, slot.data, length, staging.stream)
            : cuda->copy_to_host(slot.data, memory.device_pointer() + at, length, staging.stream);
    if (result || cuda->event_record(slot.event, staging.stream)) {
        // Whatever of it was begun ends before the slot is another's.
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

/// The earliest deadline of what waits for slots wakes whoever waits.
void Engine::Impl::set_alarm() noexcept
{
    const Op* first = nullptr;
    for (const auto index : staged)
        if (ops[index].io.deadline && (!first || is_before(ops[index].until, first->until)))
            first = &ops[index];
    if (!first || (alarmed && !is_before(first->until, alarm)))
        return;
    auto* sqe = next_sqe(1);
    if (!sqe)
        return;
    alarm = first->until;
    alarmed = true;
    io_uring_prep_timeout(sqe, &alarm, 0, IORING_TIMEOUT_ABS);
    io_uring_sqe_set_data64(sqe, alarm_mark);
}

/// What waits for slots beyond its time ends.
void Engine::Impl::expire() noexcept
{
    if (staged.empty() || alarmed)
        return;
    const auto now = from_now(std::chrono::nanoseconds(0));
    for (std::size_t i = 0; i < staged.size();) {
        const auto index = staged[i];
        const auto& op = ops[index];
        if (!op.io.deadline || is_before(now, op.until)) {
            i++;
            continue;
        }
        withdraw(index, -ETIME);
    }
    set_alarm();
}

/// What waits for slots ends now; pieces that are read or written are for the kernel to end.
void Engine::Impl::cancel_staged(std::uint32_t index) noexcept
{
    withdraw(index, -ECANCELED);
    tell();
    for (std::size_t i = 0; i < staging.slots.size(); i++)
        if (staging.slots[i].state == Slot::State::io && staging.slots[i].op == index)
            cancel(slot_mark | i);
}

/// A piece is over; with the last of them the operation.
void Engine::Impl::release(Slot& slot, std::int64_t error) noexcept
{
    auto& op = ops[slot.op];
    const auto index = slot.op;
    slot.state = Slot::State::free;
    if (error)
        withdraw(index, error);
    else
        op.done += slot.done;
    op.slots--;
    if (!op.slots && op.assigned == op.io.length)
        finish(index, op.result ? op.result : op.done);
}

/// For all of them, or, as CUDA waits without an end only, until one is done, I/O is, or the time is over.
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
            staging.copying--;
            release(slot, -EIO);
        }
    }
}

Result<void> Engine::Impl::attach(const Target& target)
{
    if (std::find(attached.begin(), attached.end(), &target) != attached.end())
        return {};
    constexpr unsigned most = 64;
    if (attached.capacity() < most) {
        attached.reserve(most);
        if (const int result = io_uring_register_files_sparse(&ring, most); result < 0)
            return std::unexpected(
                Error{-result, std::string("files cannot be registered: ") + std::strerror(-result)});
    }
    auto place = std::find(attached.begin(), attached.end(), nullptr);
    if (place == attached.end() && attached.size() == most)
        return std::unexpected(Error{ENOSPC, "an engine has at most 64 targets attached"});
    if (place == attached.end())
        place = attached.insert(attached.end(), nullptr);
    int fd = target.fd_;
    const auto index = static_cast<unsigned>(place - attached.begin());
    if (const int result = io_uring_register_files_update(&ring, index, &fd, 1); result < 0)
        return std::unexpected(
            Error{-result, target.path() + " cannot be registered: " + std::strerror(-result)});
    *place = &target;
    return {};
}

void Engine::Impl::detach(const Target& target) noexcept
{
    const auto place = std::find(attached.begin(), attached.end(), &target);
    if (place == attached.end())
        return;
    int none = -1;
    io_uring_register_files_update(&ring, static_cast<unsigned>(place - attached.begin()), &none, 1);
    *place = nullptr;
}

int Engine::Impl::file_index(const Target& target) const noexcept
{
    for (std::size_t i = 0; i < attached.size(); i++)
        if (attached[i] == &target)
            return static_cast<int>(i);
    return -1;
}

} // namespace weft
