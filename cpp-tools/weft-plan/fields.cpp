// SPDX-License-Identifier: GPL-2.0-only
#include "fields.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace weft::plan
{

namespace
{

using namespace std::string_view_literals;

constexpr std::array precisions{"fp32"sv, "bf16"sv, "fp16"sv, "fp8"sv};
constexpr std::array optimizers{"adamw"sv,    "adam"sv, "adamw-8bit"sv, "lion"sv,
                                "momentum"sv, "sgd"sv,  "adafactor"sv,  "none"sv};
constexpr std::array shardings{"none"sv, "optimizer"sv, "gradients"sv, "full"sv};
constexpr std::array recomputes{"none"sv, "selective"sv, "full"sv};
constexpr std::array modes{"sync"sv, "async"sv};
constexpr std::array no_or_yes{"no"sv, "yes"sv};

constexpr double unset = std::numeric_limits<double>::quiet_NaN();

template <typename T>
double value_of(T of)
{
    if constexpr (requires { of.value(); })
        return of.value();
    else
        return static_cast<double>(of);
}
template <typename T>
double value_of(const std::optional<T>& of)
{
    return of ? value_of(*of) : unset;
}

template <typename T>
struct inner {
    using type = T;
};
template <typename T>
struct inner<std::optional<T>> {
    using type = T;
};

// Of a member of inputs or of what is in it.
#define WEFT_FIELD(path)                                                                                     \
    [](const inputs& of) { return value_of(of.path); }, [](inputs& of, double value) {                       \
        of.path = static_cast<typename inner<std::remove_cvref_t<decltype(of.path)>>::type>(value);          \
    }

constexpr double tera = 1e12;

constexpr auto model_group = "model"sv, parallel_group = "parallelism"sv, checkpoint_group = "checkpoints"sv,
               node_group = "GPU nodes"sv, storage_group = "storage"sv, data_group = "data set"sv,
               price_group = "prices"sv;

const std::array table{
    field{"parameters",
          model_group,
          kind::quantity,
          1,
          1e16,
          "parameters of the model, as 70e9 or 70B",
          WEFT_FIELD(trained.parameters),
          {}},
    field{"precision", model_group, kind::word, 0, 0,
          "precision of the weights: fp32, bf16, fp16 or fp8; default bf16", WEFT_FIELD(trained.weights),
          precisions},
    field{"optimizer", model_group, kind::word, 0, 0,
          "adamw, adam, adamw-8bit, lion, momentum, sgd, adafactor, or none for inference; default adamw",
          WEFT_FIELD(trained.trained_by), optimizers},
    field{"states", model_group, kind::word, 0, 0,
          "precision of the optimizer's moments; default that of the weights. Mixed precision has fp32",
          WEFT_FIELD(trained.states), precisions},
    field{"master-weights", model_group, kind::word, 0, 0,
          "yes: the checkpoint has a copy of the weights in fp32, as mixed precision keeps it; default no",
          WEFT_FIELD(trained.master), no_or_yes},
    field{"checkpoint-size",
          model_group,
          kind::size,
          1,
          1e18,
          "size of one checkpoint, instead of the size computed from the model",
          WEFT_FIELD(checkpoint_size),
          {}},
    field{"layers",
          model_group,
          kind::number,
          1,
          1e5,
          "layers of the transformer; for activations",
          WEFT_FIELD(trained.layers),
          {}},
    field{"hidden",
          model_group,
          kind::number,
          1,
          1e6,
          "width of the transformer; for activations",
          WEFT_FIELD(trained.hidden),
          {}},
    field{"heads",
          model_group,
          kind::number,
          1,
          1e5,
          "attention heads; for activations",
          WEFT_FIELD(trained.heads),
          {}},
    field{"sequence",
          model_group,
          kind::number,
          1,
          1e8,
          "tokens of one sample; for activations",
          WEFT_FIELD(trained.sequence),
          {}},
    field{"micro-batch",
          model_group,
          kind::number,
          1,
          1e5,
          "samples of one forward pass of a replica; default 1",
          WEFT_FIELD(trained.micro_batch),
          {}},
    field{"recompute", model_group, kind::word, 0, 0,
          "which activations are computed again: none, selective (attention) or full; default selective",
          WEFT_FIELD(trained.again), recomputes},

    field{"gpus", parallel_group, kind::number, 1, 1e7, "number of GPUs; default 64", WEFT_FIELD(gpus), {}},
    field{"gpus-per-node",
          parallel_group,
          kind::number,
          1,
          1024,
          "GPUs of a node; default 8",
          WEFT_FIELD(gpus_per_node),
          {}},
    field{"tensor",
          parallel_group,
          kind::number,
          1,
          1e4,
          "tensor parallelism; default 1",
          WEFT_FIELD(by.tensor),
          {}},
    field{"pipeline",
          parallel_group,
          kind::number,
          1,
          1e4,
          "pipeline parallelism; default 1",
          WEFT_FIELD(by.pipeline),
          {}},
    field{"data",
          parallel_group,
          kind::number,
          1,
          1e7,
          "data parallelism; default GPUs / (tensor x pipeline)",
          [](const inputs& of) { return of.by.data ? static_cast<double>(of.by.data) : unset; },
          [](inputs& of, double value) { of.by.data = static_cast<count>(value); },
          {}},
    field{"sharding", parallel_group, kind::word, 0, 0,
          "what is sharded over the replicas: none, optimizer (ZeRO 1), gradients (ZeRO 2), full (ZeRO 3, "
          "FSDP); default full",
          WEFT_FIELD(by.shared), shardings},

    field{"interval",
          checkpoint_group,
          kind::time,
          1,
          31557600,
          "time from the start of one checkpoint to the start of the next; default 1h",
          WEFT_FIELD(interval),
          {}},
    field{"checkpoints", checkpoint_group, kind::word, 0, 0,
          "sync: GPUs wait for the storage; async: they wait for the copy to the host's memory; default sync",
          WEFT_FIELD(asynchronous), modes},
    field{"within",
          checkpoint_group,
          kind::time,
          1e-3,
          31557600,
          "time limit for a complete checkpoint; default a 20th of the interval, and half of it "
          "with async",
          WEFT_FIELD(within),
          {}},
    field{"keep",
          checkpoint_group,
          kind::number,
          1,
          1e6,
          "checkpoints that are stored at a time; default 3",
          WEFT_FIELD(keep),
          {}},
    field{"restart",
          checkpoint_group,
          kind::time,
          0,
          31557600,
          "time from a failure until a checkpoint is read; default 5min",
          WEFT_FIELD(restart),
          {}},
    field{"restore-within",
          checkpoint_group,
          kind::time,
          1e-3,
          31557600,
          "time limit for reading a checkpoint",
          WEFT_FIELD(restore_within),
          {}},
    field{"gpu-mtbf",
          checkpoint_group,
          kind::time,
          60,
          1e12,
          "mean time between failures of a job, times its GPUs; default 50677h, as Llama 3 had",
          WEFT_FIELD(gpu_mtbf),
          {}},
    field{"failure-shape",
          checkpoint_group,
          kind::factor,
          0.2,
          10,
          "shape of the Weibull distribution of failures; default 1, which is exponential. Clusters have 0.7 "
          "to 0.8 "
          "(Schroeder and Gibson 2006)",
          WEFT_FIELD(shape),
          {}},
    field{"run",
          checkpoint_group,
          kind::time,
          1,
          1e9,
          "length of the training; default 30d",
          WEFT_FIELD(run),
          {}},
    field{"seed",
          checkpoint_group,
          kind::number,
          0,
          0x1p53,
          "seed of the simulation; default 1",
          WEFT_FIELD(seed),
          {}},

    field{"gpu-memory",
          node_group,
          kind::size,
          1e9,
          1e13,
          "memory of one GPU; default 80GB",
          WEFT_FIELD(gpu_memory),
          {}},
    field{"gpu-reserve",
          node_group,
          kind::size,
          0,
          1e12,
          "part of a GPU's memory for the runtime, libraries and fragments; default 4GB",
          WEFT_FIELD(gpu_reserve),
          {}},
    field{"gpu-link",
          node_group,
          kind::rate,
          1e8,
          2e12,
          "rate between a GPU and its host in one direction; default 64GB/s",
          WEFT_FIELD(gpu_link),
          {}},
    field{"feed",
          node_group,
          kind::rate,
          0,
          2e11,
          "rate at which each GPU reads; default 0",
          WEFT_FIELD(feed),
          {}},
    field{"node-rails",
          node_group,
          kind::number,
          1,
          64,
          "storage adapters of a node; default 2",
          WEFT_FIELD(node_rails),
          {}},
    field{"node-rail-rate",
          node_group,
          kind::bit_rate,
          1e7,
          2e11,
          "rate of each storage adapter of a node; default 400Gbit/s",
          WEFT_FIELD(node_rail_rate),
          {}},

    field{"targets",
          storage_group,
          kind::number,
          1,
          1e6,
          "storage nodes; default as many as are needed",
          WEFT_FIELD(targets),
          {}},
    field{"rails",
          storage_group,
          kind::number,
          1,
          64,
          "adapters of a target; default as many as are needed, up to 8",
          WEFT_FIELD(rails),
          {}},
    field{"rail-rate",
          storage_group,
          kind::bit_rate,
          1e7,
          2e11,
          "rate of each adapter of a target; default 400Gbit/s",
          WEFT_FIELD(rail_rate),
          {}},
    field{"nic-efficiency",
          storage_group,
          kind::percent,
          0.01,
          1,
          "part of an adapter's rate that is left for data; default 90%",
          WEFT_FIELD(nic_efficiency),
          {}},
    field{"ssds",
          storage_group,
          kind::number,
          1,
          1024,
          "SSDs of a target; each is a member; default 8",
          WEFT_FIELD(disks),
          {}},
    field{"ssd-read",
          storage_group,
          kind::rate,
          1e6,
          6e10,
          "sequential read rate of an SSD; default 7GB/s",
          WEFT_FIELD(each.read),
          {}},
    field{"ssd-write",
          storage_group,
          kind::rate,
          1e6,
          6e10,
          "sequential write rate of an SSD; default 7GB/s",
          WEFT_FIELD(each.write),
          {}},
    field{"ssd-iops",
          storage_group,
          kind::quantity,
          100,
          1e9,
          "random reads of an SSD per second; default 1.6M",
          WEFT_FIELD(each.iops),
          {}},
    field{"ssd-capacity",
          storage_group,
          kind::size,
          1e9,
          1e15,
          "capacity of an SSD; default 7.68TB",
          WEFT_FIELD(each.capacity),
          {}},
    field{"ssd-afr",
          storage_group,
          kind::percent,
          0,
          0.9,
          "part of the SSDs that fails in a year; default 0.44%, an MTTF of 2 million hours",
          WEFT_FIELD(each.annual_failures),
          {}},
    field{"copies",
          storage_group,
          kind::number,
          1,
          8,
          "volumes with the same data; default 1",
          WEFT_FIELD(copies),
          {}},
    field{"volumes",
          storage_group,
          kind::number,
          1,
          1e6,
          "volumes that share the members; default one for each node",
          [](const inputs& of) { return of.volumes ? static_cast<double>(of.volumes) : unset; },
          [](inputs& of, double value) { of.volumes = static_cast<count>(value); },
          {}},
    field{"rebuild",
          storage_group,
          kind::time,
          1,
          31557600,
          "time until a lost copy is made again; default 1d",
          WEFT_FIELD(rebuild),
          {}},
    field{"chunk",
          storage_group,
          kind::size,
          4096,
          0x1p24,
          "chunk size of the volumes; default 128KiB",
          WEFT_FIELD(chunk),
          {}},

    field{"samples",
          data_group,
          kind::quantity,
          1,
          1e15,
          "number of samples in the data set",
          WEFT_FIELD(samples),
          {}},
    field{"sample-size", data_group, kind::size, 1, tera, "size of one sample", WEFT_FIELD(sample_size), {}},
    field{"batch",
          data_group,
          kind::number,
          1,
          1e9,
          "samples of one step of the whole job",
          WEFT_FIELD(batch),
          {}},
    field{"step", data_group, kind::time, 1e-6, 1e6, "time of one step", WEFT_FIELD(step), {}},

    field{"price-target",
          price_group,
          kind::money,
          0,
          tera,
          "price of a target without SSDs and adapters",
          WEFT_FIELD(at.target),
          {}},
    field{"price-ssd", price_group, kind::money, 0, tera, "price of an SSD", WEFT_FIELD(at.disk), {}},
    field{"price-rail",
          price_group,
          kind::money,
          0,
          tera,
          "price of an adapter with its cable and switch port",
          WEFT_FIELD(at.adapter),
          {}},
    field{"price-gpu-hour",
          price_group,
          kind::money,
          0,
          1e6,
          "price of an hour of a GPU",
          WEFT_FIELD(at.gpu_hour),
          {}},
};

#undef WEFT_FIELD

std::string joined(std::span<const std::string_view> words)
{
    std::string all;
    for (const auto word : words)
        all.append(all.empty() ? "" : ", ").append(word);
    return all;
}

/// What to look at when a value is out of a field's range.
std::string_view hint(kind what)
{
    switch (what) {
    case kind::rate:
    case kind::bit_rate:
        return "; is the unit right? GB/s are bytes, Gbit/s are bits";
    case kind::size:
        return "; is the unit right?";
    default:
        return "";
    }
}

} // namespace

std::span<const field> fields()
{
    return table;
}

const field* find_field(std::string_view name)
{
    const auto at = std::ranges::find(table, name, &field::name);
    return at == table.end() ? nullptr : &*at;
}

result<void> set_field(inputs& of, const field& which, std::string_view text)
{
    if (which.what == kind::word) {
        const auto at = std::ranges::find(which.words, text);
        if (at == which.words.end())
            return fail(exit_code::usage, "--{} {}: write one of {}", which.name, text, joined(which.words));
        which.put(of, static_cast<double>(at - which.words.begin()));
        return {};
    }
    const auto value = parse_value(which.what, text);
    if (!value)
        return fail(exit_code::usage, "--{} {}: {}", which.name, text, value.error().text);
    if (*value < which.least) {
        if (which.least > 0 && *value <= 0)
            return fail(exit_code::usage, "--{} {}: it must be more than 0", which.name, text);
        return fail(exit_code::usage, "--{} {}: the minimum is {}{}", which.name, text,
                    show_value(which.what, which.least), hint(which.what));
    }
    if (*value > which.most)
        return fail(exit_code::usage, "--{} {}: the maximum is {}{}", which.name, text,
                    show_value(which.what, which.most), hint(which.what));
    which.put(of, *value);
    return {};
}

result<void> set_field(inputs& of, std::string_view name, std::string_view text)
{
    const auto* which = find_field(name);
    if (!which)
        return fail(exit_code::usage, "'{}' is not an input; 'weft-plan --help' lists them", name);
    return set_field(of, *which, text);
}

std::string show_field(const inputs& of, const field& which)
{
    const double value = which.get(of);
    if (std::isnan(value))
        return "-";
    if (which.what == kind::word)
        return std::string(which.words[static_cast<std::size_t>(value)]);
    return show_value(which.what, value);
}

} // namespace weft::plan
