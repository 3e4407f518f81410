// SPDX-License-Identifier: GPL-2.0-only
#include "doctor.hpp"

#include "identity.hpp"
#include "rdma_port.hpp"
#include "sysfile.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string_view>

namespace weft
{

namespace fs = std::filesystem;

namespace
{

// Counters of losses and retransmissions, by their names in sysfs.
constexpr std::array<std::string_view, 20> error_counters{
    "symbol_error",
    "link_error_recovery",
    "link_downed",
    "port_rcv_errors",
    "port_xmit_discards",
    "local_link_integrity_errors",
    "excessive_buffer_overrun_errors",
    "out_of_sequence",
    "packet_seq_err",
    "local_ack_timeout_err",
    "implied_nak_seq_err",
    "rnr_nak_retry_err",
    "out_of_buffer",
    "rx_icrc_encapsulated",
    "roce_slow_restart",
    "completer_retry_err",
    "retry_exceeded_err",
    "retry_rnr_exceeded_err",
    "send_err",
    "link_downed_counter",
};

std::string describe_errors(const rdma_port& port)
{
    std::string text;
    for (const auto& [name, value] : port.counters)
        if (value && std::ranges::find(error_counters, name) != error_counters.end())
            text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name, value);
    return text;
}

// RDMA over Ethernet sends at most 4096 bytes per packet, plus headers.
constexpr unsigned long full_packet_mtu = 4200;

void diagnose_mtu(diagnoses& found, const std::string& name, const std::string& netdev)
{
    if (netdev.empty())
        return;
    const auto mtu =
        std::strtoul(read_text("/sys/class/net/" + netdev + "/mtu").value_or("0").c_str(), nullptr, 10);
    if (mtu && mtu < full_packet_mtu)
        found.push_back(
            {severity::note, "rdma", fmt::format("{}: {} has an MTU of {}", name, netdev, mtu),
             fmt::format("RDMA packets carry {} bytes instead of 4096: more packets for the same data",
                         mtu >= 2148   ? 2048
                         : mtu >= 1124 ? 1024
                                       : 512),
             fmt::format("ip link set {} mtu 9000, on all hosts and switches", netdev)});
}

void diagnose_port(diagnoses& found, const rdma_port& port)
{
    const auto name = fmt::format("{}/{}", port.device, port.port);
    const auto state = read_text(port.folder() / "state").value_or("?");
    const auto rate = read_text(port.folder() / "rate").value_or("?");
    if (!port.active) {
        found.push_back({severity::warning, "rdma", fmt::format("{} is not active ({})", name, state),
                         "no volume can be reached through it",
                         "check the cable; 'rdma link' and 'ip link' show details"});
        return;
    }
    found.push_back({severity::good, "rdma",
                     fmt::format("{} is active, {}, {}", name, rate,
                                 read_text(port.folder() / "link_layer").value_or("?")),
                     "", ""});
    diagnose_mtu(found, name, port.netdev);
    if (const auto errors = describe_errors(port); !errors.empty())
        found.push_back({severity::note, "rdma", fmt::format("{} counted errors: {}", name, errors),
                         "packets were lost or sent again; some at start are normal, a growing number is not",
                         "look again later; check cables, and flow control (PFC, ECN) on switches"});
}

// P2PDMA of weft's controllers. A kernel without P2PDMA is reported by the kernel checks.
void diagnose_peer_pages(diagnoses& found)
{
    std::error_code ignored;
    for (const auto& link : fs::directory_iterator("/sys/class/weft-rdma", ignored)) {
        const auto name = link.path().filename().string();
        if (read_text(link.path() / "p2pdma") != "0")
            continue;
        found.push_back(
            {severity::note, "rdma",
             fmt::format("{}: no block I/O on peer memory by {}", name,
                         read_text(link.path() / "rail").value_or("?")),
             "the kernel has no P2PDMA, or the RDMA device moves data by the processor (rxe, siw): block I/O "
             "on pages of PCI memory fails there",
             "I/O on host memory works; peer memory needs an RDMA adapter and a kernel with "
             "CONFIG_PCI_P2PDMA"});
    }
}

void diagnose_identifiers(diagnoses& found)
{
    for (const auto& link : connections())
        for (const auto& doubtful : doubtful_namespaces(link))
            found.push_back(
                {severity::note, "rdma",
                 fmt::format("the identifier of {} may be made up: {}", doubtful.disk, doubtful.identifier),
                 made_up_why, made_up_fix});
}

} // namespace

void diagnose_rdma(diagnoses& found)
{
    diagnose_peer_pages(found);
    diagnose_identifiers(found);
    const auto ports = rdma_ports();
    for (const auto& port : ports)
        diagnose_port(found, port);
    if (ports.empty())
        found.push_back(
            {severity::note, "rdma", "this host has no RDMA device", "only NVMe over TCP is possible",
             "software RDMA on a network interface: rdma link add rxe0 type rxe netdev INTERFACE"});
}

} // namespace weft
