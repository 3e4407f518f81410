// SPDX-License-Identifier: GPL-2.0-only
/// URIs of members on a fabric: rdma://ADDRESS[:PORT]/SUBNQN[?ns=NSID].
#pragma once

#include "result.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace weft
{

/// The address of an NVMe subsystem or a discovery service.
struct nvme_address {
    std::string transport = "rdma"; ///< "rdma" or "tcp", the TRTYPE of NVMe-oF
    std::string address;            ///< IPv4 or IPv6, without brackets: TRADDR
    std::uint16_t port = 4420;      ///< TRSVCID

    [[nodiscard]] bool is_ipv6() const { return address.find(':') != std::string::npos; }
    /// "rdma://10.0.0.1:4420", the port always there.
    [[nodiscard]] std::string text() const;
    bool operator==(const nvme_address&) const = default;
};

/// A namespace of a subsystem at an address.
struct member_uri {
    nvme_address at;
    std::string subnqn;
    std::uint32_t nsid = 1;

    [[nodiscard]] std::string text() const;
};

/// Whether a member is written as a URI and not as a device.
[[nodiscard]] bool is_uri(std::string_view text);

/// Parses "rdma://10.0.0.1/nqn.2014-08.org.nvmexpress:uuid:..." and its like.
[[nodiscard]] result<member_uri> parse_member_uri(std::string_view text);

/// Parses "tcp://[fd00::1]:8009", nothing behind the port.
[[nodiscard]] result<nvme_address> parse_service_uri(std::string_view text);

/// Parses addresses to listen on, each as "10.0.0.1", "10.0.0.1:4421", "fd00::1" or "[fd00::1]:4421"; `like`
/// has the transport, and the port of those that name none. Refuses one that is there twice.
[[nodiscard]] result<std::vector<nvme_address>> parse_addresses(const std::vector<std::string>& texts,
                                                                const nvme_address& like);

/// The usual text of an IPv6 address, "fd00::1" for "FD00:0::1": where addresses are compared, and where
/// users, targets and the kernel may write one in several ways. Another text stays as it is.
[[nodiscard]] std::string usual_address(std::string address);

/// An IPv4 or IPv6 address, or a sentence.
[[nodiscard]] result<void> check_address(const std::string& address);

/// "nqn." and more, at most 223 bytes (NVMe base specification, 4.7).
[[nodiscard]] result<void> check_nqn(std::string_view nqn);

} // namespace weft
