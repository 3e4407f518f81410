// SPDX-License-Identifier: GPL-2.0-only
/// From what an engineer knows to what the cluster needs. Pure: no files, no clock, no output.
#pragma once

#include "checkpoint.hpp"
#include "cluster.hpp"
#include "model.hpp"

#include <result.hpp>

#include <string>
#include <vector>

namespace weft::plan
{

struct inputs {
    model trained;
    parallelism by{1, 1, 0, sharding::full}; ///< data 0: what the GPUs leave
    /// Instead of what follows from the model.
    std::optional<bytes> checkpoint_size;

    seconds interval = hour;
    /// A checkpoint takes no longer; default_within() otherwise.
    std::optional<seconds> within;
    bool asynchronous = false;
    seconds restart = minute * 5; ///< from a failure until the checkpoint is read
    std::optional<seconds> restore_within;
    /// Llama 3: 419 unexpected interruptions in 54 days of 16,384 GPUs are one in 50,677 hours of a GPU
    /// (Llama team 2024, "The Llama 3 herd of models", section 3.3.4).
    seconds gpu_mtbf = hour * 50'677;
    double shape = 1;
    seconds run = day * 30;
    count seed = 1;

    count gpus = 64;
    count gpus_per_node = 8;
    bytes gpu_memory = gigabyte * 80;
    bytes gpu_reserve = gigabyte * 4;
    bytes_per_second gpu_link{64e9};
    bytes_per_second feed; ///< of one GPU

    count node_rails = 2;
    bytes_per_second node_rail_rate = gigabit * 400;
    bytes_per_second rail_rate = gigabit * 400;
    double nic_efficiency = 0.9;
    std::optional<count> targets;
    std::optional<count> rails;
    count disks = 8;
    disk each{bytes_per_second(7e9), bytes_per_second(7e9), per_second(1.6e6), gigabyte * 7680, 0.0044};
    count copies = 1;
    count volumes = 0; ///< 0: one for each node
    seconds rebuild = day;
    count keep = 3; ///< checkpoints that are stored at a time

    double samples = 0;
    bytes sample_size;
    count batch = 0;
    seconds step;
    bytes chunk{131072};
    prices at;
};

/// Where a plan does not work, or is not what it seems.
enum class problem {
    does_not_fit,       ///< GPU memory
    no_targets_suffice, ///< the nodes are the limit
    strained,           ///< the targets that are given are too few
    interval_too_short, ///< a checkpoint takes longer
    mostly_lost,        ///< more than half of the GPU time
    volume_too_wide,    ///< more than 256 members
    few_members,        ///< fewer than volumes
};

/// One way of writing checkpoints.
struct way {
    schedule when;
    losses lost;
    simulated check; ///< the same by simulation
    best_interval best;
    losses lost_at_best;
    double gpu_hours_a_day = 0; ///< lost, of all GPUs
};

struct outcome {
    inputs from;
    parallelism by;
    count nodes = 1;
    count volumes = 1;
    state_sizes sizes;
    bytes checkpoint;
    bytes bytes_a_day; ///< written by GPUs; copies multiply what is stored
    memory_use memory;
    seconds swap_time; ///< a step's swapping of what does not fit, once out and once in; 0 if all fits
    seconds within;

    demand wanted;
    need needed;
    cluster built; ///< with the targets and rails that are given, or else needed
    strain strained;
    limits writing;
    limits reading;
    seconds write_time; ///< of a checkpoint, at the full rate
    seconds snapshot;   ///< of GPU memory to the host's

    seconds job_mtbf;
    way synchronous;
    way asynchronous;

    bytes_per_second feed;              ///< wanted, of all GPUs
    bytes_per_second feed_there;        ///< without checkpoints
    bytes_per_second feed_at_full_rate; ///< while a checkpoint is written as fast as possible
    bytes_per_second feed_when_paced;   ///< while a checkpoint takes the whole interval
    bytes restore_bytes;
    seconds restore_time;
    count volume_members = 1;
    double volume_loss = 0; ///< chance within the run
    double any_loss = 0;    ///< that any volume is lost
    load_times loads;
    std::optional<epoch> data;
    std::optional<double> price;          ///< of storage
    std::optional<double> lost_gpu_price; ///< of the GPU time that is lost in the run
    std::vector<problem> problems;

    [[nodiscard]] const way& chosen() const { return from.asynchronous ? asynchronous : synchronous; }
};

/// A 20th of the interval for synchronous checkpoints, for which GPUs wait, and a half for asynchronous ones.
[[nodiscard]] seconds default_within(const inputs& of);

/// What the GPUs read to go on: parts that are sharded once, the others by each replica.
[[nodiscard]] bytes restore_bytes_of(const inputs& of, const parallelism& by);

/// Refuses inputs that contradict each other, with a sentence that names the options.
[[nodiscard]] result<void> check(const inputs& of);

/// The whole plan. With `size_by`, targets that are not given are as many as another plan has: what-if and
/// sensitivity compare like with like. Without `best` neither the best intervals are searched nor, where
/// failures are exponential, is anything simulated.
[[nodiscard]] result<outcome> evaluate(const inputs& of, const cluster* size_by = nullptr, bool best = true);

/// One point of a curve: how much GPU time is lost at an interval.
[[nodiscard]] double lost_at(const outcome& of, const way& by, seconds interval);

} // namespace weft::plan
