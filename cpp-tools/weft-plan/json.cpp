// SPDX-License-Identifier: GPL-2.0-only
#include "json.hpp"

#include "fields.hpp"
#include "published.hpp"
#include "words.hpp"

#include <cmath>
#include <nlohmann/json.hpp>

namespace weft::plan
{

namespace
{

using json = nlohmann::ordered_json;

json inputs_of(const outcome& of)
{
    json all;
    for (const auto& one : fields()) {
        const double value = one.get(of.from);
        if (one.what == kind::word && !std::isnan(value))
            all[std::string(one.name)] = show_field(of.from, one);
        else
            all[std::string(one.name)] = std::isnan(value) ? json() : json(value);
    }
    return all;
}

json limits_of(const limits& at)
{
    return {{"rate", at.rate().value()},
            {"limit", name_of(at.first())},
            {"node_network", at.node_network.value()},
            {"target_network", at.target_network.value()},
            {"ssds", at.disks.value()},
            {"gpu_links", at.gpu_links.value()}};
}

json way_json(const way& by)
{
    return {
        {"stall", by.when.stall.value()},
        {"drain", by.when.drain.value()},
        {"restart", by.when.restart.value()},
        {"lost", by.lost.total()},
        {"lost_by_waiting", by.lost.stall},
        {"lost_by_failures", by.lost.failures},
        {"gpu_hours_lost_a_day", by.gpu_hours_a_day},
        {"simulated", {{"lost", by.check.lost}, {"standard_error", by.check.error}}},
        {"best_interval",
         {{"interval", by.best.found.value()},
          {"lost", by.best.lost},
          {"young", by.best.by_young.value()},
          {"daly", by.best.by_daly.value()},
          {"assumption_broken", by.best.broken == breach::none ? json() : json(name_of(by.best.broken))}}}};
}

json memory_json(const outcome& of)
{
    const auto& use = of.memory;
    return {{"fits", use.fits()},
            {"total", use.total().value()},
            {"capacity", use.capacity.value()},
            {"weights", use.weights.value()},
            {"gradients", use.gradients.value()},
            {"optimizer", use.optimizer.value()},
            {"activations", use.activations ? json(use.activations->value()) : json()},
            {"reserve", use.reserve.value()},
            {"swapped", use.excess().value()},
            {"swap_time", of.swap_time.value()}};
}

json storage_json(const outcome& of)
{
    json all{{"needed",
              {{"possible", of.needed.possible},
               {"because", name_of(of.needed.because)},
               {"targets", of.needed.targets},
               {"rails", of.needed.rails},
               {"node_rails", of.needed.node_rails}}},
             {"targets", of.built.targets},
             {"rails", of.built.rails},
             {"members", of.built.members()},
             {"volumes", of.volumes},
             {"volume_members", of.volume_members},
             {"copies", of.from.copies},
             {"used", of.strained.most},
             {"used_by", name_of(of.strained.because)},
             {"write", limits_of(of.writing)},
             {"read", limits_of(of.reading)},
             {"loss_chance", {{"volume", of.volume_loss}, {"any_volume", of.any_loss}}}};
    all["price"] = of.price ? json(*of.price) : json();
    all["lost_gpu_time_price"] = of.lost_gpu_price ? json(*of.lost_gpu_price) : json();
    return all;
}

json epoch_json(const epoch& of)
{
    return {{"samples_per_second", of.samples.value()},
            {"bytes_per_second", of.rate.value()},
            {"iops", of.iops.value()},
            {"iops_of_a_member", of.member_iops.value()},
            {"bytes", of.size.value()},
            {"time", of.time.value()},
            {"used", of.busy}};
}

json sensitivity_json(const outcome& of)
{
    json all = json::array();
    for (const auto& one : sensitivity(of))
        all.push_back({{"input", one.of->name},
                       {"swing", one.swing},
                       {"lost_with_less", one.lost_less},
                       {"lost_with_more", one.lost_more},
                       {"targets_with_less", one.targets_less},
                       {"targets_with_more", one.targets_more}});
    return all;
}

json plan_json(const std::string& name, const outcome& of, bool with_sensitivity)
{
    json all{{"name", name},
             {"inputs", inputs_of(of)},
             {"sentences", sentences_of(of)},
             {"checkpoint",
              {{"size", of.checkpoint.value()},
               {"weights", of.sizes.weights.value()},
               {"master_weights", of.sizes.master.value()},
               {"optimizer", of.sizes.moments.value()},
               {"bytes_a_day", of.bytes_a_day.value()},
               {"write_time", of.write_time.value()},
               {"snapshot_time", of.snapshot.value()},
               {"within", of.within.value()}}},
             {"mtbf", of.job_mtbf.value()},
             {"synchronous", way_json(of.synchronous)},
             {"asynchronous", way_json(of.asynchronous)},
             {"storage", storage_json(of)},
             {"feed",
              {{"wanted", of.feed.value()},
               {"there", of.feed_there.value()},
               {"beside_checkpoint", of.feed_at_full_rate.value()},
               {"beside_slow_checkpoint", of.feed_when_paced.value()}}},
             {"restore", {{"bytes", of.restore_bytes.value()}, {"time", of.restore_time.value()}}},
             {"weights_load",
              {{"one_volume", of.loads.one_volume.value()},
               {"all_volumes", of.loads.many_volumes.value()},
               {"all_nodes", of.loads.all_nodes.value()}}},
             {"memory", memory_json(of)},
             {"epoch", of.data ? epoch_json(*of.data) : json()}};
    all["problems"] = json::array();
    for (const auto what : of.problems)
        all["problems"].push_back({{"name", name_of(what)}, {"text", sentence_of(what, of)}});
    if (with_sensitivity)
        all["sensitivity"] = sensitivity_json(of);
    return all;
}

} // namespace

std::string json_of(const std::vector<std::pair<std::string, outcome>>& plans, bool with_sensitivity)
{
    json all{{"schema", 1}, {"plans", json::array()}};
    for (const auto& [name, of] : plans)
        all["plans"].push_back(plan_json(name, of, with_sensitivity));
    return all.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

std::string published_json()
{
    json all{{"schema", 1}, {"published", json::array()}};
    for (const auto& one : published_figures())
        all["published"].push_back({{"claim", one.claim},
                                    {"assumes", one.assumes},
                                    {"unit", one.unit},
                                    {"stated", one.stated},
                                    {"computed", one.computed},
                                    {"follows", one.follows()},
                                    {"differs", one.differs}});
    return all.dump(2) + "\n";
}

} // namespace weft::plan
