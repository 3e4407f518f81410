// SPDX-License-Identifier: GPL-2.0-only
/// What a cluster's storage does: rates and what limits them, how many targets a load needs, epochs, loads of
/// weights, the chance of losing a volume, the price.
#pragma once

#include "units.hpp"

#include <optional>

namespace weft::plan
{

struct adapter {
    bytes_per_second rate;
    double efficiency = 1; ///< the part of it that data get
};

struct disk {
    bytes_per_second read;
    bytes_per_second write;
    per_second iops; ///< small reads
    bytes capacity;
    double annual_failures = 0; ///< the part that fails in a year
};

/// GPU nodes, and targets that serve disks to them. Each disk of a target is a member of a volume.
struct cluster {
    count gpus = 1;
    count nodes = 1;
    /// Those that have something to write: without sharding one of the replicas.
    count writing_gpus = 1;
    count writing_nodes = 1;
    bytes_per_second gpu_link; ///< between a GPU and its host, one way
    count node_rails = 1;
    adapter node_adapter;
    count targets = 1;
    count rails = 1; ///< of each target
    adapter target_adapter;
    count disks = 1; ///< of each target
    disk each;
    count copies = 1; ///< volumes that hold the same data, each on targets of its own

    [[nodiscard]] count members() const { return targets * disks; }
};

enum class part { node_network, target_network, disks, gpu_links };

/// The rate that each part of the path allows. The least of them is the rate: the roofline of a pipeline.
struct limits {
    bytes_per_second node_network;
    bytes_per_second target_network;
    bytes_per_second disks;
    bytes_per_second gpu_links;
    [[nodiscard]] bytes_per_second rate() const;
    [[nodiscard]] part first() const;
};

/// Of data that GPUs write; with copies each byte is sent and stored several times.
[[nodiscard]] limits write_limits(const cluster& of);
/// Of data that GPUs read; any copy serves them.
[[nodiscard]] limits read_limits(const cluster& of);

/// The feed that remains while checkpoints are written at a rate. Adapters carry both directions at once; a
/// disk that spends the part w of its time on writing reads for 1 - w.
[[nodiscard]] bytes_per_second feed_beside(const cluster& of, bytes_per_second writing);

/// What the cluster has to do.
struct demand {
    bytes checkpoint;
    seconds within;            ///< a checkpoint takes no longer
    bytes_per_second feed;     ///< of all GPUs; 0 for none
    bool feed_goes_on = false; ///< while a checkpoint is written
    bytes restore;
    std::optional<seconds> restore_within;
    bytes capacity;          ///< for all data, once
    per_second samples_iops; ///< small reads; 0 for none
};

enum class reason { checkpoint, feed, both, restore, capacity, iops };

struct need {
    bool possible = false; ///< false if no number of targets up to `most` is enough
    reason because = reason::checkpoint;
    count targets = 0;
    count rails = 0;
    count node_rails = 0; ///< the fewest that carry the load
};

/// How much of what it can do a demand takes, at most: over 1 is too much. Says which part of the demand that
/// is.
struct strain {
    double most = 0;
    reason because = reason::checkpoint;
};
[[nodiscard]] strain strain_of(const cluster& of, const demand& load);

/// The fewest targets for a load; of those, with the fewest rails, if `rails` leaves that open.
[[nodiscard]] need need_of(cluster of, const demand& load, std::optional<count> rails);

/// Small reads of one epoch: samples of a data set in random order.
struct epoch {
    per_second samples;
    bytes_per_second rate;
    per_second member_iops; ///< commands of one member
    per_second iops;
    bytes size;
    seconds time;
    double busy = 0; ///< the part of what members or adapters can do
};
/// A sample of z bytes at any place is 1 + z/c commands for chunks of c on average.
[[nodiscard]] epoch epoch_of(const cluster& of, double samples, bytes sample, bytes chunk,
                             per_second samples_rate);

/// How long weights take to come to GPUs.
struct load_times {
    seconds one_volume;   ///< one node, one volume
    seconds many_volumes; ///< one node, parts of the weights on all volumes
    seconds all_nodes;    ///< each node loads all weights, from all volumes
};
/// Volumes have equal parts of the members.
[[nodiscard]] load_times load_of(const cluster& of, bytes weights, count volumes);

/// The chance that data are lost within a run. Disks fail independently at a constant rate, -ln(1 - AFR) a
/// year; one disk of m takes its volume with it, so a volume fails at the rate V = m times that. With c
/// copies data are lost when all fail before one is made again in the time R: c V (1 - exp(-V R))^(c-1), for
/// which Patterson, Gibson and Katz 1988
/// ("A case for redundant arrays of inexpensive disks") have 2 V^2 R for a pair.
[[nodiscard]] double loss_chance(double members, double annual_failures, seconds run, count copies,
                                 seconds rebuild);

struct prices {
    double target = 0; ///< without disks and adapters
    double disk = 0;
    double adapter = 0;
    double gpu_hour = 0;
};
/// Of targets with their disks and adapters, and the nodes' storage adapters.
[[nodiscard]] double price_of(const cluster& of, const prices& at);

} // namespace weft::plan
