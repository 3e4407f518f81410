// SPDX-License-Identifier: GPL-2.0-only
#include "uri.hpp"

#include "uapi/weft_format.h"

#include <algorithm>
#include <arpa/inet.h>
#include <array>
#include <charconv>

namespace weft
{

std::string nvme_address::text() const
{
    return is_ipv6() ? fmt::format("{}://[{}]:{}", transport, address, port)
                     : fmt::format("{}://{}:{}", transport, address, port);
}

std::string member_uri::text() const
{
    return fmt::format("{}/{}{}", at.text(), subnqn, nsid == 1 ? "" : fmt::format("?ns={}", nsid));
}

bool is_uri(std::string_view text)
{
    return text.find("://") != std::string_view::npos;
}

std::string usual_address(std::string address)
{
    in6_addr parsed{};
    std::array<char, INET6_ADDRSTRLEN> text{};
    if (inet_pton(AF_INET6, address.c_str(), &parsed) == 1 &&
        inet_ntop(AF_INET6, &parsed, text.data(), text.size()))
        return text.data();
    return address;
}

result<void> check_address(const std::string& address)
{
    in6_addr parsed{};
    if (inet_pton(AF_INET, address.c_str(), &parsed) == 1 ||
        inet_pton(AF_INET6, address.c_str(), &parsed) == 1)
        return {};
    return fail(exit_code::usage, "'{}' is not an IPv4 or IPv6 address; NVMe-oF takes no host names",
                address);
}

result<void> check_nqn(std::string_view nqn)
{
    if (nqn.substr(0, 4) != "nqn.")
        return fail(exit_code::usage, "'{}' is not an NQN: it starts with 'nqn.'", nqn);
    if (nqn.size() >= WEFT_NQN_SIZE)
        return fail(exit_code::usage, "the NQN '{}...' has {} characters; the maximum is {}",
                    nqn.substr(0, 32), nqn.size(), WEFT_NQN_SIZE - 1);
    // Characters that end an option of the kernel's connect string, or a name in configfs.
    if (std::any_of(nqn.begin(), nqn.end(),
                    [](unsigned char c) { return c <= ' ' || c >= 127 || c == ',' || c == '/'; }))
        return fail(exit_code::usage,
                    "the NQN '{}' holds a blank, a comma, a slash, or something that is not ASCII", nqn);
    return {};
}

namespace
{

template <typename Number>
bool parse_number(std::string_view text, Number& number)
{
    const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
    return problem == std::errc() && end == text.data() + text.size() && number;
}

// Parses and removes "rdma://ADDRESS[:PORT]" at the start of `text`; without a port, it has that of `at`.
result<nvme_address> take_service(std::string_view& text, nvme_address at = {})
{
    const auto whole = text;
    const auto scheme = text.find("://");
    if (scheme == std::string_view::npos)
        return fail(exit_code::usage, "'{}' is not a URI; write rdma://ADDRESS or tcp://ADDRESS", whole);
    at.transport = text.substr(0, scheme);
    if (at.transport != "rdma" && at.transport != "tcp")
        return fail(exit_code::usage, "'{}': no transport is called '{}'; use rdma or tcp", whole,
                    at.transport);
    text.remove_prefix(scheme + 3);

    auto end = text.find('/');
    auto authority = text.substr(0, end);
    text.remove_prefix(authority.size());
    if (!authority.empty() && authority.front() == '[') {
        const auto close = authority.find(']');
        if (close == std::string_view::npos)
            return fail(exit_code::usage, "'{}': the '[' of the address is not closed", whole);
        at.address = authority.substr(1, close - 1);
        authority.remove_prefix(close + 1);
    } else {
        end = authority.find(':');
        at.address = authority.substr(0, end);
        authority.remove_prefix(at.address.size());
        if (authority.find(':', 1) != std::string_view::npos)
            return fail(exit_code::usage, "'{}': write an IPv6 address in brackets, as [fd00::1]", whole);
    }
    if (!authority.empty() && (authority.front() != ':' || !parse_number(authority.substr(1), at.port)))
        return fail(exit_code::usage, "'{}': '{}' is not a port; a port is 1 to 65535", whole,
                    authority.substr(authority.front() == ':'));
    if (auto good = check_address(at.address); !good)
        return fail(exit_code::usage, "'{}': {}", whole, good.error().text);
    at.address = usual_address(std::move(at.address));
    return at;
}

} // namespace

result<member_uri> parse_member_uri(std::string_view text)
{
    const auto whole = text;
    auto at = take_service(text);
    if (!at)
        return std::unexpected(at.error());
    member_uri uri;
    uri.at = std::move(*at);
    if (text.size() < 2)
        return fail(exit_code::usage, "'{}' names no subsystem: write /SUBNQN after ADDRESS", whole);
    text.remove_prefix(1);
    const auto query = text.find('?');
    uri.subnqn = text.substr(0, query);
    if (query != std::string_view::npos) {
        const auto option = text.substr(query + 1);
        if (option.substr(0, 3) != "ns=" || !parse_number(option.substr(3), uri.nsid))
            return fail(exit_code::usage, "'{}': '{}' is not known; use ns=NUMBER (1 or more)", whole,
                        option);
    }
    if (auto good = check_nqn(uri.subnqn); !good)
        return fail(exit_code::usage, "'{}': {}", whole, good.error().text);
    return uri;
}

result<nvme_address> parse_service_uri(std::string_view text)
{
    const auto whole = text;
    auto at = take_service(text);
    if (at && !text.empty() && text != "/")
        return fail(exit_code::usage, "'{}': remove what follows the address: '{}'", whole, text);
    return at;
}

result<std::vector<nvme_address>> parse_addresses(const std::vector<std::string>& texts,
                                                  const nvme_address& like)
{
    std::vector<nvme_address> all;
    for (const auto& text : texts) {
        auto at = like;
        at.address = usual_address(text);
        // A port, or brackets, or a mistake.
        if (!check_address(text)) {
            const auto uri = fmt::format("{}://{}", like.transport, text);
            std::string_view rest = uri;
            auto parsed = take_service(rest, like);
            if (!parsed)
                return std::unexpected(parsed.error());
            if (!rest.empty())
                return fail(exit_code::usage, "'{}' is not ADDRESS or ADDRESS:PORT", text);
            at = std::move(*parsed);
        }
        if (std::ranges::count(all, at))
            return fail(exit_code::usage, "{} is given twice", at.text());
        all.push_back(std::move(at));
    }
    return all;
}

} // namespace weft
