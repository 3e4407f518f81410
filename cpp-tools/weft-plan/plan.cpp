// SPDX-License-Identifier: GPL-2.0-only
#include "plan.hpp"

#include <algorithm>
#include <cmath>

namespace weft::plan
{

namespace
{

/// As kmod/weft allows.
constexpr count most_members = 256;

count nodes_of(const inputs& of)
{
    return std::max<count>(1, of.gpus / of.gpus_per_node);
}

parallelism parallelism_of(const inputs& of)
{
    auto by = of.by;
    if (!by.data)
        by.data = of.gpus / (by.tensor * by.pipeline);
    return by;
}

result<void> check_model(const inputs& of)
{
    const auto& model = of.trained;
    if (model.parameters <= 0 && !of.checkpoint_size)
        return fail(exit_code::usage,
                    "the model is unknown: give --parameters, --model or --checkpoint-size");
    if (model.trained_by == optimizer::none && model.master)
        return fail(exit_code::usage,
                    "--master-weights is for training, and --optimizer none says inference");
    if (model.hidden && model.heads && model.hidden % model.heads)
        return fail(exit_code::usage, "--hidden {} must be a multiple of --heads {}", model.hidden,
                    model.heads);
    return {};
}

result<void> check_parallelism(const inputs& of)
{
    const auto by = parallelism_of(of);
    if (by.gpus() != of.gpus) {
        if (of.by.data)
            return fail(exit_code::usage,
                        "--tensor {} x --pipeline {} x --data {} are {} GPUs, but --gpus is {}", by.tensor,
                        by.pipeline, by.data, by.gpus(), of.gpus);
        return fail(exit_code::usage, "--gpus {} must be a multiple of --tensor {} x --pipeline {}", of.gpus,
                    by.tensor, by.pipeline);
    }
    if (of.gpus > of.gpus_per_node && of.gpus % of.gpus_per_node)
        return fail(exit_code::usage, "--gpus {} must be a multiple of --gpus-per-node {}", of.gpus,
                    of.gpus_per_node);
    if (of.trained.layers && by.pipeline > of.trained.layers)
        return fail(exit_code::usage, "--pipeline {} is more than the model's {} layers", by.pipeline,
                    of.trained.layers);
    if (of.trained.heads && by.tensor > of.trained.heads)
        return fail(exit_code::usage, "--tensor {} is more than the model's {} heads", by.tensor,
                    of.trained.heads);
    return {};
}

result<void> check_rest(const inputs& of)
{
    if (of.within && *of.within > of.interval)
        return fail(exit_code::usage,
                    "--within is longer than --interval: the next checkpoint would begin before the end");
    if (of.targets && *of.targets < of.copies)
        return fail(exit_code::usage, "--copies {} need as many targets, and --targets is {}", of.copies,
                    *of.targets);
    const bool any = of.samples > 0 || of.batch || of.sample_size.value() > 0 || of.step.value() > 0;
    const bool all = of.samples > 0 && of.batch && of.sample_size.value() > 0 && of.step.value() > 0;
    if (any && !all)
        return fail(exit_code::usage, "an epoch needs --samples, --sample-size, --batch and --step together");
    if (all && static_cast<double>(of.batch) > of.samples)
        return fail(exit_code::usage, "--batch {} is more than --samples {:.0f}", of.batch, of.samples);
    return {};
}

cluster cluster_of(const inputs& of, const parallelism& by)
{
    cluster made;
    made.gpus = of.gpus;
    made.nodes = nodes_of(of);
    // Without sharding every replica has the same state, and one of them writes it.
    made.writing_gpus = by.shared == sharding::none ? by.tensor * by.pipeline : of.gpus;
    made.writing_nodes = (made.writing_gpus + of.gpus_per_node - 1) / of.gpus_per_node;
    made.gpu_link = of.gpu_link;
    made.node_rails = of.node_rails;
    made.node_adapter = {of.node_rail_rate, of.nic_efficiency};
    made.target_adapter = {of.rail_rate, of.nic_efficiency};
    made.disks = of.disks;
    made.each = of.each;
    made.copies = of.copies;
    return made;
}

demand demand_of(const inputs& of, const outcome& so_far)
{
    demand wanted;
    wanted.checkpoint = so_far.checkpoint;
    wanted.within = so_far.within;
    wanted.feed = so_far.feed;
    wanted.feed_goes_on = of.asynchronous;
    wanted.restore = so_far.restore_bytes;
    wanted.restore_within = of.restore_within;
    wanted.capacity = so_far.checkpoint * static_cast<double>(of.keep) + of.sample_size * of.samples;
    if (of.batch)
        wanted.samples_iops =
            per_second(static_cast<double>(of.batch) / of.step.value() * (1 + of.sample_size / of.chunk));
    return wanted;
}

way way_of(const inputs& of, const outcome& so_far, seconds stall, seconds drain, bool best)
{
    way by;
    by.when = {of.interval, stall, drain, of.restart + so_far.restore_time, so_far.job_mtbf, of.shape};
    if (best || of.shape != 1)
        by.check = simulate(by.when, of.seed);
    by.lost = losses_of(by.when);
    if (of.shape != 1 && by.lost.total() < 1)
        by.lost = {std::min(by.check.lost, by.lost.stall), std::max(0.0, by.check.lost - by.lost.stall)};
    if (best) {
        by.best = best_interval_of(by.when, of.seed);
        const double waiting = std::min(by.best.lost, stall / by.best.found);
        by.lost_at_best = {waiting, by.best.lost - waiting};
    }
    by.gpu_hours_a_day = by.lost.total() * 24 * static_cast<double>(of.gpus);
    return by;
}

void add_losses(const inputs& of, outcome& to)
{
    const double of_a_copy = static_cast<double>(to.built.members()) / static_cast<double>(of.copies);
    // Volumes that share an SSD are lost together.
    const double each = std::max(1.0, of_a_copy / static_cast<double>(to.volumes));
    to.volume_members = static_cast<count>(each);
    to.volume_loss = loss_chance(each, of.each.annual_failures, of.run, of.copies, of.rebuild);
    to.any_loss = -std::expm1(std::max(1.0, of_a_copy / each) * std::log1p(-to.volume_loss));
}

void add_prices(const inputs& of, outcome& to)
{
    if (of.at.target > 0 || of.at.disk > 0 || of.at.adapter > 0)
        to.price = price_of(to.built, of.at);
    if (of.at.gpu_hour > 0)
        to.lost_gpu_price = to.chosen().gpu_hours_a_day * (of.run / day) * of.at.gpu_hour;
}

void add_problems(const inputs& of, outcome& to)
{
    const auto add = [&](bool is, problem what) {
        if (is)
            to.problems.push_back(what);
    };
    add(!to.memory.fits(), problem::does_not_fit);
    add(!of.targets && !to.needed.possible, problem::no_targets_suffice);
    add(to.strained.most > 1 + 1e-9 && (of.targets || to.needed.possible), problem::strained);
    add(to.chosen().when.interval < to.chosen().when.shortest(), problem::interval_too_short);
    add(to.chosen().lost.total() > 0.5, problem::mostly_lost);
    add(to.volume_members > most_members, problem::volume_too_wide);
    add(to.built.members() < to.volumes * of.copies, problem::few_members);
}

} // namespace

seconds default_within(const inputs& of)
{
    return of.asynchronous ? of.interval / 2 : of.interval / 20;
}

bytes restore_bytes_of(const inputs& of, const parallelism& by)
{
    const auto replicas = static_cast<double>(by.data);
    const auto read = [&](bytes what, sharding from) { return what * (by.shared >= from ? 1 : replicas); };
    if (of.checkpoint_size)
        return read(*of.checkpoint_size, sharding::full);
    const auto sizes = sizes_of(of.trained);
    return read(sizes.weights, sharding::full) + read(sizes.master + sizes.moments, sharding::optimizer);
}

result<void> check(const inputs& of)
{
    for (const auto one : {check_model, check_parallelism, check_rest})
        if (auto done = one(of); !done)
            return done;
    return {};
}

result<outcome> evaluate(const inputs& of, const cluster* size_by, bool best)
{
    if (auto done = check(of); !done)
        return std::unexpected(done.error());
    outcome plan;
    plan.from = of;
    plan.by = parallelism_of(of);
    plan.nodes = nodes_of(of);
    plan.volumes = of.volumes ? of.volumes : plan.nodes;
    plan.sizes = sizes_of(of.trained);
    plan.checkpoint = of.checkpoint_size.value_or(plan.sizes.total());
    plan.bytes_a_day = plan.checkpoint * (day / of.interval);
    plan.within = of.within.value_or(default_within(of));
    plan.feed = of.feed * static_cast<double>(of.gpus);
    plan.restore_bytes = restore_bytes_of(of, plan.by);
    plan.memory = memory_of(of.trained, plan.by, of.gpu_memory, of.gpu_reserve);

    plan.built = cluster_of(of, plan.by);
    plan.wanted = demand_of(of, plan);
    plan.needed = need_of(plan.built, plan.wanted, of.rails);
    const count wanted_targets = plan.needed.possible ? plan.needed.targets : std::max<count>(1, of.copies);
    plan.built.targets = of.targets.value_or(size_by ? size_by->targets : wanted_targets);
    plan.built.rails = of.rails.value_or(size_by                ? size_by->rails
                                         : plan.needed.possible ? plan.needed.rails
                                                                : 2);
    plan.strained = strain_of(plan.built, plan.wanted);
    plan.writing = write_limits(plan.built);
    plan.reading = read_limits(plan.built);
    plan.write_time = plan.checkpoint / plan.writing.rate();
    plan.snapshot = plan.checkpoint / plan.writing.gpu_links;
    if (!plan.memory.fits()) {
        const auto swapped = plan.memory.excess() * static_cast<double>(of.gpus);
        plan.swap_time = swapped / plan.writing.rate() + swapped / plan.reading.rate();
    }

    plan.job_mtbf = job_mtbf(of.gpu_mtbf, of.gpus);
    plan.restore_time = plan.restore_bytes / plan.reading.rate();
    plan.synchronous = way_of(of, plan, plan.write_time, seconds(), best);
    plan.asynchronous = way_of(of, plan, plan.snapshot, plan.write_time, best);

    plan.feed_there = plan.reading.rate();
    plan.feed_at_full_rate = feed_beside(plan.built, plan.writing.rate());
    plan.feed_when_paced = feed_beside(plan.built, plan.checkpoint / of.interval);
    plan.loads = load_of(plan.built, plan.sizes.weights, plan.volumes);
    if (of.batch)
        plan.data = epoch_of(plan.built, of.samples, of.sample_size, of.chunk,
                             per_second(static_cast<double>(of.batch) / of.step.value()));
    add_losses(of, plan);
    add_prices(of, plan);
    add_problems(of, plan);
    return plan;
}

double lost_at(const outcome& of, const way& by, seconds interval)
{
    auto at = by.when;
    at.interval = interval;
    return of.from.shape == 1 ? lost_fraction(at) : simulate(at, of.from.seed).lost;
}

} // namespace weft::plan
