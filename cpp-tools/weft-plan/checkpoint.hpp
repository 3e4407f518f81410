// SPDX-License-Identifier: GPL-2.0-only
/// What checkpoints and failures cost, and the best interval between checkpoints.
#pragma once

#include "units.hpp"

namespace weft::plan
{

/// A job that writes a checkpoint each `interval`, measured from start to start.
struct schedule {
    seconds interval;
    seconds stall;    ///< GPUs stand still so long for each checkpoint
    seconds drain;    ///< after that, until the checkpoint can be restored; 0 for a synchronous one
    seconds restart;  ///< from a failure until the job computes again
    seconds mtbf;     ///< of the whole job
    double shape = 1; ///< of the Weibull distribution of failures; 1 is the exponential one

    /// A checkpoint begins when the one before it is complete, so this is the shortest interval.
    [[nodiscard]] seconds shortest() const { return stall + drain; }
};

/// The time between failures of a job that stops when one of `parts` fails: mtbf / parts, by the sum of the
/// rates.
[[nodiscard]] seconds job_mtbf(seconds part_mtbf, count parts);

/// sqrt(2 d M), the computing time between checkpoints that take d: Young 1974, "A first order approximation
/// to the optimum checkpoint interval", CACM 17(9).
[[nodiscard]] seconds young(seconds stall, seconds mtbf);
/// sqrt(2 d M) (1 + sqrt(d/2M)/3 + d/18M) - d for d < 2M, else M: Daly 2006, "A higher order estimate of the
/// optimum checkpoint interval for restart dumps", FGCS 22, equation 37.
[[nodiscard]] seconds daly(seconds stall, seconds mtbf);

/// The fraction of the GPUs' time that is lost: 1 - t exp(-(R+D)/M) / (M (exp(I/M) - 1)), where t = I - stall
/// computes, R restarts and D drains. For D = 0 it is Daly 2006, his complete model of the wall clock time. D
/// acts as R does: a failure before the drain's end goes back to the checkpoint before. It is exact for
/// exponential failures, and 1 where the interval is shorter than shortest().
[[nodiscard]] double lost_fraction(const schedule& of);

/// The parts of lost_fraction().
struct losses {
    double stall = 0;    ///< GPUs wait for checkpoints
    double failures = 0; ///< restarts, and work that is done again
    [[nodiscard]] double total() const { return stall + failures; }
};
[[nodiscard]] losses losses_of(const schedule& of);

struct simulated {
    double lost = 0;  ///< fraction of the GPUs' time
    double error = 0; ///< its standard error
};

constexpr count simulated_failures = 20'000;

/// Failures drawn one after another from the Weibull distribution with this mean. The same seed gives the
/// same failures on each machine.
[[nodiscard]] simulated simulate(const schedule& of, std::uint64_t seed, count failures = simulated_failures);

/// Why Young's and Daly's formulas do not give the best interval.
enum class breach {
    none,
    long_checkpoint, ///< it takes more than a tenth of the time between failures
    drain,           ///< a checkpoint is complete only some time after GPUs go on
    weibull,         ///< failures are not exponential
};

struct best_interval {
    seconds by_young; ///< start to start, as all intervals: the stall is added to what the papers give
    seconds by_daly;
    seconds found; ///< where lost_fraction(), or for breach::weibull simulate(), is least
    double lost = 0;
    breach broken = breach::none;
};

[[nodiscard]] best_interval best_interval_of(schedule of, std::uint64_t seed);

} // namespace weft::plan
