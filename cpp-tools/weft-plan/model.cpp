// SPDX-License-Identifier: GPL-2.0-only
#include "model.hpp"

#include <algorithm>

namespace weft::plan
{

double bytes_each(precision of)
{
    switch (of) {
    case precision::fp32:
        return 4;
    case precision::bf16:
    case precision::fp16:
        return 2;
    case precision::fp8:
        return 1;
    }
    return 0;
}

int moments_of(optimizer of)
{
    switch (of) {
    case optimizer::adamw:
    case optimizer::adam:
    case optimizer::adamw_8bit:
        return 2;
    case optimizer::lion:
    case optimizer::momentum:
        return 1;
    case optimizer::sgd:
    case optimizer::adafactor:
    case optimizer::none:
        return 0;
    }
    return 0;
}

double moment_bytes(const model& of)
{
    if (of.trained_by == optimizer::adamw_8bit)
        return 1;
    return bytes_each(of.states.value_or(of.weights));
}

state_sizes sizes_of(const model& of)
{
    const bool trained = of.trained_by != optimizer::none;
    return {bytes(of.parameters * bytes_each(of.weights)),
            bytes(of.master && trained ? of.parameters * 4 : 0),
            bytes(of.parameters * moments_of(of.trained_by) * moment_bytes(of))};
}

bytes memory_use::total() const
{
    return weights + gradients + optimizer + activations.value_or(bytes()) + reserve;
}

bytes memory_use::excess() const
{
    return std::max(bytes(), total() - capacity);
}

std::optional<bytes> activations_of(const model& of, const parallelism& by)
{
    if (!of.layers || !of.hidden || !of.sequence || (!of.heads && of.again == recompute::none))
        return {};
    const auto tokens = static_cast<double>(of.sequence) * static_cast<double>(of.micro_batch);
    const auto width = static_cast<double>(of.hidden);
    const auto whole = static_cast<double>(of.layers) * tokens * width;
    if (of.again == recompute::full)
        return bytes(whole * 2);
    double each = 34;
    if (of.again == recompute::none)
        each += 5 * static_cast<double>(of.heads) * static_cast<double>(of.sequence) / width;
    return bytes(whole * each / static_cast<double>(by.tensor));
}

memory_use memory_of(const model& of, const parallelism& by, bytes capacity, bytes reserve)
{
    const auto sizes = sizes_of(of);
    const bool trained = of.trained_by != optimizer::none;
    const auto parts = static_cast<double>(by.tensor * by.pipeline);
    const auto shared = [&](bytes what, sharding from) {
        return what / (parts * (by.shared >= from ? static_cast<double>(by.data) : 1));
    };
    memory_use use;
    use.weights = shared(sizes.weights, sharding::full);
    use.gradients = trained ? shared(sizes.weights, sharding::gradients) : bytes();
    use.optimizer = shared(sizes.master + sizes.moments, sharding::optimizer);
    use.activations = trained ? activations_of(of, by) : bytes();
    use.reserve = reserve;
    use.capacity = capacity;
    return use;
}

} // namespace weft::plan
