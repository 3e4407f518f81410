// SPDX-License-Identifier: LGPL-2.1-or-later
/// Many I/Os that are begun at once.
#pragma once

#include "forks.hpp"
#include "transfer.hpp"

#include <atomic>
#include <chrono>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

namespace weft::cufile
{

/// Largest number of I/Os of a batch.
constexpr unsigned most_of_batch = 1024;

class Batch final : public Sink
{
public:
    explicit Batch(unsigned entries) : slots_(entries) {}
    Batch(const Batch&) = delete;
    Batch& operator=(const Batch&) = delete;
    /// Waits for the I/O in flight.
    ~Batch();

    /// Begins all, or none of them if one is not valid. BATCH_FULL: more than it has room for.
    [[nodiscard]] CUfileOpError submit(const CUfileIOParams_t* all, unsigned count);
    /// Stores what has ended, at most `most`, after waiting for `least` or until the time.
    [[nodiscard]] unsigned events(CUfileIOEvents_t* to, unsigned least, unsigned most,
                                  std::optional<std::chrono::nanoseconds> timeout);
    void cancel();
    /// In a child of fork(): its lock may be held by a thread that the child does not have.
    [[nodiscard]] bool is_parents() const noexcept { return forks_ != forks(); }

private:
    struct Slot {
        std::optional<Transfer> transfer;
        void* cookie = nullptr;
        Engine* engine = nullptr;
        Ticket ticket;
    };
    void complete(std::uint64_t token, const Completion& completion) noexcept override;
    void ended(void* cookie, Outcome outcome);
    [[nodiscard]] Result<Engine*> engine_of(void* context);
    void poll(std::chrono::nanoseconds longest);
    /// Takes the lock, which a thread in events() then lets go at its next chance.
    [[nodiscard]] std::unique_lock<std::mutex> enter();

    const unsigned forks_ = forks();
    std::mutex lock_;                   ///< of what follows
    std::atomic<unsigned> waiting_ = 0; ///< threads that want it
    std::atomic<unsigned> entered_ = 0; ///< how often one has got it
    std::vector<Slot> slots_;
    unsigned in_flight_ = 0;
    std::deque<CUfileIOEvents_t> ended_;
    /// One for each CUDA context. They end first: their I/O refers to the slots.
    std::vector<std::pair<void*, std::unique_ptr<Engine>>> engines_;
};

} // namespace weft::cufile
