// SPDX-License-Identifier: LGPL-2.1-or-later
#include "batch.hpp"

#include "report.hpp"

#include <algorithm>
#include <cerrno>
#include <thread>

namespace weft::cufile
{

Batch::~Batch()
{
    engines_.clear();
}

Result<Engine*> Batch::engine_of(void* context)
{
    for (auto& [known, engine] : engines_)
        if (known == context)
            return engine.get();
    // Several threads may ask for the status of a batch.
    auto made = Engine::create({.entries = static_cast<unsigned>(slots_.size()), .any_thread = true});
    if (!made)
        return std::move(made.error());
    engines_.emplace_back(context, std::make_unique<Engine>(*std::move(made)));
    return engines_.back().second.get();
}

void Batch::ended(void* cookie, Outcome outcome)
{
    const auto status = outcome >= 0            ? CUFILE_COMPLETE
                        : outcome == -ECANCELED ? CUFILE_CANCELED
                                                : CUFILE_FAILED;
    ended_.push_back({cookie, status, static_cast<std::size_t>(outcome)});
}

void Batch::complete(std::uint64_t token, const Completion& completion) noexcept
{
    auto& slot = slots_[token];
    try {
        ended(slot.cookie, slot.transfer->end(completion));
    } catch (const std::bad_alloc&) {
        say("a batch: an event is lost, because memory is short");
    }
    slot = Slot{};
    in_flight_--;
}

std::unique_lock<std::mutex> Batch::enter()
{
    waiting_++;
    std::unique_lock held(lock_);
    waiting_--;
    entered_++;
    return held;
}

CUfileOpError Batch::submit(const CUfileIOParams_t* all, unsigned count)
{
    const auto held = enter();
    const auto room = slots_.size() - in_flight_ - ended_.size();
    if (count > room)
        return CU_FILE_BATCH_FULL;
    struct Item {
        Transfer transfer;
        Engine* engine;
        void* cookie;
    };
    std::vector<Item> items;
    items.reserve(count);
    for (const auto* one = all; one != all + count; one++) {
        if (one->mode != CUFILE_BATCH || (one->opcode != CUFILE_READ && one->opcode != CUFILE_WRITE))
            return CU_FILE_INVALID_VALUE;
        const auto& io = one->u.batch;
        auto transfer = Transfer::prepare({one->opcode == CUFILE_WRITE, one->fh, io.devPtr_base, io.size,
                                           io.file_offset, io.devPtr_offset});
        if (!transfer) {
            const auto wrong = -transfer.error();
            return wrong > CUFILEOP_BASE_ERR ? static_cast<CUfileOpError>(wrong)
                                             : CU_FILE_BATCH_SUBMIT_FAILED;
        }
        Engine* engine = nullptr;
        if (!transfer->is_empty()) {
            auto found = engine_of(transfer->context());
            if (!found) {
                say_once("a batch", found.error().text);
                return CU_FILE_PLATFORM_NOT_SUPPORTED;
            }
            engine = *found;
        }
        items.push_back({*std::move(transfer), engine, one->cookie});
    }
    auto free = slots_.begin();
    for (auto& item : items) {
        if (!item.engine || !item.transfer.is_whole()) {
            ended(item.cookie, item.transfer.run());
            continue;
        }
        free = std::find_if(free, slots_.end(), [](const Slot& slot) { return !slot.transfer; });
        free->transfer = std::move(item.transfer);
        free->cookie = item.cookie;
        free->engine = item.engine;
        in_flight_++;
        const auto ticket =
            free->transfer->begin(*free->engine, static_cast<std::uint64_t>(free - slots_.begin()), this);
        if (!ticket) {
            complete(static_cast<std::uint64_t>(free - slots_.begin()), {.token = 0, .result = -EBUSY});
            continue;
        }
        free->ticket = *ticket;
    }
    for (auto& [context, engine] : engines_)
        if (const int wrong = engine->submit();
            wrong && wrong != -EAGAIN && wrong != -EBUSY && wrong != -EINTR && wrong != -ENOMEM)
            say("a batch: io_uring fails with error " + std::to_string(-wrong));
    return CU_FILE_SUCCESS;
}

/// Waits for one completion, if there is one engine; several are polled.
void Batch::poll(std::chrono::nanoseconds longest)
{
    constexpr std::chrono::nanoseconds moment = std::chrono::microseconds(50);
    const auto each = engines_.size() == 1 ? longest : std::min(longest, moment);
    for (auto& [context, engine] : engines_)
        if (engine->in_flight())
            engine->wait({}, each);
}

unsigned Batch::events(CUfileIOEvents_t* to, unsigned least, unsigned most,
                       std::optional<std::chrono::nanoseconds> timeout)
{
    using Clock = std::chrono::steady_clock;
    const auto began = Clock::now();
    auto held = enter();
    poll(std::chrono::nanoseconds(0));
    // Between two waits, other threads submit and cancel, and a signal handler runs.
    constexpr std::chrono::nanoseconds slice = std::chrono::milliseconds(10);
    while (ended_.size() < std::min(least, most) && in_flight_) {
        auto longest = slice;
        if (timeout) {
            const auto left = *timeout - (Clock::now() - began);
            if (left <= std::chrono::nanoseconds(0))
                break;
            longest = std::min<std::chrono::nanoseconds>(left, slice);
        }
        poll(longest);
        // Let one of the others in: if the lock is free only for a moment, this thread may take it
        // each time.
        const auto before = entered_.load();
        held.unlock();
        while (waiting_ && entered_ == before)
            std::this_thread::yield();
        held = enter();
    }
    const auto count = std::min<std::size_t>(most, ended_.size());
    std::copy_n(ended_.begin(), count, to);
    ended_.erase(ended_.begin(), ended_.begin() + static_cast<std::ptrdiff_t>(count));
    return static_cast<unsigned>(count);
}

void Batch::cancel()
{
    const auto held = enter();
    for (auto& slot : slots_)
        if (slot.transfer && slot.engine)
            slot.engine->cancel(slot.ticket);
    poll(std::chrono::nanoseconds(0));
}

} // namespace weft::cufile
