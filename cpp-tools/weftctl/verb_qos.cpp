// SPDX-License-Identifier: GPL-2.0-only
#include "netlink.hpp"
#include "size.hpp"
#include "verbs.hpp"

#include <algorithm>
#include <charconv>

namespace weft
{

namespace
{

/// As the user wrote them; empty for what was not given.
struct qos_options {
    std::string volume;
    bool off = false;
    std::string feed_latency, floor, background_latency, background_from, reads, writes;
    std::optional<std::uint32_t> weight;
    std::array<std::string, io_classes.size()> max_rate, max_ios;
    std::array<std::optional<std::string>, io_classes.size()> cgroup;

    [[nodiscard]] bool changes() const
    {
        const auto given = [](const auto& texts) {
            return std::ranges::any_of(texts, [](const std::string& text) { return !text.empty(); });
        };
        return off ||
               given(std::array{feed_latency, floor, background_latency, background_from, reads, writes}) ||
               given(max_rate) || given(max_ios) || weight || cgroup[0] || cgroup[1];
    }
};

result<std::uint32_t> parse_number(std::string_view text, const char* what)
{
    std::uint32_t number = 0;
    const auto* begin = text.data();
    const auto* end = begin + text.size();
    const auto [rest, errc] = std::from_chars(begin, end, number);
    if (errc != std::errc{} || rest != end)
        return fail(exit_code::usage, "'{}' is not {}", text, what);
    return number;
}

result<std::uint32_t> parse_percent(std::string_view text)
{
    if (text.ends_with("%"))
        text.remove_suffix(1);
    auto percent = parse_number(text, "a percentage; write it as 5%");
    if (percent && *percent > 100)
        return fail(exit_code::usage, "{} % is more than all", *percent);
    return percent;
}

result<std::uint32_t> parse_bytes(std::string_view text)
{
    const auto bytes = parse_size(text);
    if (!bytes)
        return std::unexpected(bytes.error());
    if (*bytes > UINT32_MAX)
        return fail(exit_code::usage, "the size '{}' is too large", text);
    return static_cast<std::uint32_t>(*bytes);
}

/// Parses what was given; "off" is 0.
template <typename T, typename Parse>
result<void> take(const std::string& text, std::optional<T>& value, Parse parse)
{
    if (text.empty())
        return {};
    if (text == "off") {
        value = 0;
        return {};
    }
    const auto parsed = parse(text);
    if (!parsed)
        return std::unexpected(parsed.error());
    value = *parsed;
    return {};
}

std::optional<std::uint32_t> class_of(const std::string& name)
{
    for (std::uint32_t i = 0; i < io_classes.size(); i++)
        if (name == io_classes[i])
            return i;
    return {};
}

result<qos_request> parse(const qos_options& options)
{
    qos_request request;
    request.volume = options.volume;
    request.off = options.off;
    request.reads = class_of(options.reads);
    request.writes = class_of(options.writes);
    request.cgroup = options.cgroup;
    request.background_weight = options.weight;
    auto done = take(options.feed_latency, request.feed_latency, parse_microseconds);
    if (done)
        done = take(options.floor, request.floor, parse_percent);
    if (done)
        done = take(options.background_latency, request.background_latency, parse_microseconds);
    if (done)
        done = take(options.background_from, request.background_from, parse_bytes);
    for (std::size_t i = 0; i < io_classes.size() && done; i++) {
        done = take(options.max_rate[i], request.max_bytes[i], parse_rate);
        if (done)
            done = take(options.max_ios[i], request.max_ios[i],
                        [](const auto& text) { return parse_number(text, "a number of I/Os per second"); });
    }
    if (!done)
        return std::unexpected(done.error());
    return request;
}

result<exit_code> run_qos(const qos_options& options, renderer& out)
{
    const auto request = parse(options);
    if (!request)
        return std::unexpected(request.error());
    auto kernel = netlink::open();
    if (!kernel)
        return std::unexpected(kernel.error());
    std::uint32_t members = 0;
    if (options.changes()) {
        if (auto done = kernel->set_qos(*request); !done)
            return std::unexpected(done.error());
    } else {
        const auto volume = kernel->volume(options.volume);
        if (!volume)
            return std::unexpected(volume.error());
        members = volume->member_count;
    }
    const auto status = kernel->qos(options.volume, members);
    if (!status)
        return std::unexpected(status.error());
    out.qos(*status);
    return exit_code::ok;
}

} // namespace

verb add_qos(CLI::App& app)
{
    auto options = std::make_shared<qos_options>();
    auto* command = app.add_subcommand("qos", "leave room for feed I/O while background I/O drains");
    command->add_option("VOLUME", options->volume, "name of an assembled volume")->required();
    command->add_option(
        "--feed-latency", options->feed_latency,
        "time that small feed commands may take on a member, as 500us or 2ms; off: no target");
    command->add_option("--background-floor", options->floor,
                        "percent of a member's best rate that background I/O always gets; 5 at first");
    command->add_option("--background-latency", options->background_latency,
                        "time that background commands may take on average, for members that several hosts "
                        "use, as 10ms; off: no target");
    command
        ->add_option("--background-weight", options->weight,
                     "what background I/O of this host gets there against other hosts, 1 to 100; 10 at first")
        ->check(CLI::Range(1, 100));
    for (std::size_t i = 0; i < io_classes.size(); i++) {
        const std::string name = io_classes[i];
        command->add_option("--" + name + "-max", options->max_rate[i],
                            "limit of " + name + " I/O on the volume, as 2G/s; off: none");
        command->add_option("--" + name + "-max-iops", options->max_ios[i],
                            "limit of " + name + " commands per second on the volume; off: none");
        command->add_option("--" + name + "-cgroup", options->cgroup[i],
                            "cgroup (v2) whose tasks' I/O is " + name + ", as /training; '': none");
    }
    command->add_option("--background-from", options->background_from,
                        "I/O of at least this size is background; off: none");
    for (auto [name, option] : {std::pair{"--reads", &options->reads}, {"--writes", &options->writes}})
        command->add_option(name, *option, "class of those that nothing else gives one: feed or background")
            ->check(CLI::IsMember({"feed", "background"}));
    command->add_flag("--off", options->off, "forget all settings; classes are not told apart");
    command->footer(R"(Without options, shows the settings and what was measured on each member.

Reads are feed and writes and discards are background, unless an option or the I/O itself says otherwise: the I/O
priority class RT (ionice -c 1) is feed, IDLE (ionice -c 3) is background; then come the cgroups, the size, and
--reads and --writes. A journal's I/O, swapping, and I/O that frees memory have no class and are never held.

While feed commands come, background commands to each member pass at a rate that follows the latency of feed commands
on that member: at most one of 200 takes longer than --feed-latency. For large commands the least time that one of
its size takes is added. RATE is that rate. Without feed commands on a member for 100 ms nothing is held for it. Background
commands are cut to 256 KiB. A submitter does not wait in the kernel while its I/O is held. weftctl top shows what happens.

A host does not see the feed commands of other hosts on the same members. If all these hosts have the same
--background-latency, each keeps its background I/O in flight to a window, so that background commands take that long on
average, and their bandwidths relate as their --background-weight. The target must be above the time on an idle member.

Over NVMe/RDMA, background I/O can have connections of its own with their own type of service (--background-tos of create,
assemble, connect and path add), so that it shares no send queue with feed I/O, and no priority in the switches.

Examples:
  weftctl qos data --feed-latency 500us
  weftctl qos data --background-latency 10ms --background-weight 20
  weftctl qos data --background-max 2G/s --background-cgroup /backup
  weftctl qos data
  weftctl qos data --off)");
    return {command, [options](renderer& out) { return run_qos(*options, out); }};
}

} // namespace weft
