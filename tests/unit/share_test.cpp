// SPDX-License-Identifier: GPL-2.0-only
#include <cstdint>
#include <deque>
#include <gtest/gtest.h>
#include <vector>

extern "C" {
#include "kmod/weft/share.h"
}

namespace
{

constexpr u64 second = 1'000'000'000;
constexpr u64 target = 10'000'000;
constexpr u32 piece = 256 << 10;

struct host {
    u32 weight;
    weft_share share{};
    u64 in_flight = 0;
    u64 bytes = 0; ///< completed in the second half of the run
};

/// Hosts that always have commands, on a member that serves one after another at a rate.
void run(std::vector<host>& hosts, u64 rate, u64 time)
{
    struct command {
        std::size_t host;
        u64 sent;
    };
    std::deque<command> queue;
    for (auto& one : hosts)
        weft_share_init(&one.share);
    for (u64 now = 0; now < time; now += piece * second / rate) {
        for (bool more = true; more;) {
            more = false;
            for (std::size_t i = 0; i < hosts.size(); i++) {
                if (!weft_share_admits(&hosts[i].share, hosts[i].in_flight, piece))
                    continue;
                hosts[i].in_flight += piece;
                queue.push_back({i, now});
                more = true;
            }
        }
        const auto done = queue.front();
        queue.pop_front();
        auto& one = hosts[done.host];
        one.in_flight -= piece;
        one.bytes += now > time / 2 ? piece : 0;
        weft_share_done(&one.share, now + piece * second / rate - done.sent, target, one.weight, now);
    }
}

double ratio(const host& one, const host& other)
{
    return static_cast<double>(one.bytes) / static_cast<double>(other.bytes);
}

TEST(Share, BandwidthsRelateAsTheWeights)
{
    for (const u64 rate : {200'000'000ULL, 1'000'000'000ULL, 5'000'000'000ULL}) {
        std::vector<host> hosts{{20}, {10}};
        run(hosts, rate, 60 * second);
        EXPECT_NEAR(ratio(hosts[0], hosts[1]), 2, 0.2) << rate;
        std::vector<host> equal{{10}, {10}, {10}};
        run(equal, rate, 60 * second);
        EXPECT_NEAR(ratio(equal[0], equal[2]), 1, 0.1) << rate;
    }
}

TEST(Share, KeepsTheLatencyNearTheTarget)
{
    std::vector<host> hosts{{10}, {10}};
    run(hosts, 1'000'000'000, 20 * second);
    EXPECT_GT(hosts[0].share.latency, target);
    EXPECT_LT(hosts[0].share.latency, 3 * target / 2);
}

TEST(Share, UsesAllOfTheMember)
{
    std::vector<host> hosts{{10}};
    run(hosts, 1'000'000'000, 20 * second);
    EXPECT_GT(hosts[0].bytes, 9 * second);
}

TEST(Share, WithoutATargetStaysAsItIs)
{
    weft_share share{};
    weft_share_init(&share);
    const auto window = share.window;
    for (u64 now = 0; now < second; now += 1'000'000)
        weft_share_done(&share, second, 0, 10, now);
    EXPECT_EQ(share.window, window);
}

TEST(Share, GrowsOnlyWhileItLimits)
{
    weft_share share{};
    weft_share_init(&share);
    const auto window = share.window;
    for (u64 now = 0; now < 10 * second; now += 1'000'000)
        weft_share_done(&share, target / 100, target, 100, now);
    EXPECT_EQ(share.window, window);
}

TEST(Share, AdmitsOneCommandInAnyCase)
{
    weft_share share{};
    weft_share_init(&share);
    for (u64 now = 0; now < 100 * second; now += 1'000'000)
        weft_share_done(&share, 1000 * target, target, 1, now);
    EXPECT_TRUE(weft_share_admits(&share, 0, 1 << 30));
    EXPECT_FALSE(weft_share_admits(&share, 1 << 20, piece));
    EXPECT_TRUE(share.limited);
}

} // namespace
