// SPDX-License-Identifier: GPL-2.0-only
/// The options of a connection, by the names that they have on the command line and in the file of a volume.
/// On the command line a name has '-' for '_'.
#pragma once

#include "fabrics.hpp"

#include <array>

namespace weft
{

struct connect_text_key {
    const char* key;
    std::string connect_options::*value;
    const char* help;
};

inline constexpr std::array connect_text_keys{
    connect_text_key{"host_nqn", &connect_options::host_nqn,
                     "this host's NVMe name, instead of /etc/nvme/hostnqn"},
    connect_text_key{"host_id", &connect_options::host_id, "its UUID, instead of /etc/nvme/hostid"},
    connect_text_key{"host_address", &connect_options::host_address, "address of this host to connect from"},
    connect_text_key{"host_interface", &connect_options::host_interface,
                     "network interface of this host to connect from (tcp)"},
    connect_text_key{"dhchap_secret_file", &connect_options::dhchap_secret_file,
                     "file with this host's secret for DH-HMAC-CHAP, or keyring:DESCRIPTION, instead of "
                     "/etc/weft/dhchap-secret"},
    connect_text_key{"dhchap_ctrl_secret_file", &connect_options::dhchap_ctrl_secret_file,
                     "file with the target's own secret, by which it authenticates, or keyring:DESCRIPTION, "
                     "instead of /etc/weft/dhchap-ctrl-secret"},
    connect_text_key{
        "tls_key_file", &connect_options::tls_key_file,
        "file with the TLS 1.3 key of this host and the target, or keyring:DESCRIPTION; for tcp"},
    connect_text_key{"transport", &connect_options::initiator,
                     "initiator: weft (weft's own, the default for rdma) or nvme (the stock host)"},
};

/// In seconds.
inline constexpr int ctrl_loss_timeout_most = 86400;

struct connect_number_key {
    const char* key;
    std::optional<int> connect_options::*value;
    int least, most;
    const char* help;
};

inline constexpr std::array connect_number_keys{
    connect_number_key{
        "queues", &connect_options::queues, 1, 65535,
        "I/O queues of each controller; otherwise 64 divided by the number of members, at least 2, and at "
        "most one per processor ('weftctl connect': one per processor)"},
    connect_number_key{"poll_queues", &connect_options::poll_queues, 1, 65535,
                       "additional queues without interrupts, for io_uring's IOPOLL (weft's own initiator)"},
    connect_number_key{"queue_depth", &connect_options::queue_depth, 16, 1024,
                       "entries of each queue (weft's own initiator: 128 by default, at most 256)"},
    connect_number_key{"keep_alive", &connect_options::keep_alive, 1, 86400,
                       "keep-alive timeout in seconds (weft's own initiator: 5 by default, at most 3600)"},
    connect_number_key{
        "reconnect_delay", &connect_options::reconnect_delay, 1, 86400,
        "seconds between attempts to reconnect (weft's own initiator: 2 by default, at most 3600; the first "
        "comes after 0.25 s, then the time doubles up to 8 times this one)"},
    connect_number_key{"ctrl_loss_timeout", &connect_options::ctrl_loss_timeout, -1, ctrl_loss_timeout_most,
                       "seconds after which a lost controller is removed, -1 for never (weft's own "
                       "initiator: 600 by default)"},
    connect_number_key{
        "fast_io_fail_timeout", &connect_options::fast_io_fail_timeout, 0, 86400,
        "seconds after which I/O to a lost controller fails; never by default. With weft's "
        "own initiator only for a disk without a volume: for a volume, no_path_timeout counts"},
    connect_number_key{
        "tos", &connect_options::tos, 0, 255,
        "type of service of the connections, 0 to 255: 4 x DSCP; InfiniBand maps it to a service level"},
    connect_number_key{"background_tos", &connect_options::background_tos, 0, 255,
                       "type of service of separate connections for background I/O, see weftctl-qos(8) "
                       "(weft's own initiator); default: no separate connections"},
};

/// The values of "transport".
inline constexpr std::array connect_transports{"weft", "nvme"};

} // namespace weft
