// SPDX-License-Identifier: GPL-2.0-only
/// The commands qos-set and qos-get.
#include "netlink.hpp"
#include "netlink_attr.hpp"
#include "uapi/weft.h"

namespace weft
{

namespace
{

constexpr std::array<std::uint16_t, io_classes.size()> max_bytes_attr{WEFT_A_QOS_FEED_MAX_BYTES,
                                                                      WEFT_A_QOS_BACKGROUND_MAX_BYTES};
constexpr std::array<std::uint16_t, io_classes.size()> max_ios_attr{WEFT_A_QOS_FEED_MAX_IOS,
                                                                    WEFT_A_QOS_BACKGROUND_MAX_IOS};
constexpr std::array<std::uint16_t, io_classes.size()> cgroup_attr{WEFT_A_QOS_FEED_CGROUP,
                                                                   WEFT_A_QOS_BACKGROUND_CGROUP};

qos_class_status parse_class(const nlattr* nest, std::uint32_t& index)
{
    qos_class_status status;
    for_each_nested(nest, [&](const nlattr* attr) {
        switch (mnl_attr_get_type(attr)) {
        case WEFT_A_QOS_CLASS_CLASS:
            index = mnl_attr_get_u32(attr);
            break;
        case WEFT_A_QOS_CLASS_IOS:
            status.ios = mnl_attr_get_u64(attr);
            break;
        case WEFT_A_QOS_CLASS_BYTES:
            status.bytes = mnl_attr_get_u64(attr);
            break;
        case WEFT_A_QOS_CLASS_LATENCY:
            status.latency.resize(mnl_attr_get_payload_len(attr) / sizeof(std::uint64_t));
            std::memcpy(status.latency.data(), mnl_attr_get_payload(attr),
                        status.latency.size() * sizeof(std::uint64_t));
            break;
        case WEFT_A_QOS_CLASS_HELD:
            status.held = mnl_attr_get_u32(attr);
            break;
        case WEFT_A_QOS_CLASS_STALLS:
            status.stalls = mnl_attr_get_u64(attr);
            break;
        case WEFT_A_QOS_CLASS_STALLED:
            status.stalled = mnl_attr_get_u64(attr);
            break;
        case WEFT_A_QOS_CLASS_IN_FLIGHT:
            status.in_flight = mnl_attr_get_u64(attr);
            break;
        }
    });
    return status;
}

qos_member_status parse_member(const nlattr* nest)
{
    qos_member_status member;
    for_each_nested(nest, [&](const nlattr* attr) {
        switch (mnl_attr_get_type(attr)) {
        case WEFT_A_QOS_MEMBER_INDEX:
            member.index = mnl_attr_get_u32(attr);
            break;
        case WEFT_A_QOS_MEMBER_RATE:
            member.rate = mnl_attr_get_u64(attr);
            break;
        case WEFT_A_QOS_MEMBER_BEST:
            member.best = mnl_attr_get_u64(attr);
            break;
        case WEFT_A_QOS_MEMBER_WINDOW:
            member.window = mnl_attr_get_u64(attr);
            break;
        case WEFT_A_QOS_MEMBER_CLASS: {
            std::uint32_t index = io_classes.size();
            auto status = parse_class(attr, index);
            if (index < member.classes.size())
                member.classes[index] = std::move(status);
            break;
        }
        }
    });
    return member;
}

void parse_qos(const nlattr* attr, qos_status& status)
{
    const auto type = mnl_attr_get_type(attr);
    switch (type) {
    case WEFT_A_QOS_OFF:
        status.on = false;
        break;
    case WEFT_A_QOS_FEED_LATENCY:
        status.feed_latency = mnl_attr_get_u32(attr);
        break;
    case WEFT_A_QOS_BACKGROUND_FLOOR:
        status.floor = mnl_attr_get_u32(attr);
        break;
    case WEFT_A_QOS_READS:
        status.reads = mnl_attr_get_u32(attr);
        break;
    case WEFT_A_QOS_WRITES:
        status.writes = mnl_attr_get_u32(attr);
        break;
    case WEFT_A_QOS_BACKGROUND_FROM:
        status.background_from = mnl_attr_get_u32(attr);
        break;
    case WEFT_A_QOS_BACKGROUND_LATENCY:
        status.background_latency = mnl_attr_get_u32(attr);
        break;
    case WEFT_A_QOS_BACKGROUND_WEIGHT:
        status.background_weight = mnl_attr_get_u32(attr);
        break;
    case WEFT_A_QOS_MEMBER:
        status.members.push_back(parse_member(attr));
        break;
    }
    for (std::size_t i = 0; i < io_classes.size(); i++) {
        if (type == max_bytes_attr[i])
            status.max_bytes[i] = mnl_attr_get_u64(attr);
        if (type == max_ios_attr[i])
            status.max_ios[i] = mnl_attr_get_u32(attr);
        if (type == cgroup_attr[i])
            status.cgroup[i] = text_of(attr);
    }
}

void put_u32(nlmsghdr* header, std::uint16_t type, const std::optional<std::uint32_t>& value)
{
    if (value)
        mnl_attr_put_u32(header, type, *value);
}

void put_request(nlmsghdr* header, const qos_request& request)
{
    mnl_attr_put_strz(header, WEFT_A_QOS_VOLUME, request.volume.c_str());
    if (request.off)
        mnl_attr_put(header, WEFT_A_QOS_OFF, 0, nullptr);
    put_u32(header, WEFT_A_QOS_FEED_LATENCY, request.feed_latency);
    put_u32(header, WEFT_A_QOS_BACKGROUND_FLOOR, request.floor);
    put_u32(header, WEFT_A_QOS_READS, request.reads);
    put_u32(header, WEFT_A_QOS_WRITES, request.writes);
    put_u32(header, WEFT_A_QOS_BACKGROUND_FROM, request.background_from);
    put_u32(header, WEFT_A_QOS_BACKGROUND_LATENCY, request.background_latency);
    put_u32(header, WEFT_A_QOS_BACKGROUND_WEIGHT, request.background_weight);
    for (std::size_t i = 0; i < io_classes.size(); i++) {
        if (request.max_bytes[i])
            mnl_attr_put_u64(header, max_bytes_attr[i], *request.max_bytes[i]);
        put_u32(header, max_ios_attr[i], request.max_ios[i]);
        if (request.cgroup[i])
            mnl_attr_put_strz(header, cgroup_attr[i], request.cgroup[i]->c_str());
    }
}

} // namespace

result<void> netlink::set_qos(const qos_request& request)
{
    return transact(family_, WEFT_CMD_QOS_SET, 0, [&](nlmsghdr* header) { put_request(header, request); },
                    {});
}

result<void> netlink::get_qos(qos_status& status, std::optional<std::uint32_t> member)
{
    return transact(
        family_, WEFT_CMD_QOS_GET, 0,
        [&](nlmsghdr* header) {
            mnl_attr_put_strz(header, WEFT_A_QOS_VOLUME, status.volume.c_str());
            put_u32(header, WEFT_A_QOS_INDEX, member);
        },
        [&](const nlmsghdr* header) {
            for_each_attr(header, [&](const nlattr* attr) { parse_qos(attr, status); });
        });
}

result<qos_status> netlink::qos(const std::string& volume, std::uint32_t members)
{
    qos_status status;
    status.volume = volume;
    status.on = true;
    auto done = get_qos(status, {});
    for (std::uint32_t i = 0; done && status.on && i < members; i++)
        done = get_qos(status, i);
    if (!done)
        return std::unexpected(done.error());
    return status;
}

} // namespace weft
