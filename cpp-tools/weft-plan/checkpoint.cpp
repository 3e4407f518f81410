// SPDX-License-Identifier: GPL-2.0-only
#include "checkpoint.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <random>

namespace weft::plan
{

namespace
{

/// From 0 to below 1, of the generator's upper 53 bits: the standard leaves its own distributions to the
/// library.
double uniform(std::mt19937_64& generator)
{
    return static_cast<double>(generator() >> 11) * 0x1p-53;
}

/// Where `cost` is least between the two, to a 1000th: golden-section search on the logarithm.
template <typename Cost>
seconds least(seconds low, seconds high, Cost cost)
{
    constexpr double golden = 0.6180339887498949;
    double a = std::log(low.value()), b = std::log(high.value());
    double c = b - golden * (b - a), d = a + golden * (b - a);
    double at_c = cost(seconds(std::exp(c))), at_d = cost(seconds(std::exp(d)));
    while (b - a > 1e-4) {
        if (at_c <= at_d) {
            b = d;
            d = c;
            at_d = at_c;
            c = b - golden * (b - a);
            at_c = cost(seconds(std::exp(c)));
        } else {
            a = c;
            c = d;
            at_c = at_d;
            d = a + golden * (b - a);
            at_d = cost(seconds(std::exp(d)));
        }
    }
    return seconds(std::exp((a + b) / 2));
}

} // namespace

seconds job_mtbf(seconds part_mtbf, count parts)
{
    return part_mtbf / static_cast<double>(parts);
}

seconds young(seconds stall, seconds mtbf)
{
    return seconds(std::sqrt(2 * stall.value() * mtbf.value()));
}

seconds daly(seconds stall, seconds mtbf)
{
    if (stall >= mtbf * 2)
        return mtbf;
    const double part = stall / (mtbf * 2);
    return young(stall, mtbf) * (1 + std::sqrt(part) / 3 + part / 9) - stall;
}

double lost_fraction(const schedule& of)
{
    if (of.interval < of.shortest() || of.interval <= of.stall)
        return 1;
    const auto computing = of.interval - of.stall;
    const double kept = std::exp(-((of.restart + of.drain) / of.mtbf)) / std::expm1(of.interval / of.mtbf);
    return std::clamp(1 - kept * (computing / of.mtbf), 0.0, 1.0);
}

losses losses_of(const schedule& of)
{
    const double all = lost_fraction(of);
    const double waiting = std::min(all, of.stall / of.interval);
    return {waiting, all - waiting};
}

simulated simulate(const schedule& of, std::uint64_t seed, count failures)
{
    if (of.interval < of.shortest() || of.interval <= of.stall)
        return {1, 0};
    std::mt19937_64 generator(seed);
    // The mean of a Weibull distribution is scale times Gamma(1 + 1/shape).
    const auto scale = of.mtbf / std::tgamma(1 + 1 / of.shape);
    const auto computing = of.interval - of.stall;
    // Parts of the run, which the error is estimated from.
    constexpr count parts = 20;
    std::array<double, parts> lost{};
    seconds worked, passed;
    for (count part = 0; part < parts; part++) {
        seconds part_worked, part_passed;
        for (count i = part * failures / parts; i < (part + 1) * failures / parts; i++) {
            const auto life = scale * std::pow(-std::log1p(-uniform(generator)), 1 / of.shape);
            // Checkpoint k began at restart + k intervals, with the stall in the last of them.
            const double complete = std::floor((life - of.restart - of.drain) / of.interval);
            part_passed += life;
            part_worked += computing * std::max(0.0, complete);
        }
        lost[part] = part_passed.value() > 0 ? 1 - part_worked / part_passed : 1;
        worked += part_worked;
        passed += part_passed;
    }
    const double all = passed.value() > 0 ? 1 - worked / passed : 1;
    double squares = 0;
    for (const double one : lost)
        squares += (one - all) * (one - all);
    return {all, std::sqrt(squares / (parts * (parts - 1)))};
}

best_interval best_interval_of(schedule of, std::uint64_t seed)
{
    best_interval best;
    best.by_young = young(of.stall, of.mtbf) + of.stall;
    best.by_daly = daly(of.stall, of.mtbf) + of.stall;
    if (of.shape != 1)
        best.broken = breach::weibull;
    else if (of.drain > of.stall)
        best.broken = breach::drain;
    else if (of.stall > of.mtbf / 10)
        best.broken = breach::long_checkpoint;

    const auto cost = [&](seconds interval) {
        of.interval = interval;
        return best.broken == breach::weibull ? simulate(of, seed).lost : lost_fraction(of);
    };
    const auto low = std::max(of.shortest(), seconds(1e-3));
    best.found = least(low, std::max(low * 2, std::max(of.mtbf * 20, best.by_young * 4)), cost);
    best.lost = cost(best.found);
    // The shortest interval is the end of the range, which the search only nears.
    if (const double at_low = cost(low * 1.0000001); at_low < best.lost) {
        best.found = low;
        best.lost = at_low;
    }
    return best;
}

} // namespace weft::plan
