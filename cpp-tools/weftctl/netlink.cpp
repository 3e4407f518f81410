// SPDX-License-Identifier: GPL-2.0-only
#include "netlink.hpp"

#include "device.hpp"
#include "netlink_attr.hpp"
#include "process.hpp"
#include "superblock.hpp"
#include "sysfile.hpp"
#include "uapi/weft.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <linux/genetlink.h>

extern char** environ;

namespace weft
{

namespace
{

constexpr std::array volume_states{"assembling", "live", "failed", "stopping"};
constexpr std::array ownerships{"none", "held", "suspended", "failed", "lost"};
constexpr std::array member_states{"ok", "gone", "stalled"};
constexpr std::array event_types{"assembled",    "stopped",       "member-error",  "member-gone",
                                 "ownership",    "path-lost",     "path-restored", "stalled",
                                 "path-changed", "member-resized"};

template <std::size_t N>
std::string name_of(const std::array<const char*, N>& names, std::uint32_t value)
{
    // A newer kernel may know values that this tool does not.
    return value < N ? names[value] : fmt::format("unknown-{}", value);
}

std::string uuid_of(const nlattr* attr)
{
    std::uint8_t uuid[WEFT_UUID_SIZE] = {};
    if (mnl_attr_get_payload_len(attr) == sizeof(uuid))
        std::memcpy(uuid, mnl_attr_get_payload(attr), sizeof(uuid));
    return format_uuid(uuid);
}

path_status parse_path(const nlattr* nest)
{
    path_status path;
    for_each_nested(nest, [&](const nlattr* attr) {
        switch (mnl_attr_get_type(attr)) {
        case WEFT_A_PATH_ADDRESS:
            path.address = text_of(attr);
            break;
        case WEFT_A_PATH_TRANSPORT:
            path.transport = text_of(attr);
            break;
        case WEFT_A_PATH_DISK:
            path.disk = text_of(attr);
            break;
        case WEFT_A_PATH_USABLE:
            path.usable = mnl_attr_get_u32(attr);
            break;
        }
    });
    return path;
}

member_status parse_member(const nlattr* nest)
{
    member_status member;
    for_each_nested(nest, [&](const nlattr* attr) {
        switch (mnl_attr_get_type(attr)) {
        case WEFT_A_MEMBER_INDEX:
            member.index = mnl_attr_get_u32(attr);
            break;
        case WEFT_A_MEMBER_UUID:
            member.uuid = uuid_of(attr);
            break;
        case WEFT_A_MEMBER_TRANSPORT:
            member.transport = text_of(attr);
            break;
        case WEFT_A_MEMBER_ADDRESS:
            member.address = text_of(attr);
            break;
        case WEFT_A_MEMBER_DISK:
            member.disk = text_of(attr);
            break;
        case WEFT_A_MEMBER_STATE:
            member.state = name_of(member_states, mnl_attr_get_u32(attr));
            break;
        case WEFT_A_MEMBER_SIZE:
            member.size = mnl_attr_get_u64(attr);
            break;
        case WEFT_A_MEMBER_PATH:
            member.paths.push_back(parse_path(attr));
            break;
        case WEFT_A_MEMBER_RETRIED:
            member.retried = mnl_attr_get_u64(attr);
            break;
        }
    });
    return member;
}

volume_status parse_volume(const nlmsghdr* header)
{
    volume_status volume;
    for_each_attr(header, [&](const nlattr* attr) {
        switch (mnl_attr_get_type(attr)) {
        case WEFT_A_VOLUME_NAME:
            volume.name = text_of(attr);
            break;
        case WEFT_A_VOLUME_UUID:
            volume.uuid = uuid_of(attr);
            break;
        case WEFT_A_VOLUME_MEMBER:
            volume.members.push_back(parse_member(attr));
            break;
        case WEFT_A_VOLUME_STATE:
            volume.state = name_of(volume_states, mnl_attr_get_u32(attr));
            break;
        case WEFT_A_VOLUME_OWNERSHIP:
            volume.ownership = name_of(ownerships, mnl_attr_get_u32(attr));
            break;
        case WEFT_A_VOLUME_READ_ONLY:
            volume.read_only = true;
            break;
        case WEFT_A_VOLUME_SIZE:
            volume.size = mnl_attr_get_u64(attr);
            break;
        case WEFT_A_VOLUME_CHUNK_SIZE:
            volume.chunk_size = mnl_attr_get_u32(attr);
            break;
        case WEFT_A_VOLUME_BLOCK_SIZE:
            volume.block_size = mnl_attr_get_u32(attr);
            break;
        case WEFT_A_VOLUME_MEMBER_COUNT:
            volume.member_count = mnl_attr_get_u32(attr);
            break;
        case WEFT_A_VOLUME_GENERATION:
            volume.generation = mnl_attr_get_u64(attr);
            break;
        case WEFT_A_VOLUME_CREATED:
            volume.created = mnl_attr_get_u64(attr);
            break;
        case WEFT_A_VOLUME_OPENERS:
            volume.openers = mnl_attr_get_u32(attr);
            break;
        case WEFT_A_VOLUME_MEM_DIRECT:
            volume.mem_direct = mnl_attr_get_u64(attr);
            break;
        case WEFT_A_VOLUME_MEM_VMAP:
            volume.mem_vmap = mnl_attr_get_u64(attr);
            break;
        case WEFT_A_VOLUME_MEM_BOUNCE:
            volume.mem_bounce = mnl_attr_get_u64(attr);
            break;
        case WEFT_A_VOLUME_LEASE_LEFT:
            volume.lease_left_ms = mnl_attr_get_u32(attr);
            break;
        }
    });
    return volume;
}

// A member or path: its device, and the transport that owns it.
void put_device(nlmsghdr* header, const std::string& device)
{
    mnl_attr_put_strz(header, WEFT_A_MEMBER_ADDRESS, device.c_str());
    std::error_code ignored;
    if (is_own_disk(std::filesystem::canonical(device, ignored).filename().string()))
        mnl_attr_put_strz(header, WEFT_A_MEMBER_TRANSPORT, "rdma");
}

std::string time_now()
{
    const auto now = std::time(nullptr);
    std::tm parts{};
    char text[40] = "";
    if (localtime_r(&now, &parts))
        std::strftime(text, sizeof(text), "%FT%T%z", &parts);
    return text;
}

event_report parse_event(const nlmsghdr* header)
{
    event_report event;
    event.time = time_now();
    for_each_attr(header, [&](const nlattr* attr) {
        switch (mnl_attr_get_type(attr)) {
        case WEFT_A_NOTICE_TYPE:
            event.type = name_of(event_types, mnl_attr_get_u32(attr));
            break;
        case WEFT_A_NOTICE_VOLUME:
            event.volume = text_of(attr);
            break;
        case WEFT_A_NOTICE_MEMBER:
            event.member = mnl_attr_get_u32(attr);
            break;
        case WEFT_A_NOTICE_TEXT:
            event.text = text_of(attr);
            break;
        case WEFT_A_NOTICE_ERRNO:
            event.errnum = mnl_attr_get_u32(attr);
            break;
        case WEFT_A_NOTICE_OWNERSHIP:
            event.ownership = name_of(ownerships, mnl_attr_get_u32(attr));
            break;
        }
    });
    return event;
}

// The counters of a member, from its sysfs folder; zeroes if it was removed meanwhile.
void read_counters(const std::string& volume, member_status& member)
{
    const auto dir = fmt::format("/sys/block/weft!{}/members/{}/", volume, member.index);
    std::ifstream stat(dir + "stat");
    for (auto* counter : {&member.reads, &member.writes, &member.discards, &member.flushes}) {
        std::uint64_t sectors = 0;
        stat >> counter->ios >> sectors >> counter->nsecs;
        counter->bytes = sectors * 512;
    }
    std::ifstream(dir + "errors") >> member.errors;
}

// The kernel's Documentation/block/stat.rst: commands, merges, sectors, milliseconds; of reads, then of
// writes.
void read_disk(path_status& path)
{
    std::ifstream stat("/sys/class/block/" + path.disk + "/stat");
    for (auto* counter : {&path.reads, &path.writes}) {
        std::uint64_t merges = 0;
        std::uint64_t sectors = 0;
        std::uint64_t msecs = 0;
        stat >> counter->ios >> merges >> sectors >> msecs;
        counter->bytes = sectors * 512;
        counter->nsecs = msecs * 1000000;
    }
}

// The sysfs attributes of the controller of a path's disk, if it is one of weft's own.
void read_controller(path_status& path)
{
    if (path.transport != "rdma")
        return;
    const std::filesystem::path dir = "/sys/class/block/" + path.disk + "/device";
    std::error_code ignored;
    path.controller = std::filesystem::canonical(dir, ignored).filename();
    path.state = read_text(dir / "state").value_or("");
    path.ana_state = read_text("/sys/class/block/" + path.disk + "/ana_state").value_or("");
    path.rail = read_text(dir / "rail").value_or("");
    const auto at = read_text(dir / "address").value_or("");
    path.target = fmt::format("{}:{}", address_field(at, "traddr"), address_field(at, "trsvcid"));
    std::ifstream(dir / "queue_count") >> path.queues;
    path.queues -= path.queues ? 1 : 0; // the admin queue
    std::ifstream(dir / "reconnects") >> path.reconnects;
    std::ifstream(dir / "errors") >> path.errors;
    std::ifstream ends(dir / "ends");
    for (end_count end; ends >> end.reason >> end.count;)
        if (end.count)
            path.ends.push_back(end);
}

} // namespace

/// One request and its answers.
struct netlink::exchange {
    const handler* reply = nullptr;
    std::uint16_t family = 0;
    std::string refusal; ///< the sentence of a `refused` message
    std::string extack;  ///< the kernel's sentence for messages that it refused before weft
};

int netlink::on_message(const nlmsghdr* header, void* data)
{
    auto& exchange = *static_cast<struct exchange*>(data);
    const auto* genl = static_cast<const genlmsghdr*>(mnl_nlmsg_get_payload(header));
    if (header->nlmsg_type == exchange.family && genl->cmd == WEFT_CMD_REFUSED) {
        for_each_attr(header, [&](const nlattr* attr) {
            if (mnl_attr_get_type(attr) == WEFT_A_NOTICE_TEXT)
                exchange.refusal = text_of(attr);
        });
    } else if (*exchange.reply) {
        (*exchange.reply)(header);
    }
    return MNL_CB_OK;
}

namespace
{

// The error of an ack, and the sentence the kernel may have put after it.
int ack_error(const nlmsghdr* header, std::string& extack)
{
    const auto* err = static_cast<const nlmsgerr*>(mnl_nlmsg_get_payload(header));
    if (!(header->nlmsg_flags & NLM_F_ACK_TLVS))
        return -err->error;
    std::size_t skip = sizeof(*err);
    if (!(header->nlmsg_flags & NLM_F_CAPPED))
        skip += mnl_nlmsg_get_payload_len(&err->msg);
    attr_visitor visitor{[&](const nlattr* attr) {
        if (mnl_attr_get_type(attr) == NLMSGERR_ATTR_MSG)
            extack = text_of(attr);
    }};
    mnl_attr_parse(header, static_cast<unsigned int>(skip), decltype(visitor)::call, &visitor);
    return -err->error;
}

} // namespace

result<void> netlink::transact(std::uint16_t type, std::uint8_t command, std::uint16_t flags,
                               const attributes& put, const handler& reply)
{
    auto* header = mnl_nlmsg_put_header(buffer_.data());
    header->nlmsg_type = type;
    header->nlmsg_flags = static_cast<std::uint16_t>(NLM_F_REQUEST | NLM_F_ACK | flags);
    header->nlmsg_seq = ++sequence_;
    auto* genl = static_cast<genlmsghdr*>(mnl_nlmsg_put_extra_header(header, sizeof(genlmsghdr)));
    genl->cmd = command;
    genl->version = 1;
    put(header);
    if (mnl_socket_sendto(socket_.get(), header, header->nlmsg_len) < 0)
        return fail(exit_code::failure, "the request to the kernel failed: {}", std::strerror(errno));

    exchange exchange;
    exchange.reply = &reply;
    exchange.family = family_;
    for (;;) {
        if (ends_at_signal_ && !wait_readable_in_thread(mnl_socket_get_fd(socket_.get())))
            return std::unexpected(interruption());
        const auto got = mnl_socket_recvfrom(socket_.get(), buffer_.data(), buffer_.size());
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return fail(exit_code::failure, "the kernel's answer cannot be read: {}", std::strerror(errno));
        auto left = static_cast<int>(got);
        for (const auto* answer = reinterpret_cast<const nlmsghdr*>(buffer_.data());
             mnl_nlmsg_ok(answer, left); answer = mnl_nlmsg_next(answer, &left)) {
            if (answer->nlmsg_seq != sequence_)
                continue; // an event, or the answer to an abandoned request
            if (answer->nlmsg_type != NLMSG_ERROR && answer->nlmsg_type != NLMSG_DONE) {
                on_message(answer, &exchange);
                continue;
            }
            if (answer->nlmsg_type == NLMSG_DONE)
                return {};
            const int errnum = ack_error(answer, exchange.extack);
            if (!errnum)
                return {};
            if (!exchange.refusal.empty())
                return fail(exit_code_of(errnum), "{}", exchange.refusal);
            return fail(exit_code_of(errnum), "the kernel refuses: {}",
                        exchange.extack.empty() ? std::strerror(errnum) : exchange.extack);
        }
    }
}

result<void> netlink::resolve()
{
    return transact(
        GENL_ID_CTRL, CTRL_CMD_GETFAMILY, 0,
        [](nlmsghdr* header) { mnl_attr_put_strz(header, CTRL_ATTR_FAMILY_NAME, WEFT_FAMILY_NAME); },
        [this](const nlmsghdr* header) {
            for_each_attr(header, [this](const nlattr* attr) {
                if (mnl_attr_get_type(attr) == CTRL_ATTR_FAMILY_ID)
                    family_ = mnl_attr_get_u16(attr);
                if (mnl_attr_get_type(attr) != CTRL_ATTR_MCAST_GROUPS)
                    return;
                for_each_nested(attr, [this](const nlattr* group) {
                    std::string name;
                    std::uint32_t id = 0;
                    for_each_nested(group, [&](const nlattr* part) {
                        if (mnl_attr_get_type(part) == CTRL_ATTR_MCAST_GRP_NAME)
                            name = text_of(part);
                        if (mnl_attr_get_type(part) == CTRL_ATTR_MCAST_GRP_ID)
                            id = mnl_attr_get_u32(part);
                    });
                    if (name == "events")
                        events_group_ = id;
                });
            });
        });
}

result<netlink> netlink::open()
{
    netlink connection;
    connection.socket_.reset(mnl_socket_open2(NETLINK_GENERIC, SOCK_CLOEXEC));
    if (!connection.socket_ || mnl_socket_bind(connection.socket_.get(), 0, MNL_SOCKET_AUTOPID) < 0)
        return fail(exit_code::failure, "no netlink socket: {}", std::strerror(errno));
    int on = 1;
    mnl_socket_setsockopt(connection.socket_.get(), NETLINK_EXT_ACK, &on, sizeof(on));
    mnl_socket_setsockopt(connection.socket_.get(), NETLINK_CAP_ACK, &on, sizeof(on));
    if (connection.resolve())
        return connection;
    if (auto loaded = load_module("weft"); !loaded)
        return std::unexpected(loaded.error());
    if (auto resolved = connection.resolve(); !resolved)
        return fail(exit_code::missing,
                    "the kernel module weft does not answer here; it serves only the initial network "
                    "namespace");
    return connection;
}

bool netlink::is_stale()
{
    // A request for the family makes the kernel load the module.
    if (!is_served())
        return true;
    netlink now;
    now.socket_.reset(mnl_socket_open2(NETLINK_GENERIC, SOCK_CLOEXEC));
    return !now.socket_ || mnl_socket_bind(now.socket_.get(), 0, MNL_SOCKET_AUTOPID) < 0 || !now.resolve() ||
           now.family_ != family_;
}

bool netlink::is_served()
{
    std::error_code ignored;
    return std::filesystem::exists("/sys/module/weft", ignored);
}

result<std::vector<volume_status>> netlink::volumes()
{
    std::vector<volume_status> found;
    auto done = transact(
        family_, WEFT_CMD_VOLUME_GET, NLM_F_DUMP, [](nlmsghdr*) {},
        [&](const nlmsghdr* header) { found.push_back(parse_volume(header)); });
    if (!done)
        return std::unexpected(done.error());
    return found;
}

result<std::vector<std::string>> netlink::names(const std::vector<std::string>& wanted)
{
    if (!wanted.empty())
        return wanted;
    const auto all = volumes();
    if (!all)
        return std::unexpected(all.error());
    std::vector<std::string> names;
    for (const auto& volume : *all)
        names.push_back(volume.name);
    return names;
}

result<volume_status> netlink::volume(const std::string& name)
{
    volume_status found;
    auto done = transact(
        family_, WEFT_CMD_VOLUME_GET, 0,
        [&](nlmsghdr* header) { mnl_attr_put_strz(header, WEFT_A_VOLUME_NAME, name.c_str()); },
        [&](const nlmsghdr* header) { found = parse_volume(header); });
    if (!done)
        return std::unexpected(done.error());
    for (auto& member : found.members) {
        read_counters(found.name, member);
        for (auto& path : member.paths) {
            read_disk(path);
            read_controller(path);
        }
    }
    found.iopolicy = read_text("/sys/block/weft!" + found.name + "/weft/iopolicy").value_or("");
    int iostats = 0;
    if (std::ifstream(fmt::format("/sys/block/weft!{}/queue/iostats", found.name)) >> iostats)
        found.iostats = iostats;
    return found;
}

result<void> netlink::assemble(const assemble_request& request)
{
    ends_at_signal_ = true;
    return transact(family_, WEFT_CMD_VOLUME_ASSEMBLE, 0,
                    [&](nlmsghdr* header) {
                        mnl_attr_put_strz(header, WEFT_A_VOLUME_NAME, request.name.c_str());
                        if (!request.host_nqn.empty())
                            mnl_attr_put_strz(header, WEFT_A_VOLUME_HOST_NQN, request.host_nqn.c_str());
                        if (request.read_only)
                            mnl_attr_put(header, WEFT_A_VOLUME_READ_ONLY, 0, nullptr);
                        if (request.take_over)
                            mnl_attr_put(header, WEFT_A_VOLUME_TAKE_OVER, 0, nullptr);
                        if (!request.iostats)
                            mnl_attr_put(header, WEFT_A_VOLUME_NO_IOSTATS, 0, nullptr);
                        for (const auto& address : request.addresses) {
                            auto* nest = mnl_attr_nest_start(header, WEFT_A_VOLUME_MEMBER);
                            put_device(header, address);
                            mnl_attr_nest_end(header, nest);
                        }
                    },
                    {});
}

result<void> netlink::stop(const std::string& name)
{
    return transact(family_, WEFT_CMD_VOLUME_STOP, 0,
                    [&](nlmsghdr* header) { mnl_attr_put_strz(header, WEFT_A_VOLUME_NAME, name.c_str()); },
                    {});
}

namespace
{

void put_secrets(nlmsghdr* header, const dhchap_secrets& secrets)
{
    const auto put = [&](const std::optional<dhchap_secret>& secret, std::uint16_t key, std::uint16_t hash) {
        if (!secret)
            return;
        mnl_attr_put(header, key, secret->key.size(), secret->key.data());
        mnl_attr_put_u32(header, hash, secret->hash);
    };
    put(secrets.host, WEFT_A_CONTROLLER_DHCHAP_SECRET, WEFT_A_CONTROLLER_DHCHAP_SECRET_HASH);
    put(secrets.ctrl, WEFT_A_CONTROLLER_DHCHAP_CTRL_SECRET, WEFT_A_CONTROLLER_DHCHAP_CTRL_SECRET_HASH);
}

} // namespace

result<std::string> netlink::create_controller(const controller_request& request)
{
    ends_at_signal_ = true;
    std::string name;
    auto done = transact(
        family_, WEFT_CMD_CONTROLLER_CREATE, 0,
        [&](nlmsghdr* header) {
            const auto put_text = [&](std::uint16_t type, const std::string& text) {
                if (!text.empty())
                    mnl_attr_put_strz(header, type, text.c_str());
            };
            const auto put_number = [&](std::uint16_t type, std::uint32_t number) {
                if (number)
                    mnl_attr_put_u32(header, type, number);
            };
            put_text(WEFT_A_CONTROLLER_TRANSPORT, request.transport);
            put_text(WEFT_A_CONTROLLER_SUBNQN, request.subnqn);
            put_text(WEFT_A_CONTROLLER_HOST_NQN, request.host_nqn);
            mnl_attr_put(header, WEFT_A_CONTROLLER_HOST_ID, request.host_id.size(), request.host_id.data());
            put_text(WEFT_A_CONTROLLER_ADDRESS, request.address);
            put_text(WEFT_A_CONTROLLER_SERVICE, request.service);
            put_text(WEFT_A_CONTROLLER_HOST_ADDRESS, request.host_address);
            put_number(WEFT_A_CONTROLLER_IO_QUEUES, request.io_queues);
            put_number(WEFT_A_CONTROLLER_POLL_QUEUES, request.poll_queues);
            put_number(WEFT_A_CONTROLLER_QUEUE_SIZE, request.queue_size);
            put_number(WEFT_A_CONTROLLER_KEEP_ALIVE, request.keep_alive);
            put_number(WEFT_A_CONTROLLER_RECONNECT_DELAY, request.reconnect_delay);
            if (request.ctrl_loss_timeout)
                mnl_attr_put_u32(header, WEFT_A_CONTROLLER_CTRL_LOSS_TIMEOUT,
                                 static_cast<std::uint32_t>(*request.ctrl_loss_timeout));
            if (request.fast_io_fail_timeout)
                mnl_attr_put_u32(header, WEFT_A_CONTROLLER_FAST_IO_FAIL_TIMEOUT,
                                 static_cast<std::uint32_t>(*request.fast_io_fail_timeout));
            if (request.tos)
                mnl_attr_put_u32(header, WEFT_A_CONTROLLER_TOS, static_cast<std::uint32_t>(*request.tos));
            if (request.background_tos)
                mnl_attr_put_u32(header, WEFT_A_CONTROLLER_BACKGROUND_TOS,
                                 static_cast<std::uint32_t>(*request.background_tos));
            put_secrets(header, request.secrets);
        },
        [&](const nlmsghdr* header) {
            for_each_attr(header, [&](const nlattr* attr) {
                if (mnl_attr_get_type(attr) == WEFT_A_CONTROLLER_NAME)
                    name = text_of(attr);
            });
        });
    if (!done)
        return std::unexpected(done.error());
    return name;
}

result<void> netlink::set_secrets(const std::string& transport, const std::string& controller,
                                  const dhchap_secrets& secrets)
{
    return transact(family_, WEFT_CMD_CONTROLLER_SECRETS, 0,
                    [&](nlmsghdr* header) {
                        mnl_attr_put_strz(header, WEFT_A_CONTROLLER_TRANSPORT, transport.c_str());
                        mnl_attr_put_strz(header, WEFT_A_CONTROLLER_NAME, controller.c_str());
                        put_secrets(header, secrets);
                    },
                    {});
}

result<void> netlink::delete_controller(const std::string& transport, const std::string& name)
{
    return transact(family_, WEFT_CMD_CONTROLLER_DELETE, 0,
                    [&](nlmsghdr* header) {
                        mnl_attr_put_strz(header, WEFT_A_CONTROLLER_TRANSPORT, transport.c_str());
                        mnl_attr_put_strz(header, WEFT_A_CONTROLLER_NAME, name.c_str());
                    },
                    {});
}

result<void> netlink::add_path(const std::string& volume, std::uint32_t member, const std::string& device)
{
    return change_path(WEFT_CMD_PATH_ADD, volume, member,
                       [&](nlmsghdr* header) { put_device(header, device); });
}

result<void> netlink::remove_path(const std::string& volume, std::uint32_t member, const std::string& disk)
{
    return change_path(WEFT_CMD_PATH_REMOVE, volume, member, [&](nlmsghdr* header) {
        mnl_attr_put_strz(header, WEFT_A_MEMBER_ADDRESS, disk.c_str());
    });
}

result<void> netlink::change_path(std::uint8_t command, const std::string& volume, std::uint32_t member,
                                  const attributes& put)
{
    return transact(family_, command, 0,
                    [&](nlmsghdr* header) {
                        mnl_attr_put_strz(header, WEFT_A_VOLUME_NAME, volume.c_str());
                        auto* nest = mnl_attr_nest_start(header, WEFT_A_VOLUME_MEMBER);
                        mnl_attr_put_u32(header, WEFT_A_MEMBER_INDEX, member);
                        put(header);
                        mnl_attr_nest_end(header, nest);
                    },
                    {});
}

result<void> netlink::subscribe()
{
    auto group = static_cast<int>(events_group_);
    if (mnl_socket_setsockopt(socket_.get(), NETLINK_ADD_MEMBERSHIP, &group, sizeof(group)))
        return fail(exit_code::failure, "events cannot be listened to: {}", std::strerror(errno));
    return {};
}

result<void> netlink::receive_events(const std::function<bool(const event_report&)>& handler,
                                     std::optional<std::chrono::milliseconds> time)
{
    using clock = std::chrono::steady_clock;
    const auto end = clock::now() + time.value_or(std::chrono::milliseconds(0));
    const auto left_of_it = [&]() -> std::optional<std::chrono::milliseconds> {
        if (!time)
            return std::nullopt;
        return std::max(std::chrono::ceil<std::chrono::milliseconds>(end - clock::now()),
                        std::chrono::milliseconds(0));
    };
    while (wait_readable(mnl_socket_get_fd(socket_.get()), left_of_it())) {
        const auto got = mnl_socket_recvfrom(socket_.get(), buffer_.data(), buffer_.size());
        if (got < 0 && errno == ENOBUFS) {
            event_report lost;
            lost.time = time_now();
            lost.type = "overrun";
            lost.text = "events came faster than they were read; some are lost";
            if (!handler(lost))
                return {};
            continue;
        }
        if (got < 0)
            return fail(exit_code::failure, "events cannot be read: {}", std::strerror(errno));
        const bool over = time && clock::now() >= end;
        auto left = static_cast<int>(got);
        for (const auto* message = reinterpret_cast<const nlmsghdr*>(buffer_.data());
             mnl_nlmsg_ok(message, left); message = mnl_nlmsg_next(message, &left)) {
            const auto* genl = static_cast<const genlmsghdr*>(mnl_nlmsg_get_payload(message));
            if (message->nlmsg_type == family_ && genl->cmd == WEFT_CMD_EVENT &&
                !handler(parse_event(message)))
                return {};
        }
        if (over)
            return {};
    }
    return {};
}

} // namespace weft
