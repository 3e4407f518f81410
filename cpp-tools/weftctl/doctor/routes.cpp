// SPDX-License-Identifier: GPL-2.0-only
#include "doctor.hpp"

#include "netlink.hpp"
#include "peer_memory.hpp"
#include "topology.hpp"

#include <algorithm>
#include <set>

namespace weft
{

namespace
{

constexpr auto* check = "routes";

std::string describe(const pci_endpoint& endpoint)
{
    return fmt::format("{} {}{}", endpoint.kind, endpoint.address,
                       endpoint.name.empty() || endpoint.kind == "BAR" ? "" : " (" + endpoint.name + ")");
}

// The fix for each reason that prevents a route.
std::string fix_of(const peer_pair& pair)
{
    if (!pair.possible)
        return "modprobe weft_p2p, and run this as root";
    if (pair.why.find("ACS") != std::string::npos)
        return "boot with pci=disable_acs_redir=BRIDGE, or switch ACS redirection off in the firmware; the "
               "devices below that bridge then reach each other without the IOMMU";
    if (!pair.bridges)
        return "put both below one PCIe switch; a kernel with CONFIG_PCI_P2PDMA knows the root complexes "
               "that also connect them";
    return "";
}

void diagnose_pair(diagnoses& found, const peer_pair& pair)
{
    const auto pairing = fmt::format("memory of {} and {}", describe(pair.memory), describe(pair.device));
    if (pair.possible.value_or(false)) {
        found.push_back({severity::good, check,
                         fmt::format("{}: peer-to-peer is possible, {}", pairing,
                                     pair.bridges ? fmt::format("{} bridges between them", *pair.bridges)
                                                  : std::string("through the root complex")),
                         "", ""});
        return;
    }
    found.push_back(
        {severity::note, check,
         fmt::format("{}: {}: {}", pairing, pair.possible ? "no peer-to-peer path" : "not known", pair.why),
         "I/O between the two has no direct route", fix_of(pair)});
}

// Which RDMA devices there are, software first.
std::vector<std::string> rdma_devices(const topology& all)
{
    auto names = all.software;
    for (const auto& endpoint : all.endpoints)
        if (endpoint.kind == "RDMA")
            names.push_back(endpoint.name);
    return names;
}

void tell_refusals(diagnoses& found, const peer_memories& sources)
{
    for (const auto& refusal : sources.refusals)
        found.push_back({severity::note, check, refusal, "doctor cannot test a route to this memory", ""});
}

void prove_pairs(diagnoses& found, const topology& all, const peer_memories& sources)
{
    for (const auto& memory : sources.memories)
        for (const auto& device : rdma_devices(all)) {
            const auto done = try_register(device, *memory);
            if (done)
                found.push_back({severity::good, check,
                                 fmt::format("proved: {} registers {}", device, memory->name()), "", ""});
            else
                found.push_back({severity::note, check,
                                 fmt::format("not proved: {}: {}", memory->name(), done.error().text),
                                 "programs that use verbs have no direct route between the two", ""});
        }
    tell_refusals(found, sources);
}

// The RDMA device of a rail, which is "mlx5_0/1".
std::string device_of(const std::string& rail)
{
    return rail.substr(0, rail.find('/'));
}

/// True where memory without pages can go to this path.
bool diagnose_path(diagnoses& found, const std::string& name, const member_status& member,
                   const path_status& path)
{
    const auto whose = fmt::format("volume {}: member {} ({})", name, member.index, path.address);
    if (path.transport != "rdma") {
        found.push_back({severity::note, check, fmt::format("{} is a block device", whose),
                         "a block device takes no dma-buf: the data bounces, where that is allowed",
                         "connect the member by rdma://ADDRESS/SUBNQN"});
        return false;
    }
    const auto device = device_of(path.rail);
    const auto address = pci_address_of("/sys/class/infiniband/" + device + "/device");
    if (address.empty()) {
        found.push_back({severity::note, check,
                         fmt::format("{} is reached by {}, which is software", whose, device),
                         "the processor moves its data: a dma-buf takes the route vmap or bounce, where "
                         "that is allowed",
                         "use an RDMA adapter"});
        return false;
    }
    found.push_back(
        {severity::good, check, fmt::format("{} is reached by {} ({})", whose, device, address), "", ""});
    return true;
}

void prove_volume(diagnoses& found, const std::string& name, const peer_memories& sources)
{
    for (const auto& memory : sources.memories) {
        const auto done = try_volume(name, *memory);
        if (done)
            found.push_back({severity::good, check,
                             fmt::format("proved: volume {} registers {}, direct", name, memory->name()), "",
                             ""});
        else
            found.push_back({severity::warning, check,
                             fmt::format("volume {}: {}: {}", name, memory->name(), done.error().text),
                             "there is no direct route between the two", "weftctl topology"});
    }
    tell_refusals(found, sources);
}

} // namespace

void diagnose_routes(diagnoses& found)
{
    const auto all = read_topology();
    for (const auto& pair : all.pairs)
        if (pair.device.kind == "RDMA")
            diagnose_pair(found, pair);
    if (std::none_of(all.endpoints.begin(), all.endpoints.end(),
                     [](const auto& endpoint) { return endpoint.has_memory; }))
        found.push_back(
            {severity::good, check, "no device on this host offers memory to other devices", "", ""});
    prove_pairs(found, all, find_peer_memories());
}

result<void> diagnose_volume_routes(diagnoses& found, const std::string& name)
{
    auto connection = netlink::open();
    if (!connection)
        return std::unexpected(connection.error());
    const auto volume = connection->volume(name);
    if (!volume)
        return std::unexpected(volume.error());
    bool all = true;
    for (const auto& member : volume->members)
        for (const auto& path : member.paths)
            all = diagnose_path(found, name, member, path) && all;
    if (!all)
        return {};
    const auto sources = find_peer_memories();
    prove_volume(found, name, sources);
    if (sources.memories.empty())
        found.push_back({severity::good, check,
                         fmt::format("volume {}: this host has no device memory to test", name), "", ""});
    return {};
}

} // namespace weft
