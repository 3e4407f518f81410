// SPDX-License-Identifier: GPL-2.0-only
/// weft-plan's formulas: worked examples, published figures, and properties that hold for any input.
#include "published.hpp"

#include <plan.hpp>

#include <cmath>
#include <gtest/gtest.h>
#include <random>

namespace weft::plan
{

namespace
{

model model_of(double parameters, optimizer by = optimizer::adamw)
{
    model one;
    one.parameters = parameters;
    one.weights = precision::fp16;
    one.trained_by = by;
    return one;
}

inputs llama()
{
    inputs of;
    of.trained = model_of(70e9);
    of.trained.layers = 80;
    of.trained.hidden = 8192;
    of.trained.heads = 64;
    of.trained.sequence = 8192;
    of.gpus = 1024;
    of.by.tensor = 8;
    of.feed = bytes_per_second(4e9);
    return of;
}

outcome planned(const inputs& of, const cluster* size_by = nullptr)
{
    auto made = evaluate(of, size_by);
    EXPECT_TRUE(made) << made.error().text;
    return made.value_or(outcome());
}

std::string refusal(const inputs& of)
{
    const auto made = evaluate(of);
    return made ? "" : made.error().text;
}

TEST(PlanSizes, AreBytesAParameter)
{
    EXPECT_DOUBLE_EQ(sizes_of(model_of(7e9)).total().value(), 42e9);
    EXPECT_DOUBLE_EQ(sizes_of(model_of(70e9, optimizer::none)).total().value(), 140e9);
    auto mixed = model_of(1e9);
    mixed.states = precision::fp32;
    mixed.master = true;
    // 2 + 4 + 4 + 4, as ZeRO counts without gradients.
    EXPECT_DOUBLE_EQ(sizes_of(mixed).total().value(), 14e9);
    EXPECT_DOUBLE_EQ(sizes_of(model_of(1e9, optimizer::adamw_8bit)).total().value(), 4e9);
    EXPECT_DOUBLE_EQ(sizes_of(model_of(1e9, optimizer::lion)).total().value(), 4e9);
    EXPECT_DOUBLE_EQ(sizes_of(model_of(1e9, optimizer::sgd)).total().value(), 2e9);
}

TEST(PlanPublished, FiguresFollowFromTheirAssumptions)
{
    const auto all = published_figures();
    ASSERT_EQ(all.size(), 11U);
    for (const auto& one : all)
        EXPECT_TRUE(one.follows()) << one.claim << ": " << one.computed << " for " << one.stated;
    // Where the assumption is not the usual one, the figure says which.
    EXPECT_NE(all[0].differs.find("98 GB"), std::string::npos) << all[0].differs;
    EXPECT_NE(all[3].differs.find("980 GB"), std::string::npos) << all[3].differs;
    EXPECT_NE(all[7].differs.find("8.33 T"), std::string::npos) << all[7].differs;
}

TEST(PlanPublished, AFigureThatDoesNotFollowIsFound)
{
    auto one = published_figures().front();
    one.computed *= 1.01;
    EXPECT_FALSE(one.follows());
}

TEST(PlanPublished, FiftyTerabytesOfAThousandGpus)
{
    auto of = llama();
    of.checkpoint_size = bytes(50e12);
    of.feed = {};
    for (const auto& [within, lost] : {std::pair{300.0, 1.0 / 12}, {45.0, 0.0125}}) {
        of.within = seconds(within);
        const auto plan = planned(of);
        EXPECT_TRUE(plan.needed.possible);
        EXPECT_LE(plan.write_time.value(), within);
        // One target fewer is too slow.
        auto fewer = of;
        fewer.targets = plan.needed.targets - 1;
        fewer.rails = plan.needed.rails;
        EXPECT_GT(planned(fewer).write_time.value(), within);
        EXPECT_NEAR(losses_of({hour, seconds(within), {}, {}, seconds(1e15)}).total(), lost, 1e-6);
    }
}

TEST(PlanMemory, IsDividedByWhatIsShared)
{
    const auto one = model_of(70e9);
    const parallelism by{8, 4, 32, sharding::optimizer};
    const auto use = memory_of(one, by, gigabyte * 80, gigabyte * 4);
    EXPECT_DOUBLE_EQ(use.weights.value(), 140e9 / 32);
    EXPECT_DOUBLE_EQ(use.gradients.value(), 140e9 / 32);
    EXPECT_DOUBLE_EQ(use.optimizer.value(), 280e9 / 1024);
    EXPECT_FALSE(use.activations);
    EXPECT_TRUE(use.fits());
    // A 7.5B model on 64 GPUs in mixed precision: figure 1 of ZeRO has 120, 31.4, 16.6 and 1.9 GB.
    auto zero = model_of(7.5e9);
    zero.states = precision::fp32;
    zero.master = true;
    for (const auto& [shared, gb] : {std::pair{sharding::none, 120.0},
                                     {sharding::optimizer, 31.4},
                                     {sharding::gradients, 16.6},
                                     {sharding::full, 1.9}})
        EXPECT_NEAR(memory_of(zero, {1, 1, 64, shared}, gigabyte, {}).total().value() / 1e9, gb, 0.05);
}

TEST(PlanMemory, ActivationsAreAsInTheirPaper)
{
    // Korthikanti et al. 2022, table 2, GPT-3: 96 layers, 12288 wide, 96 heads, 2048 tokens; 5as/h = 80.
    auto gpt = model_of(175e9);
    gpt.layers = 96;
    gpt.hidden = 12288;
    gpt.heads = 96;
    gpt.sequence = 2048;
    gpt.again = recompute::none;
    const double sbh = 2048.0 * 12288 * 96 / 8;
    const parallelism by{8, 8, 1, sharding::none};
    EXPECT_DOUBLE_EQ(activations_of(gpt, by)->value(), sbh * 114);
    gpt.again = recompute::selective;
    EXPECT_DOUBLE_EQ(activations_of(gpt, by)->value(), sbh * 34);
    gpt.again = recompute::full;
    EXPECT_DOUBLE_EQ(activations_of(gpt, by)->value(), sbh * 8 * 2);
}

TEST(PlanMemory, WhatDoesNotFitIsSwapped)
{
    auto of = llama();
    of.gpus = 8;
    const auto plan = planned(of);
    EXPECT_FALSE(plan.memory.fits());
    EXPECT_EQ(plan.problems.front(), problem::does_not_fit);
    EXPECT_DOUBLE_EQ(plan.memory.excess().value(), plan.memory.total().value() - 80e9);
    EXPECT_GT(plan.swap_time, seconds());
}

TEST(PlanInterval, YoungAndDaly)
{
    EXPECT_NEAR(young(seconds(300), hour * 24).value(), 7200, 1e-9);
    // sqrt(2dM) (1 + sqrt(d/2M)/3 + d/18M) - d with d/2M = 1/576.
    EXPECT_NEAR(daly(seconds(300), hour * 24).value(), 7200 * (1 + 1 / 72.0 + 1 / 5184.0) - 300, 1e-6);
    EXPECT_EQ(daly(hour * 2, hour), hour);
}

TEST(PlanInterval, TheBestIsNearDalyWhereHisAssumptionsHold)
{
    const schedule of{hour, seconds(60), {}, seconds(300), hour * 24};
    const auto best = best_interval_of(of, 1);
    EXPECT_EQ(best.broken, breach::none);
    EXPECT_NEAR(best.found / best.by_daly, 1, 0.01);
}

TEST(PlanInterval, TheBestIsBest)
{
    for (const double stall : {1.0, 60.0, 3000.0})
        for (const double drain : {0.0, 600.0})
            for (const double mtbf : {3600.0, 1e5, 1e7}) {
                schedule of{hour, seconds(stall), seconds(drain), seconds(300), seconds(mtbf)};
                const auto best = best_interval_of(of, 1);
                EXPECT_GE(best.found, of.shortest());
                for (const double factor : {0.5, 0.9, 1.1, 2.0}) {
                    of.interval = best.found * factor;
                    EXPECT_GE(lost_fraction(of), best.lost - 1e-9) << stall << ' ' << drain << ' ' << mtbf;
                }
            }
}

TEST(PlanInterval, AssumptionsThatBreakAreNamed)
{
    EXPECT_EQ(best_interval_of({hour, seconds(600), {}, {}, hour}, 1).broken, breach::long_checkpoint);
    EXPECT_EQ(best_interval_of({hour, seconds(1), seconds(600), {}, hour * 24}, 1).broken, breach::drain);
    EXPECT_EQ(best_interval_of({hour, seconds(1), {}, {}, hour * 24, 0.7}, 1).broken, breach::weibull);
}

TEST(PlanSimulation, AgreesWithTheFormula)
{
    for (const double stall : {10.0, 300.0})
        for (const double drain : {0.0, 900.0})
            for (const double mtbf : {7200.0, 86400.0}) {
                const schedule of{hour, seconds(stall), seconds(drain), seconds(600), seconds(mtbf)};
                const auto simulated = simulate(of, 7);
                EXPECT_NEAR(simulated.lost, lost_fraction(of), 5 * simulated.error + 1e-4);
                EXPECT_GT(simulated.error, 0);
            }
}

TEST(PlanSimulation, TheSameSeedGivesTheSame)
{
    const schedule of{hour, seconds(60), {}, seconds(300), hour * 10, 0.7};
    EXPECT_EQ(simulate(of, 3).lost, simulate(of, 3).lost);
    EXPECT_NE(simulate(of, 3).lost, simulate(of, 4).lost);
}

TEST(PlanSimulation, WeibullFailuresInBurstsLoseLess)
{
    // With the same mean, early failures come together: the long times between them lose less.
    schedule of{hour, seconds(60), {}, seconds(300), hour * 10, 0.5};
    const double bursts = simulate(of, 1).lost;
    of.shape = 1;
    EXPECT_LT(bursts, simulate(of, 1).lost - 5 * simulate(of, 1).error);
    // It is a Weibull distribution with the mean that is asked for: nothing is lost but the stall if failures
    // are rare.
    of = {hour, seconds(360), {}, {}, hour * 1e5, 2};
    EXPECT_NEAR(simulate(of, 1).lost, 0.1, 1e-3);
}

TEST(PlanLosses, AnIntervalThatIsTooShortLosesAll)
{
    const schedule of{seconds(60), seconds(50), seconds(20), {}, hour};
    EXPECT_EQ(lost_fraction(of), 1);
    EXPECT_EQ(simulate(of, 1).lost, 1);
}

TEST(PlanCluster, TheNarrowestPartIsTheLimit)
{
    cluster of;
    of.gpus = of.writing_gpus = 16;
    of.nodes = of.writing_nodes = 2;
    of.gpu_link = bytes_per_second(50e9);
    of.node_rails = 2;
    of.node_adapter = {gigabit * 400, 0.9};
    of.targets = 3;
    of.rails = 1;
    of.target_adapter = {gigabit * 400, 0.8};
    of.disks = 8;
    of.each = {bytes_per_second(7e9), bytes_per_second(4e9), per_second(1e6), gigabyte * 7680, 0.01};
    EXPECT_DOUBLE_EQ(read_limits(of).node_network.value(), 180e9);
    EXPECT_DOUBLE_EQ(read_limits(of).target_network.value(), 120e9);
    EXPECT_DOUBLE_EQ(read_limits(of).disks.value(), 168e9);
    EXPECT_EQ(read_limits(of).first(), part::target_network);
    EXPECT_EQ(write_limits(of).first(), part::disks);
    EXPECT_DOUBLE_EQ(write_limits(of).rate().value(), 96e9);
    // Half of what the disks write leaves half of what they read.
    EXPECT_DOUBLE_EQ(feed_beside(of, bytes_per_second(48e9)).value(), 84e9);
    of.copies = 2;
    EXPECT_DOUBLE_EQ(write_limits(of).rate().value(), 48e9);
    EXPECT_DOUBLE_EQ(read_limits(of).rate().value(), 120e9);
}

TEST(PlanCluster, WithoutShardingOneReplicaWrites)
{
    auto of = llama();
    of.by = {8, 2, 0, sharding::none};
    const auto plan = planned(of);
    EXPECT_EQ(plan.built.writing_gpus, 16U);
    EXPECT_EQ(plan.built.writing_nodes, 2U);
    EXPECT_EQ(plan.writing.first(), part::node_network);
    // Each of 64 replicas reads all.
    EXPECT_DOUBLE_EQ(plan.restore_bytes.value(), 420e9 * 64);
}

TEST(PlanCluster, TargetsAreTheFewestThatDo)
{
    const auto plan = planned(llama());
    ASSERT_TRUE(plan.needed.possible);
    EXPECT_TRUE(plan.problems.empty() || plan.problems.front() == problem::few_members);
    EXPECT_LE(plan.strained.most, 1);
    auto fewer = llama();
    fewer.targets = plan.needed.targets - 1;
    fewer.rails = plan.needed.rails;
    EXPECT_GT(planned(fewer).strained.most, 1);
}

TEST(PlanCluster, CopiesHaveAsManyTargetsEach)
{
    for (count copies = 1; copies <= 4; copies++) {
        auto of = llama();
        of.copies = copies;
        const auto plan = planned(of);
        ASSERT_TRUE(plan.needed.possible);
        EXPECT_EQ(plan.needed.targets % copies, 0U);
        EXPECT_LE(plan.strained.most, 1);
    }
}

TEST(PlanCluster, NoTargetsHelpNodesThatAreTheLimit)
{
    auto of = llama();
    of.node_rails = 1;
    of.node_rail_rate = gigabit * 100;
    const auto plan = planned(of);
    EXPECT_FALSE(plan.needed.possible);
    // 8 GPUs with 4 GB/s are 256 Gbit/s: three adapters of 100 at 90 %.
    EXPECT_EQ(plan.needed.node_rails, 3U);
    of.node_rails = plan.needed.node_rails;
    EXPECT_TRUE(planned(of).needed.possible);
}

TEST(PlanLoss, OneCopyAndTwo)
{
    // 100 disks at 1 % a year: 1 - 0.99^100 in a year.
    EXPECT_NEAR(loss_chance(100, 0.01, year, 1, day), 1 - std::pow(0.99, 100), 1e-9);
    const double rate = -std::log(0.99) * 100 / year.value();
    EXPECT_NEAR(loss_chance(100, 0.01, year, 2, day), 2 * rate * rate * day.value() * year.value(), 5e-5);
    EXPECT_EQ(loss_chance(100, 0, year, 1, day), 0);
}

TEST(PlanEpoch, SmallReads)
{
    auto of = llama();
    of.samples = 1e9;
    of.sample_size = bytes(65536);
    of.chunk = bytes(131072);
    of.batch = 10000;
    of.step = seconds(2);
    of.targets = 10;
    of.rails = 2;
    const auto plan = planned(of);
    ASSERT_TRUE(plan.data);
    EXPECT_DOUBLE_EQ(plan.data->samples.value(), 5000);
    EXPECT_DOUBLE_EQ(plan.data->rate.value(), 5000.0 * 65536);
    EXPECT_DOUBLE_EQ(plan.data->member_iops.value(), 5000 * 1.5 / 80);
    EXPECT_DOUBLE_EQ(plan.data->time.value(), 200000);
}

TEST(PlanLoads, OneVolumeIsAPartOfAll)
{
    auto of = llama();
    of.targets = 16;
    of.rails = 2;
    of.volumes = 32;
    const auto plan = planned(of);
    // 4 members of 7 GB/s; all have more than the node's two adapters of 45 GB/s.
    EXPECT_DOUBLE_EQ(plan.loads.one_volume.value(), 140 / 28.0);
    EXPECT_DOUBLE_EQ(plan.loads.many_volumes.value(), 140 / 90.0);
}

TEST(PlanPrices, AreSums)
{
    cluster of;
    of.targets = 3;
    of.disks = 8;
    of.rails = 2;
    of.nodes = 4;
    of.node_rails = 2;
    EXPECT_DOUBLE_EQ(price_of(of, {10000, 1000, 500, 0}), 30000 + 24000 + 7000);
}

TEST(PlanRefusals, NameTheOptions)
{
    auto of = llama();
    of.by = {8, 4, 16, sharding::full};
    EXPECT_NE(refusal(of).find("--tensor 8 x --pipeline 4 x --data 16 are 512 GPUs, but --gpus is 1024"),
              std::string::npos);
    of = llama();
    of.by.tensor = 3;
    EXPECT_NE(refusal(of).find("must be a multiple of --tensor 3"), std::string::npos);
    of = llama();
    of.by.tensor = 1;
    of.gpus = 1020;
    EXPECT_NE(refusal(of).find("--gpus-per-node 8"), std::string::npos);
    of = llama();
    of.trained.parameters = 0;
    EXPECT_NE(refusal(of).find("--parameters"), std::string::npos);
    of = llama();
    of.within = hour * 2;
    EXPECT_NE(refusal(of).find("--within"), std::string::npos);
    of = llama();
    of.copies = 3;
    of.targets = 2;
    EXPECT_NE(refusal(of).find("--copies 3"), std::string::npos);
    of = llama();
    of.samples = 10;
    EXPECT_NE(refusal(of).find("--sample-size"), std::string::npos);
    of = llama();
    of.by.pipeline = 128;
    EXPECT_NE(refusal(of).find("80 layers"), std::string::npos);
}

/// Plans at random, of which each draw is valid.
class PlanProperty : public ::testing::TestWithParam<unsigned>
{
protected:
    inputs drawn()
    {
        std::mt19937_64 generator(GetParam());
        const auto between = [&](double low, double high) {
            const double part = static_cast<double>(generator() >> 11) * 0x1p-53;
            return low * std::pow(high / low, part);
        };
        inputs of;
        of.trained = model_of(between(1e9, 2e12));
        of.gpus = 8 * static_cast<count>(between(1, 2000));
        of.interval = seconds(between(300, 20000));
        of.asynchronous = generator() % 2;
        of.feed = bytes_per_second(between(1e6, 5e9));
        of.node_rail_rate = gigabit * between(100, 800);
        of.rail_rate = gigabit * between(100, 800);
        of.each.read = bytes_per_second(between(1e9, 14e9));
        of.each.write = bytes_per_second(between(1e9, 14e9));
        of.gpu_mtbf = hour * between(1e3, 1e6);
        of.targets = static_cast<count>(between(2, 500));
        of.rails = 1 + generator() % 4;
        of.copies = 1 + generator() % 2;
        return of;
    }
};

TEST_P(PlanProperty, MoreBandwidthNeverMakesACheckpointSlower)
{
    const auto of = drawn();
    const auto before = planned(of);
    const auto improve = [&](auto change) {
        auto more = of;
        change(more);
        const auto after = planned(more);
        EXPECT_LE(after.write_time, before.write_time);
        EXPECT_LE(after.restore_time, before.restore_time);
        EXPECT_GE(after.feed_there, before.feed_there);
        EXPECT_LE(after.synchronous.best.lost, before.synchronous.best.lost + 1e-6);
        EXPECT_LE(after.loads.one_volume, before.loads.one_volume);
    };
    improve([](inputs& more) { more.node_rail_rate = more.node_rail_rate * 1.5; });
    improve([](inputs& more) { more.rail_rate = more.rail_rate * 1.5; });
    improve([](inputs& more) { more.each.read = more.each.read * 1.5; });
    improve([](inputs& more) { more.each.write = more.each.write * 1.5; });
    improve([](inputs& more) { more.targets = *more.targets + 3; });
    improve([](inputs& more) { more.rails = *more.rails + 1; });
    improve([](inputs& more) { more.node_rails++; });
}

TEST_P(PlanProperty, PartsAreParts)
{
    const auto plan = planned(drawn());
    for (const auto* by : {&plan.synchronous, &plan.asynchronous}) {
        EXPECT_GE(by->lost.stall, 0);
        EXPECT_GE(by->lost.failures, 0);
        EXPECT_LE(by->lost.total(), 1);
        EXPECT_LE(by->best.lost, by->lost.total() + 1e-9);
    }
    EXPECT_GE(plan.any_loss, plan.volume_loss);
    EXPECT_LE(plan.any_loss, 1);
    EXPECT_LE(plan.feed_at_full_rate, plan.feed_there);
}

TEST_P(PlanProperty, WhatIsNeededIsEnough)
{
    auto of = drawn();
    of.targets.reset();
    of.rails.reset();
    const auto plan = planned(of);
    if (plan.needed.possible) {
        EXPECT_LE(plan.strained.most, 1 + 1e-9);
        EXPECT_LE(plan.write_time.value(), plan.within.value() * (1 + 1e-9));
    } else {
        of.targets = 1'000'000;
        of.rails = 8;
        EXPECT_GT(planned(of).strained.most, 1);
    }
}

TEST_P(PlanProperty, MoreFailuresLoseMore)
{
    auto of = drawn();
    const auto before = planned(of);
    of.gpu_mtbf = of.gpu_mtbf / 2;
    const auto after = planned(of);
    EXPECT_GE(after.synchronous.lost.total(), before.synchronous.lost.total());
    EXPECT_GE(after.synchronous.best.lost, before.synchronous.best.lost - 1e-6);
    of.each.annual_failures *= 2;
    EXPECT_GT(planned(of).any_loss, before.any_loss);
}

TEST_P(PlanProperty, ACopyMakesLossRarerAndCheckpointsNoFaster)
{
    auto of = drawn();
    of.copies = 1;
    const auto one = planned(of);
    of.copies = 2;
    const auto two = planned(of);
    EXPECT_GE(two.write_time, one.write_time);
    // A copy has half of the members, so this needs a rebuild that is short beside the time between losses.
    EXPECT_LT(two.volume_loss, one.volume_loss);
}

INSTANTIATE_TEST_SUITE_P(Drawn, PlanProperty, ::testing::Range(1U, 41U));

} // namespace

} // namespace weft::plan
