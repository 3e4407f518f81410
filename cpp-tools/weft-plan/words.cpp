// SPDX-License-Identifier: GPL-2.0-only
#include "words.hpp"

#include "units_text.hpp"

#include <algorithm>
#include <cmath>

namespace weft::plan
{

namespace
{

using namespace std::string_literals;

std::string plural(count number, std::string_view thing)
{
    return fmt::format("{} {}{}", number, thing, number == 1 ? "" : "s");
}

/// A chance, where 3 digits hide how rare it is.
std::string chance(double of)
{
    if (of > 0 && of < 1e-6)
        return fmt::format("{:.0e}", of);
    return show_part(of);
}

std::string built_of(const outcome& of)
{
    return fmt::format("{} with {} and {} each", plural(of.built.targets, "target"),
                       plural(of.built.rails, "rail"), plural(of.built.disks, "SSD"));
}

std::string waits_for(const outcome& of)
{
    const auto& most = of.chosen().when;
    return of.from.asynchronous
               ? fmt::format("GPUs wait {} for the copy to the host's memory", show(most.stall))
               : fmt::format("GPUs wait {} for the storage", show(most.stall));
}

class writer
{
public:
    explicit writer(std::vector<row>& to) : rows_(to) {}
    void section(std::string name) { section_ = std::move(name); }
    void add(std::string label, std::string value, std::string why = "")
    {
        rows_.push_back({section_, std::move(label), std::move(value), std::move(why)});
    }

private:
    std::vector<row>& rows_;
    std::string section_;
};

void add_checkpoint(const outcome& of, writer& to)
{
    to.section("Checkpoint");
    if (of.from.checkpoint_size) {
        to.add("size", show(of.checkpoint), "as given");
    } else {
        std::string why = fmt::format("{} parameters: weights {}", show_quantity(of.from.trained.parameters),
                                      show(of.sizes.weights));
        if (of.sizes.master > bytes())
            why += ", fp32 copy " + show(of.sizes.master);
        if (of.sizes.moments > bytes())
            why += ", optimizer " + show(of.sizes.moments);
        to.add("size", show(of.checkpoint), why);
        auto mixed = of.from.trained;
        mixed.states = precision::fp32;
        mixed.master = true;
        if (!of.from.trained.master && moments_of(mixed.trained_by) && bytes_each(mixed.weights) < 4)
            to.add("with mixed precision", show(sizes_of(mixed).total()),
                   "moments and a copy of the weights in fp32: --states fp32 --master-weights yes");
    }
    to.add("written a day", show(of.bytes_a_day),
           fmt::format("each {}{}", show(of.from.interval),
                       of.from.copies > 1 ? fmt::format("; stored {} times", of.from.copies) : ""s));
    to.add("time to write", show(of.write_time),
           fmt::format("at {}; {}", show(of.writing.rate()), limit_sentence(of.writing)));
    to.add("time to copy to the hosts", show(of.snapshot),
           fmt::format("at {} a GPU", show(of.built.gpu_link)));
}

void add_way(const outcome& of, const way& by, const std::string& name, writer& to)
{
    to.section(name);
    to.add("lost GPU time", show_part(by.lost.total()),
           fmt::format("{} wait, {} restarts and work done again; {} GPU-hours a day",
                       show_part(by.lost.stall), show_part(by.lost.failures),
                       show_value(kind::factor, by.gpu_hours_a_day)));
    to.add("by simulation", show_part(by.check.lost),
           fmt::format("standard error {}, {} failures, seed {}", show_part(by.check.error),
                       simulated_failures, of.from.seed));
    to.add("best interval", show(by.best.found),
           fmt::format("loses {}; Young {}, Daly {}{}", show_part(by.lost_at_best.total()),
                       show(by.best.by_young), show(by.best.by_daly),
                       by.best.broken == breach::none ? ""s : "; " + name_of(by.best.broken)));
}

void add_storage(const outcome& of, writer& to)
{
    to.section("Storage");
    if (of.needed.possible)
        to.add(
            "needed",
            fmt::format("{}, {} each", plural(of.needed.targets, "target"), plural(of.needed.rails, "rail")),
            fmt::format("{}; nodes need {} each", name_of(of.needed.because),
                        plural(of.needed.node_rails, "rail")));
    else
        to.add("needed", "no number is enough",
               of.needed.node_rails
                   ? fmt::format("the nodes need {} each", plural(of.needed.node_rails, "rail"))
                   : "the GPUs' links or the nodes' adapters carry less than is wanted: " +
                         name_of(of.needed.because));
    to.add("planned with",
           fmt::format("{}, {}", plural(of.built.targets, "target"), plural(of.built.members(), "member")),
           fmt::format("{} and {} each; used to {} by: {}", plural(of.built.rails, "rail"),
                       plural(of.built.disks, "SSD"), show_part(of.strained.most),
                       name_of(of.strained.because)));
    to.add("volumes", fmt::format("{} of {}", of.volumes, plural(of.volume_members, "member")),
           of.from.copies > 1 ? fmt::format("{} copies, each on targets of its own", of.from.copies) : ""s);
    to.add("chance to lose a volume", chance(of.volume_loss),
           fmt::format("in {}; of any of them {}. {} of the SSDs fail a year", show(of.from.run),
                       chance(of.any_loss), show_part(of.from.each.annual_failures)));
    if (of.price)
        to.add("price", fmt::format("{:.0f}", *of.price), "targets, SSDs, and rails at both ends");
    if (of.lost_gpu_price)
        to.add("lost GPU time costs", fmt::format("{:.0f}", *of.lost_gpu_price), "in the whole run");
}

void add_feed(const outcome& of, writer& to)
{
    to.section("Feed");
    to.add("wanted", show(of.feed), fmt::format("{} by {}", show(of.from.feed), plural(of.from.gpus, "GPU")));
    to.add("there", show(of.feed_there), limit_sentence(of.reading));
    to.add("beside a checkpoint", show(of.feed_at_full_rate),
           "written as fast as possible; 'weftctl qos' can hold it back");
    to.add("beside a slow one", show(of.feed_when_paced), "that takes the whole interval");
}

void add_reads(const outcome& of, writer& to)
{
    to.section("Restore and loads");
    to.add("time to restore", show(of.restore_time), show(of.restore_bytes) + " are read");
    if (of.from.trained.parameters > 0) {
        to.add("weights, one volume", show(of.loads.one_volume), show(of.sizes.weights) + " to one node");
        to.add("weights, all volumes", show(of.loads.many_volumes),
               "parts on " + plural(of.volumes, "volume"));
        to.add("weights to all nodes", show(of.loads.all_nodes),
               fmt::format("{} at once", plural(of.built.nodes, "node")));
    }
    if (!of.data)
        return;
    to.section("Epoch");
    to.add("samples", show_quantity(of.data->samples.value()) + "/s", show(of.data->size) + " in all");
    to.add("time", show(of.data->time), show(of.data->rate) + " are read");
    to.add("reads of a member", show_quantity(of.data->member_iops.value()) + "/s",
           fmt::format("{}/s of all; used to {}", show_quantity(of.data->iops.value()),
                       show_part(of.data->busy)));
}

void add_memory(const outcome& of, writer& to)
{
    if (of.from.trained.parameters <= 0)
        return;
    const auto& use = of.memory;
    to.section("GPU memory");
    to.add("used", show(use.total()),
           fmt::format("of {}: {}", show(use.capacity),
                       use.fits() ? "it fits" : show(use.excess()) + " of each GPU has to be swapped"));
    to.add("weights", show(use.weights),
           fmt::format("tensor {} x pipeline {} x data {}", of.by.tensor, of.by.pipeline, of.by.data));
    to.add("gradients", show(use.gradients));
    to.add("optimizer", show(use.optimizer));
    to.add("activations", use.activations ? show(*use.activations) : "not counted",
           use.activations ? "of the first stage" : "give --layers, --hidden, --heads and --sequence");
    to.add("reserve", show(use.reserve));
    if (!use.fits())
        to.add("swapping of a step", show(of.swap_time), "out and in once, over the storage");
}

} // namespace

std::string name_of(part what)
{
    switch (what) {
    case part::node_network:
        return "the nodes' network";
    case part::target_network:
        return "the targets' network";
    case part::disks:
        return "the SSDs";
    case part::gpu_links:
        return "the GPUs' links";
    }
    return {};
}

std::string name_of(reason what)
{
    switch (what) {
    case reason::checkpoint:
        return "a checkpoint in time";
    case reason::feed:
        return "the feed";
    case reason::both:
        return "the feed beside a checkpoint";
    case reason::restore:
        return "the restore in time";
    case reason::capacity:
        return "the capacity";
    case reason::iops:
        return "small reads";
    }
    return {};
}

std::string name_of(breach what)
{
    switch (what) {
    case breach::none:
        return "none";
    case breach::long_checkpoint:
        return "a checkpoint takes more than a tenth of the time between failures, which both papers exclude";
    case breach::drain:
        return "a checkpoint counts only when it is drained, which both papers do not know";
    case breach::weibull:
        return "failures are not exponential, as both papers assume: found by simulation";
    }
    return {};
}

std::string limit_sentence(const limits& at)
{
    std::string others;
    const std::pair<part, bytes_per_second> all[] = {{part::node_network, at.node_network},
                                                     {part::target_network, at.target_network},
                                                     {part::disks, at.disks},
                                                     {part::gpu_links, at.gpu_links}};
    for (const auto& [what, rate] : all)
        if (what != at.first())
            others += fmt::format("{}{} {}", others.empty() ? "" : ", ", name_of(what), show(rate));
    const auto name = name_of(at.first());
    return fmt::format("{} {} the limit: {} would carry more", name,
                       name == "the nodes' network" || name == "the targets' network" ? "is" : "are", others);
}

std::string name_of(problem what)
{
    switch (what) {
    case problem::does_not_fit:
        return "does-not-fit";
    case problem::no_targets_suffice:
        return "no-targets-suffice";
    case problem::strained:
        return "strained";
    case problem::interval_too_short:
        return "interval-too-short";
    case problem::mostly_lost:
        return "mostly-lost";
    case problem::volume_too_wide:
        return "volume-too-wide";
    case problem::few_members:
        return "few-members";
    }
    return {};
}

std::string sentence_of(problem what, const outcome& of)
{
    switch (what) {
    case problem::does_not_fit:
        return fmt::format(
            "The training does not fit the GPUs: {} of {} are wanted. Use more GPUs, more tensor or pipeline "
            "parallelism, --sharding full or --recompute full.",
            show(of.memory.total()), show(of.memory.capacity));
    case problem::no_targets_suffice:
        return fmt::format(
            "No number of targets is enough for {}: the nodes are the limit. Give the nodes more rails, or "
            "more time (--within).",
            name_of(of.needed.because));
    case problem::strained:
        return fmt::format("The storage is too small for {}: {} of what it can do are wanted.",
                           name_of(of.strained.because), show_part(of.strained.most));
    case problem::interval_too_short:
        return fmt::format(
            "A checkpoint takes {}, longer than the interval of {}: no checkpoint is complete in time.",
            show(of.chosen().when.shortest()), show(of.from.interval));
    case problem::mostly_lost:
        return fmt::format("The GPUs lose {} of their time.", show_part(of.chosen().lost.total()));
    case problem::volume_too_wide:
        return fmt::format("A volume has {} members, and weft allows 256: use more --volumes.",
                           of.volume_members);
    case problem::few_members:
        return fmt::format(
            "{} of whole SSDs need as many members, and there are {}: use fewer --volumes, or partitions.",
            plural(of.volumes * of.from.copies, "volume"), of.built.members());
    }
    return {};
}

std::vector<std::string> sentences_of(const outcome& of)
{
    const auto& by = of.chosen();
    std::string third = fmt::format("In {} the chance to lose a volume is {}, and a restore takes {}.",
                                    show(of.from.run), chance(of.any_loss), show(of.restore_time));
    if (of.feed > bytes_per_second())
        third = fmt::format("The GPUs want a feed of {}; {} are there, {} beside a checkpoint. {}",
                            show(of.feed), show(of.feed_there), show(of.feed_when_paced), third);
    return {
        fmt::format(
            "A checkpoint is {} and takes {} on {}: {}, and {} of the GPU time is lost with one each {}.",
            show(of.checkpoint), show(of.write_time), built_of(of), waits_for(of), show_part(by.lost.total()),
            show(of.from.interval)),
        fmt::format("The best interval is {}, which loses {}; with {} checkpoints it is {}, which loses {}.",
                    show(by.best.found), show_part(by.best.lost),
                    of.from.asynchronous ? "synchronous" : "asynchronous",
                    show((of.from.asynchronous ? of.synchronous : of.asynchronous).best.found),
                    show_part((of.from.asynchronous ? of.synchronous : of.asynchronous).best.lost)),
        third};
}

std::vector<row> rows_of(const outcome& of)
{
    std::vector<row> rows;
    writer to(rows);
    add_checkpoint(of, to);
    add_way(of, of.synchronous, "Synchronous checkpoints", to);
    add_way(of, of.asynchronous, "Asynchronous checkpoints", to);
    add_storage(of, to);
    add_feed(of, to);
    add_reads(of, to);
    add_memory(of, to);
    return rows;
}

} // namespace weft::plan
