// SPDX-License-Identifier: GPL-2.0-only
/// What a driver tells, which may hang.
#pragma once

#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

namespace weft
{

/// Reads a value in a thread, of which there is one at a time: it may last longer than its caller waits, and
/// than this object. One caller at a time.
template <typename Value>
class late_reading
{
public:
    using clock = std::chrono::steady_clock;

    /// The thread calls `read`. A reading that throws has no value. A value whose reading ended longer than
    /// `fresh` ago is read again.
    late_reading(std::function<Value()> read, clock::duration fresh) : read_(std::move(read)), fresh_(fresh)
    {
    }

    /// Begins a reading, unless one is under way, or has ended since the last take().
    void begin()
    {
        if (current_ && has_aged(*current_))
            current_.reset();
        is_late_ = current_ != nullptr;
        if (!current_)
            start();
    }

    /// The value of the reading. Waits for it until that time; a reading that was late before is not waited
    /// for again. Unset if the reading has not ended or has no value; the next call may have a value.
    [[nodiscard]] std::optional<Value> take(clock::time_point until)
    {
        if (!current_)
            return std::nullopt;
        const auto reading = current_;
        std::unique_lock held(reading->lock);
        const auto limit = is_late_ ? clock::now() : until;
        if (!reading->ended.wait_until(held, limit, [&] { return reading->over.has_value(); }))
            return std::nullopt;
        current_.reset();
        return std::move(reading->value);
    }

private:
    /// What the thread and this object share.
    struct state {
        std::mutex lock;
        std::condition_variable ended;
        std::optional<clock::time_point> over; ///< when it ended
        std::optional<Value> value;
    };

    [[nodiscard]] bool has_aged(state& reading) const
    {
        const std::lock_guard held(reading.lock);
        return reading.over && clock::now() - *reading.over >= fresh_;
    }

    void start()
    {
        auto reading = std::make_shared<state>();
        try {
            std::thread([reading, read = read_] {
                std::optional<Value> value;
                try {
                    value = read();
                } catch (const std::exception&) { // NOLINT(bugprone-empty-catch): it has no value then
                }
                const std::lock_guard held(reading->lock);
                reading->value = std::move(value);
                reading->over = clock::now();
                reading->ended.notify_one();
            }).detach();
        } catch (const std::exception&) {
            return; // no thread, no value
        }
        current_ = std::move(reading);
    }

    std::function<Value()> read_;
    clock::duration fresh_;
    std::shared_ptr<state> current_; ///< that has begun and was not taken
    bool is_late_ = false;           ///< it was not waited for in time
};

} // namespace weft
