// SPDX-License-Identifier: GPL-2.0-only
#include "verbs.hpp"

namespace weft
{

namespace
{

constexpr auto description = "weftctl: striped block volumes over NVMe over Fabrics and other block devices";

constexpr auto footer = R"(A volume stripes its data over its members: losing one member loses the volume.

Exit status:
  0  done
  1  an I/O or system error
  2  invalid or unsupported request
  3  in use, owned by another host, or already present
  4  a volume, member, module or superblock is missing
  5  superblocks are damaged or do not belong together
  6  a device holds something; --force overwrites it
  7  not allowed, or read-only
  8  doctor: something should be fixed
  9  doctor: something does not work

With --json a command prints one JSON document, also when it fails: "schema" is 1, "errors" has the code (the exit
status) and the sentence of each failure, and the other members are the command's. events prints a document a line.
weftctl.schema.json in /usr/share/weft describes them.

Examples:
  weftctl create data /dev/nvme1n1 /dev/nvme2n1 /dev/nvme3n1 /dev/nvme4n1
  weftctl create data rdma://10.0.0.1/nqn.2014-08.org.example:a rdma://10.0.0.2/nqn.2014-08.org.example:b
  mkfs.xfs /dev/weft/data
  weftctl status data
  weftctl stop data
  weftctl assemble data)";

} // namespace

std::vector<verb> add_verbs(CLI::App& app, bool& json)
{
    app.description(description);
    app.name("weftctl");
    app.footer(footer);
    app.require_subcommand(1);
    app.fallthrough();
    app.set_version_flag("--version", std::string("weftctl ") + WEFT_VERSION);
    app.add_flag("--json", json, "print JSON for programs");
    return {add_create(app),      add_assemble(app), add_stop(app),     add_list(app),
            add_status(app),      add_events(app),   add_check(app),    add_examine(app),
            add_rename(app),      add_wipe(app),     add_export(app),   add_change_export(app),
            add_unexport(app),    add_exports(app),  add_host_nqn(app), add_gen_dhchap_key(app),
            add_gen_tls_key(app), add_discover(app), add_connect(app),  add_disconnect(app),
            add_path(app),        add_qos(app),      add_save(app),     add_config(app),
            add_top(app),         add_explain(app),  add_metrics(app),  add_cdi(app),
            add_doctor(app),      add_topology(app), add_report(app),   add_probe(app)};
}

} // namespace weft
