// SPDX-License-Identifier: GPL-2.0-only
#include "qos_words.hpp"
#include "verbs.hpp"

namespace weft
{

namespace
{

struct qos_options {
    std::string volume;
    bool off = false;
    bool dry_run = false;
    qos_words words;
};

result<exit_code> run_qos(const qos_options& options, renderer& out)
{
    auto request = parse_qos(options.words, options.volume);
    if (!request)
        return std::unexpected(request.error());
    request->off = options.off;
    auto kernel = netlink::open();
    if (!kernel)
        return std::unexpected(kernel.error());
    std::uint32_t members = 0;
    const bool changes = options.off || options.words.any();
    if (changes && options.dry_run) {
        if (const auto volume = kernel->volume(options.volume); !volume)
            return std::unexpected(volume.error());
        out.actions(
            {{"qos", options.volume,
              fmt::format("{} of volume {}", options.off ? "ended QoS" : "changed QoS", options.volume),
              true}});
        return exit_code::ok;
    }
    if (changes) {
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
        "--feed-latency", options->words.feed_latency,
        "time that small feed commands may take on a member, as 500us or 2ms; off: no target");
    command->add_option("--background-floor", options->words.floor,
                        "percent of a member's best rate that background I/O always gets; default 5");
    command->add_option("--background-latency", options->words.background_latency,
                        "time that background commands may take on average, for members that several hosts "
                        "use, as 10ms; off: no target");
    command
        ->add_option("--background-weight", options->words.weight,
                     "weight of this host's background I/O against that of other hosts, 1 to 100; default 10")
        ->check(CLI::Range(1, 100));
    for (std::size_t i = 0; i < io_classes.size(); i++) {
        const std::string name = io_classes[i];
        command->add_option("--" + name + "-max", options->words.max_rate[i],
                            "limit of " + name + " I/O on the volume, as 2G/s; off: none");
        command->add_option("--" + name + "-max-iops", options->words.max_ios[i],
                            "limit of " + name + " commands per second on the volume; off: none");
        command->add_option("--" + name + "-cgroup", options->words.cgroup[i],
                            "cgroup (v2) whose tasks' I/O is " + name + ", as /training; '': none");
    }
    command->add_option("--background-from", options->words.background_from,
                        "I/O of at least this size is background; off: none");
    for (auto [name, option] :
         {std::pair{"--reads", &options->words.reads}, {"--writes", &options->words.writes}})
        command
            ->add_option(name, *option, "class of these commands if nothing else sets it: feed or background")
            ->check(CLI::IsMember({"feed", "background"}));
    command->add_flag("--off", options->off, "remove all settings; all I/O is treated alike");
    command->add_flag("--dry-run", options->dry_run, "say what would be done, and change nothing");
    command->footer(R"(Without options, shows the settings and what was measured on each member.

Reads are feed and writes and discards are background, unless an option or the I/O itself says otherwise: the I/O
priority class RT (ionice -c 1) is feed, IDLE (ionice -c 3) is background; then come the cgroups, the size, and
--reads and --writes. For commands on registered memory by weft_rdma, the command's own flag takes the place of ionice.
A journal's I/O, swapping, and I/O that frees memory have no class and are never held.

While feed commands come, background commands to each member pass at a rate that follows the latency of feed commands
on that member: at most one of 200 takes longer than --feed-latency. For a large command, weft adds the shortest time
that a command of its size takes. RATE is that rate. Without feed commands on a member for 60 ms nothing is held for it. A submitter
does not wait in the kernel while its I/O is held. weftctl top shows what happens.

Background reads and writes are cut to 256 KiB, so that a feed command behind one is served soon. A limit in IOPS counts
these pieces. A discard or write zeroes keeps its length, up to 4 GiB: 1 TiB would be 4,194,304 commands of 256 KiB. It is
one command for each member, which counts as at most 256 KiB for the rate and for --background-max.

A host does not see the feed commands of other hosts on the same members. Give all these hosts the same
--background-latency. Each host then limits its background bytes in flight, so that background commands take that time on
average. The hosts' bandwidths are in the ratio of their --background-weight. The target must be above the time on an idle
member.

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
