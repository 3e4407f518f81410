// SPDX-License-Identifier: GPL-2.0-only
/// Serves the counters of this host's volumes: for Prometheus, and a page for people.
#include "history.hpp"
#include "http.hpp"
#include "options.hpp"
#include "page.hpp"

#include <metrics.hpp>
#include <notify.hpp>
#include <process.hpp>

#include <cstdio>
#include <fmt/format.h>

namespace
{

using namespace weft;

constexpr auto plain = "text/plain; charset=utf-8";

http_answer failed(const error& problem)
{
    return {500, plain, problem.text + '\n'};
}

http_answer answer(history& past, const std::string& path)
{
    for (const auto& file : page_files)
        if (path == file.path)
            return {200, std::string(file.type), std::string(file.text)};
    if (path != "/metrics" && path != "/data.json")
        return {404, plain, "unknown path: use /, /metrics or /data.json\n"};
    const auto samples = watch_samples({});
    if (!samples)
        return failed(samples.error());
    if (path == "/metrics")
        return {200, "text/plain; version=0.0.4; charset=utf-8",
                metrics_text(*samples, read_node(), WEFT_VERSION)};
    return {200, "application/json", dump(past.document(*samples, WEFT_VERSION), -1)};
}

result<void> serve(const exporter_options& options)
{
    end_waits_at_signals();
    history past;
    auto server =
        http_server::start(options.listen, [&past](const std::string& path) { return answer(past, path); });
    if (!server)
        return std::unexpected(server.error());
    notify_ready();
    past.collect();
    return {};
}

} // namespace

int main(int argc, char** argv)
{
    CLI::App app;
    exporter_options options;
    add_options(app, options);
    CLI11_PARSE(app, argc, argv);
    const auto done = serve(options);
    if (done)
        return 0;
    fmt::print(stderr, "weft-exporter: {}\n", done.error().text);
    return static_cast<int>(done.error().code);
}
