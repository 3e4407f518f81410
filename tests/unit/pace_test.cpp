// SPDX-License-Identifier: GPL-2.0-only
#include <cstdint>
#include <gtest/gtest.h>

extern "C" {
#include "kmod/weft/pace.h"
}

namespace
{

constexpr u64 second = 1'000'000'000;
constexpr u64 target = 500'000;
constexpr u64 mib = 1 << 20;

weft_pace pace_at(u64 rate)
{
    weft_pace pace{};
    weft_pace_init(&pace);
    pace.bucket.rate = rate;
    return pace;
}

/// How many units pass in a time, if there is always a command of @size.
u64 units_that_pass(weft_bucket& bucket, u64 from, u64 time, u64 size)
{
    u64 passed = 0;
    for (u64 now = from; now < from + time;) {
        if (const u64 wait = weft_bucket_wait(&bucket, now)) {
            now += wait;
            continue;
        }
        weft_bucket_take(&bucket, size, now);
        passed += size;
    }
    return passed;
}

/// Judges the rate @times times for a member on which feed commands are late above a rate: one of 20, or all.
void judge(weft_pace& pace, u64 late_above, unsigned times, unsigned done, bool standing = false)
{
    for (unsigned i = 0; i < times; i++) {
        const bool late = pace.bucket.rate > late_above;
        const u32 late_ones = standing ? done : (done + 19) / 20;
        const weft_pace_sample sample{done, late ? late_ones : 0, late && standing ? 3 * target : target / 4,
                                      true};
        weft_pace_judge(&pace, &sample, target);
    }
}

TEST(Bucket, WithoutALimitNothingWaits)
{
    weft_bucket bucket{};
    weft_bucket_take(&bucket, 1ULL << 32, 5);
    EXPECT_EQ(weft_bucket_wait(&bucket, 5), 0u);
}

TEST(Bucket, ANewLimitForgetsWhatWasSentUnderTheOldOne)
{
    weft_bucket bucket{};
    weft_bucket_set(&bucket, mib);
    weft_bucket_take(&bucket, 16 * mib, second);
    EXPECT_GT(weft_bucket_wait(&bucket, second), 15 * second);
    weft_bucket_set(&bucket, mib);
    EXPECT_GT(weft_bucket_wait(&bucket, second), 15 * second);
    weft_bucket_set(&bucket, 100 * mib);
    EXPECT_EQ(weft_bucket_wait(&bucket, second), 0u);
}

TEST(Bucket, LetsItsRatePass)
{
    for (const u64 rate : {mib, 100 * mib, mib << 20}) {
        weft_bucket bucket{rate, 0};
        const double passed = static_cast<double>(units_that_pass(bucket, second, 2 * second, 262144));
        EXPECT_NEAR(passed, 2.0 * static_cast<double>(rate), 0.02 * static_cast<double>(rate) + 262144.0);
    }
    weft_bucket few{3, 0}; // commands per second
    EXPECT_NEAR(static_cast<double>(units_that_pass(few, second, 10 * second, 1)), 30, 1);
}

TEST(Bucket, AfterARestLittleMayPassAtOnce)
{
    weft_bucket bucket{1000 * mib, 0};
    u64 at_once = 0;
    while (!weft_bucket_wait(&bucket, 60 * second)) {
        weft_bucket_take(&bucket, 65536, 60 * second);
        at_once += 65536;
    }
    EXPECT_LE(at_once, mib / 4 + 65536); // 200 us
    EXPECT_GE(at_once, mib / 8);
}

TEST(Bucket, TakesTheLargestCommandAtAnyTime)
{
    weft_bucket bucket{mib, 0};
    weft_bucket_take(&bucket, 1ULL << 32, 0);
    EXPECT_EQ(weft_bucket_wait(&bucket, 0), 4096 * second);
}

TEST(Pace, FindsTheRateFromBelowAndFromAbove)
{
    for (const u64 start : {2 * mib, 8000 * mib}) {
        auto pace = pace_at(start);
        judge(pace, 800 * mib, 1000, 20);
        EXPECT_GT(pace.bucket.rate, 600 * mib);
        EXPECT_LT(pace.bucket.rate, 880 * mib);
    }
}

TEST(Pace, HalvesAtMostOnceEachTime)
{
    auto pace = pace_at(1000 * mib);
    const weft_pace_sample all_late{10000, 10000, 100 * target, true};
    weft_pace_judge(&pace, &all_late, target);
    EXPECT_EQ(pace.bucket.rate, 500 * mib);
}

TEST(Pace, AStandingQueueLowersItInProportion)
{
    auto pace = pace_at(1000 * mib);
    const weft_pace_sample standing{1, 1, target / 4 * 5, true};
    weft_pace_judge(&pace, &standing, target);
    EXPECT_NEAR(static_cast<double>(pace.bucket.rate), 800.0 * mib, mib);
}

TEST(Pace, FollowsWithin100Milliseconds)
{
    auto pace = pace_at(64 * mib);
    judge(pace, 800 * mib, 500, 10);
    judge(pace, 400 * mib, 10, 20, true); // the member does half of it now
    EXPECT_LT(pace.bucket.rate, 450 * mib);
}

TEST(Pace, OneOf200MayBeLate)
{
    auto pace = pace_at(500 * mib);
    for (int i = 0; i < 2000; i++) {
        const weft_pace_sample sample{100, i % 2 ? 1u : 0u, target / 4, true};
        weft_pace_judge(&pace, &sample, target);
    }
    EXPECT_GT(pace.bucket.rate, 200 * mib);
    EXPECT_LT(pace.bucket.rate, 1200 * mib);
}

TEST(Pace, WhatDoesNotLimitDoesNotGrow)
{
    auto pace = pace_at(500 * mib);
    const weft_pace_sample free{100, 0, target / 4, false};
    weft_pace_judge(&pace, &free, target);
    EXPECT_EQ(pace.bucket.rate, 500 * mib);
}

TEST(Pace, StaysWithinItsBounds)
{
    auto pace = pace_at(500 * mib);
    pace.floor = 25 * mib;
    judge(pace, 0, 1000, 100, true);
    EXPECT_EQ(pace.bucket.rate, 25 * mib);
    pace.floor = 0;
    judge(pace, 0, 1000, 100, true);
    EXPECT_EQ(pace.bucket.rate, WEFT_PACE_MIN);
    pace.late_at = 0;
    judge(pace, UINT64_MAX, 10000, UINT32_MAX);
    EXPECT_EQ(pace.bucket.rate, WEFT_PACE_MAX);
}

// Its size is not a large command's fault: 1 MiB at 50 MB/s takes 21 ms.
TEST(Usual, ALargeCommandCountsWithWhatItTakesBeyondThat)
{
    weft_usual usual{};
    weft_usual_init(&usual);
    EXPECT_EQ(weft_usual_beyond(&usual, mib, 21'000'000), 0u) << "the first one";
    EXPECT_LE(weft_usual_beyond(&usual, mib, 21'000'000 + target), target + 1);
    EXPECT_GE(weft_usual_beyond(&usual, mib, 21'000'000 + target), target);
    EXPECT_EQ(weft_usual_beyond(&usual, mib, 20'000'000), 0u) << "a faster one";
    EXPECT_GE(weft_usual_beyond(&usual, mib, 21'000'000), 1'000'000u);
}

TEST(Usual, EachSizeHasItsOwn)
{
    weft_usual usual{};
    weft_usual_init(&usual);
    EXPECT_EQ(weft_usual_beyond(&usual, mib, 20'000'000), 0u);
    EXPECT_EQ(weft_usual_beyond(&usual, 32768, 3'000'000), 0u);
    EXPECT_EQ(weft_usual_beyond(&usual, 32768, 4'000'000) / 1000, 1000u);
    // Within one, it is a time per sector.
    EXPECT_EQ(weft_usual_beyond(&usual, 3 * mib / 4, 15'000'000), 0u);
    // The largest command, and times that are none.
    EXPECT_EQ(weft_usual_beyond(&usual, ~0U, ~0ULL >> 1), 0u);
    EXPECT_EQ(weft_usual_beyond(&usual, WEFT_USUAL_SMALL + 1, 0), 0u);
}

TEST(Usual, AMemberMayBecomeSlower)
{
    weft_usual usual{};
    weft_usual_init(&usual);
    weft_usual_forget(&usual);
    EXPECT_EQ(weft_usual_beyond(&usual, mib, 20'000'000), 0u) << "what is not known is not forgotten";
    unsigned seconds = 0;
    while (weft_usual_beyond(&usual, mib, 40'000'000)) {
        weft_usual_forget(&usual);
        ASSERT_LT(++seconds, 60u);
    }
    EXPECT_GE(seconds, 40u);
}

} // namespace
