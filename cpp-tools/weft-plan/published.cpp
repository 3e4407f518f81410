// SPDX-License-Identifier: GPL-2.0-only
#include "published.hpp"

#include "fields.hpp"

#include <cmath>

namespace weft::plan
{

namespace
{

model model_of(double parameters, optimizer by)
{
    model one;
    one.parameters = parameters;
    one.weights = precision::fp16;
    one.trained_by = by;
    return one;
}

double size_of(double parameters, optimizer by)
{
    return sizes_of(model_of(parameters, by)).total().value();
}

double mixed_size(double parameters)
{
    auto one = model_of(parameters, optimizer::adamw);
    one.states = precision::fp32;
    one.master = true;
    return sizes_of(one).total().value();
}

double a_day(double size, seconds interval)
{
    return size * (day / interval);
}

/// The time that GPUs do not wait for hourly checkpoints.
double availability(seconds checkpoint)
{
    return 1 - checkpoint / hour;
}

std::string mixed(double parameters)
{
    return fmt::format("the optimizer's states: they are in 16 bits here, 6 bytes a parameter. Mixed "
                       "precision keeps a master copy "
                       "and both moments in fp32 (14 bytes a parameter), and has {}",
                       show(bytes(mixed_size(parameters))));
}

} // namespace

bool published::follows() const
{
    return std::fabs(computed - stated) <= tolerance * std::fabs(stated);
}

std::vector<published> published_figures()
{
    constexpr auto adamw = optimizer::adamw;
    constexpr double big = 50e12;
    const auto fp16 = "weights and two moments of AdamW in fp16";
    std::vector<published> all{
        {"7B parameters: 42 GB with AdamW", fp16, "B", 42e9, size_of(7e9, adamw), 0.001, mixed(7e9)},
        {"7B, hourly: 1 TB a day", fp16, "B", 1e12, a_day(size_of(7e9, adamw), hour), 0.01, ""},
        {"70B parameters: 140 GB in FP16", "weights in fp16 alone", "B", 140e9,
         size_of(70e9, optimizer::none), 0.001, ""},
        {"70B: about 420 GB with AdamW states", fp16, "B", 420e9, size_of(70e9, adamw), 0.001, mixed(70e9)},
        {"70B, hourly: 10 TB a day", fp16, "B", 10e12, a_day(size_of(70e9, adamw), hour), 0.01, ""},
        {"1T parameters: 6 TB", fp16, "B", 6e12, size_of(1e12, adamw), 0.001, mixed(1e12)},
        {"1T, hourly: 144 TB a day", fp16, "B", 144e12, a_day(size_of(1e12, adamw), hour), 0.001, ""},
        {"1,024 GPUs, 50 TB: 5 minutes cut to 45 seconds", "300 s divided by 45 s", "times", 6.7, 300.0 / 45,
         0.01,
         fmt::format("the size: 50 TB are {} parameters at 6 bytes, or {} at 14. Of 1,024 GPUs each writes "
                     "{}, at {} for 45 "
                     "seconds; all write {}",
                     show_quantity(big / 6), show_quantity(big / 14), show(bytes(big / 1024)),
                     show(bytes(big / 1024) / seconds(45)), show(bytes(big) / seconds(45)))},
        {"availability with hourly checkpoints of 5 minutes: 91.7 %",
         "GPUs that wait, and one each hour from start to start", "part", 0.917, availability(seconds(300)),
         0.001, ""},
        {"availability with hourly checkpoints of 45 seconds: 98.75 %", "the same", "part", 0.9875,
         availability(seconds(45)), 0.001, ""},
    };
    const auto feed = bytes_per_second(4e9) * 8.0;
    all.push_back(
        {"feeds of 4 GB/s a GPU: 4 TB/s for 1,024 GPUs", "all GPUs that read at once", "B/s", 4e12,
         1024 * 4e9, 0.03,
         fmt::format(
             "the adapters: a node of 8 GPUs reads {} or {:.0f} Gbit/s, and one adapter of 400 Gbit/s "
             "carries that at 90 %; one of 200 Gbit/s does not",
             show(feed), feed / gigabit)});
    return all;
}

} // namespace weft::plan
