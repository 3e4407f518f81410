// SPDX-License-Identifier: GPL-2.0-only
#include "metrics.hpp"
#include "sysfile.hpp"
#include "verbs.hpp"

namespace weft
{

namespace
{

struct metrics_options {
    std::vector<std::string> volumes; ///< all if it is empty
    std::string output;
};

result<exit_code> run_metrics(const metrics_options& options, renderer& out)
{
    const auto samples = watch_samples(options.volumes);
    if (!samples)
        return std::unexpected(samples.error());
    const auto text = metrics_text(*samples, read_node(), WEFT_VERSION);
    if (options.output.empty()) {
        out.metrics(text);
        return exit_code::ok;
    }
    // Another user reads it, such as the node exporter.
    if (auto done = replace_file(options.output, text, 0644); !done)
        return std::unexpected(done.error());
    return exit_code::ok;
}

} // namespace

verb add_metrics(CLI::App& app)
{
    auto options = std::make_shared<metrics_options>();
    auto* command =
        app.add_subcommand("metrics", "print the counters of volumes and RDMA ports for Prometheus");
    command->add_option("VOLUME", options->volumes, "names of assembled volumes; default: all");
    command->add_option("--output", options->output,
                        "file to replace, in one step; it is readable by all users");
    command->footer(
        R"(The text has Prometheus's format: seconds and bytes, and counters that end in _total. Each metric has a line
that begins with # HELP and says what it is.

  weft_volume_*      state, ownership and size of a volume; since when a saved volume is awaited
  weft_memory_*      bytes of I/O on registered memory by route; the route bounce copies through host memory
  weft_member_*      commands, bytes, latencies and errors of a member by operation, and how many paths it has.
                     They are zero with --no-iostats
  weft_path_*        whether a path is usable, and how often its association ended
  weft_class_*       commands, bytes and a histogram of latencies by class, while QoS is on (weftctl-qos(8))
  weft_background_*  what QoS allows background commands
  weft_gpu_*         how busy the GPUs are, where NVIDIA's libnvidia-ml.so.1 is
  weft_qos_*         whether a volume has QoS, and its target
  weft_rdma_port_*   state, rate and bytes of each RDMA port of this host; the kernel's counters (packets, errors,
                     retransmissions); pause frames of its network interface, by the driver's names
  weft_build_info    the version of weftctl

weft-metrics.timer writes them each 15 seconds where the node exporter of Debian looks for such files
(/var/lib/prometheus/node-exporter/weft.prom). Rules for alerts are in /usr/share/weft/prometheus.

Examples:
  weftctl metrics
  weftctl metrics data --output /tmp/weft.prom
  systemctl enable --now weft-metrics.timer)");
    return {command, [options](renderer& out) { return run_metrics(*options, out); }};
}

} // namespace weft
