// SPDX-License-Identifier: GPL-2.0-only
#include "late_reading.hpp"

#include <gtest/gtest.h>

#include <stdexcept>

namespace
{

using namespace weft;
using namespace std::chrono_literals;
using reader = late_reading<int>;

/// Answers with the number of the question, when it may.
class driver
{
public:
    int ask()
    {
        std::unique_lock held(lock_);
        const int number = ++asked_;
        changed_.wait(held, [&] { return number <= answers_; });
        return number;
    }
    void allow(int answers)
    {
        const std::lock_guard held(lock_);
        answers_ = answers;
        changed_.notify_all();
    }
    int asked()
    {
        const std::lock_guard held(lock_);
        return asked_;
    }

private:
    std::mutex lock_;
    std::condition_variable changed_;
    int asked_ = 0, answers_ = 0;
};

/// Begins and takes what is there at once, or after that time.
std::optional<int> now(reader& of, std::chrono::seconds patience = 0s)
{
    of.begin();
    return of.take(reader::clock::now() + patience);
}

/// Waits until no thread has the driver any more.
void wait_for_end(const std::shared_ptr<driver>& gpu, long owners)
{
    while (gpu.use_count() > owners)
        std::this_thread::sleep_for(1ms);
}

TEST(LateReading, EachIsNew)
{
    int number = 0;
    reader counts([&number] { return ++number; }, 1h);
    EXPECT_EQ(now(counts, 60s), 1);
    EXPECT_EQ(now(counts, 60s), 2);
}

TEST(LateReading, WithoutBeginThereIsNone)
{
    reader any([] { return 1; }, 1h);
    EXPECT_FALSE(any.take(reader::clock::now() + 60s));
}

TEST(LateReading, OneThatHangsIsWaitedForOnce)
{
    const auto gpu = std::make_shared<driver>();
    reader hangs([gpu] { return gpu->ask(); }, 1h);
    EXPECT_FALSE(now(hangs));
    const auto began = reader::clock::now();
    for (int i = 0; i < 3; i++)
        EXPECT_FALSE(now(hangs, 600s));
    EXPECT_LT(reader::clock::now() - began, 300s);
    // The thread may not have begun before.
    while (!gpu->asked())
        std::this_thread::sleep_for(1ms);
    EXPECT_EQ(gpu->asked(), 1);
    gpu->allow(2);
    wait_for_end(gpu, 2); // here, and in the reader
    EXPECT_EQ(now(hangs), 1) << "the next call has it";
    EXPECT_EQ(now(hangs, 60s), 2);
    EXPECT_EQ(gpu->asked(), 2);
}

TEST(LateReading, AnOldOneIsReadAgain)
{
    const auto gpu = std::make_shared<driver>();
    reader hangs([gpu] { return gpu->ask(); }, 0s);
    EXPECT_FALSE(now(hangs));
    gpu->allow(2);
    wait_for_end(gpu, 2);
    EXPECT_EQ(now(hangs, 60s), 2);
}

TEST(LateReading, ItsOwnerNeedNotWait)
{
    const auto gpu = std::make_shared<driver>();
    {
        reader hangs([gpu] { return gpu->ask(); }, 1h);
        EXPECT_FALSE(now(hangs));
    }
    gpu->allow(1);
    wait_for_end(gpu, 1);
    EXPECT_EQ(gpu->asked(), 1);
}

TEST(LateReading, OneThatThrowsHasNoValue)
{
    int calls = 0;
    reader fails(
        [&calls] {
            if (!calls++)
                throw std::runtime_error("it fell off its bus");
            return calls;
        },
        1h);
    EXPECT_FALSE(now(fails, 60s));
    EXPECT_EQ(now(fails, 60s), 2);
}

} // namespace
