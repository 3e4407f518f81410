// SPDX-License-Identifier: GPL-2.0-only
#include "options.hpp"

namespace weft
{

void add_options(CLI::App& app, exporter_options& options)
{
    app.name("weft-exporter");
    app.description(exporter_description);
    app.set_version_flag("--version", std::string("weft-exporter ") + WEFT_VERSION);
    app.add_option("--listen", options.listen,
                   "HOST:PORT, or [ADDRESS]:PORT for IPv6; default 127.0.0.1:9919. Any host that can connect "
                   "can read the metrics, without authentication")
        ->type_name("ADDRESS");
    app.footer(R"(It answers GET and HEAD requests for three paths:

  /           a page: volumes, members, rails and routes as a picture, the latencies of the last hour as a heat map,
              and events
  /metrics    what weftctl-metrics(8) prints, for Prometheus
  /data.json  what the page shows: the documents of 'weftctl status --json' and 'weftctl qos --json', what each volume
              did in each 10 s of the last hour, and up to 500 events

It needs no privileges, and does not load weft.ko. It ends at a signal.

weft-exporter.service runs it as a user of its own. Put options into /etc/default/weft-exporter:

  ARGS="--listen 10.0.0.7:9919"

If the node exporter runs already, use weft-metrics.timer: it needs no other port (weftctl-metrics(8)).

Examples:
  systemctl enable --now weft-exporter
  weft-exporter --listen '[::1]:9919'
  curl http://127.0.0.1:9919/metrics)");
}

} // namespace weft
