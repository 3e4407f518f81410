// SPDX-License-Identifier: GPL-2.0-only
/// An NVMe/RDMA target that keeps the rules until it is told not to: what a host must survive.
///
/// One namespace in memory, over as many addresses as are given, each a path to it. It speaks just enough of
/// the protocol for weft's initiator to go live and to read and write. At the Nth I/O command it does what
/// --fault says, once, and goes on as a good target.
///
/// Options make it differ from the kernel's target as others may: it invalidates no keys, uses a longer
/// keep-alive timeout than it was asked for, really aborts a command, pauses all I/O (with --holds-admin all
/// commands, as SPDK does), resets its disk, takes long to shut down or fails then, or reports ANA with a
/// group for each namespace, and lists the namespaces also where the host wanted the groups only. With
/// --auth it asks for authentication on each queue (auth.hpp).
///
/// With the fault "events", SIGUSR1 gives it one namespace more, which it announces; --at readings of the log
/// of changed namespaces fail.
///
/// Several hosts have the one controller and the one disk, and are not told apart; all come by one RDMA
/// device.
///
/// Not modelled: flow control, namespaces that go, reservations.
#include "auth.hpp"
#include "options.hpp"
#include "pages.hpp"

#include <algorithm>
#include <arpa/inet.h>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <endian.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <list>
#include <map>
#include <memory>
#include <netinet/in.h>
#include <poll.h>
#include <random>
#include <rdma/rdma_cma.h>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace
{

using clock_type = std::chrono::steady_clock;

constexpr std::uint8_t fabrics_opcode = 0x7f;
/// Dataset Management; a host sends one range with it.
constexpr std::uint8_t deallocate = 0x09;
constexpr std::uint32_t range_size = 16;
constexpr std::size_t command_size = 64;
constexpr std::size_t response_size = 16;
/// Each slot of an I/O queue has so much, which is registered while a host waits for its connection.
constexpr std::size_t data_size = 256 << 10;
constexpr std::size_t disk_size = 64 << 20;
constexpr unsigned block = 512;
/// Of the disk; on a volume a mebibyte before.
constexpr std::uint64_t host_abort_at = 2 << 20;
/// What a heartbeat reads of member 0: the owner record, and the claim behind it.
constexpr std::uint64_t owner_at = 4096;
constexpr std::uint64_t owner_size = 8192;
/// In the record: it counts the writes of the record.
constexpr std::size_t owner_sequence = 56;

options told;
auth_knowledge known;
pages disk(disk_size);
unsigned io_commands = 0;
bool fault_done = false;
std::uint64_t more_at = 0;
volatile std::sig_atomic_t rotate = 0;
volatile std::sig_atomic_t armed = 1;
/// I/O commands that arrive before are served then; with --holds-admin all commands.
clock_type::time_point paused_until{};
/// I/O commands that arrive before end with errors that pass.
clock_type::time_point reset_until{};

[[gnu::format(printf, 1, 2)]] void say(const char* format, ...)
{
    static const auto start = clock_type::now();
    std::printf("[%7.3f] ", std::chrono::duration<double>(clock_type::now() - start).count());
    va_list args;
    va_start(args, format);
    std::vprintf(format, args);
    va_end(args);
    std::printf("\n");
    std::fflush(stdout);
}

[[noreturn]] void die(const char* what)
{
    std::fprintf(stderr, "hostile target: %s: %s\n", what, std::strerror(errno));
    std::exit(1);
}

template <typename T>
T load(const std::uint8_t* from)
{
    T value;
    std::memcpy(&value, from, sizeof(value));
    return value;
}

template <typename T>
void store(std::uint8_t* to, T value)
{
    std::memcpy(to, &value, sizeof(value));
}

/// Is the fault of this kind due with this I/O command?
bool due(const char* kind)
{
    if (!armed || fault_done || told.fault != kind || io_commands < told.at)
        return false;
    fault_done = true;
    say("now: %s", kind);
    return true;
}

/// Is the fault of this kind, which comes so many times, due once more?
bool once_more(const char* kind)
{
    if (told.fault != kind || !told.at)
        return false;
    told.at--;
    say("%s: %u more", kind, told.at);
    return true;
}

/// What targets answer while a disk is reset: Internal Error, Abort Requested, Namespace Not Ready.
std::uint16_t passing_status()
{
    static constexpr std::array<std::uint16_t, 3> statuses{0x06, 0x07, 0x82};
    static unsigned number = 0;
    return statuses[number++ % statuses.size()];
}

/// A write whose data came and that was not executed; or zeroes.
struct withheld {
    std::uint64_t offset;
    std::vector<std::uint8_t> data;
    clock_type::time_point when;
};
std::list<withheld> late;

/// In wr_id: not for the slot of that index, but another connection's command's key was tried.
constexpr std::uint64_t foreign = 1 << 16;

/// Memory of a command while it is served.
struct slot {
    std::uint8_t* capsule; ///< received: the command and what is in the capsule
    std::uint8_t* data;
    std::uint8_t* response;
    std::array<std::uint8_t, command_size> command;
    std::uint32_t length = 0;
    bool stuck = false; ///< it has no answer before it is aborted
};

/// Address of the host whose I/O the target leaves without an answer, and whose connections it rejects; or 0.
in_addr_t deaf_to = 0;

in_addr_t address(const sockaddr* of)
{
    return reinterpret_cast<const sockaddr_in*>(of)->sin_addr.s_addr;
}

/// Of all connections: their completions wake the target.
ibv_comp_channel* completions = nullptr;

class connection;
/// Commands that arrived during a pause.
std::list<std::pair<connection*, unsigned>> paused;

class connection
{
public:
    /// Throws where the host has given the connection up meanwhile; @id is then still the caller's.
    connection(rdma_cm_id* id, std::uint16_t qid) : id_(id), qid_(qid)
    {
        if (!completions)
            completions = ibv_create_comp_channel(id->verbs);
        if (!completions || fcntl(completions->fd, F_SETFL, O_NONBLOCK))
            die("completion channel");
        pd_ = ibv_alloc_pd(id->verbs);
        cq_ = ibv_create_cq(id->verbs, 8 * depth, nullptr, completions, 0);
        if (!pd_ || !cq_ || ibv_req_notify_cq(cq_, 0))
            die("resources");
        ibv_qp_init_attr attr{};
        attr.send_cq = attr.recv_cq = cq_;
        attr.qp_type = IBV_QPT_RC;
        attr.cap = {.max_send_wr = 4 * depth,
                    .max_recv_wr = depth,
                    .max_send_sge = 1,
                    .max_recv_sge = 1,
                    .max_inline_data = 0};
        if (rdma_create_qp(id, pd_, &attr)) {
            const int error = errno;
            ibv_destroy_cq(cq_);
            ibv_dealloc_pd(pd_);
            throw std::system_error(error, std::generic_category(), "queue pair");
        }
        constexpr std::size_t capsule = command_size + inline_size;
        const std::size_t each = capsule + data_size + 64;
        // Data of the admin queue are pages; only I/O queues need a megabyte for each command.
        each_ = qid ? each : capsule + 8192 + 64;
        memory_ = pages(each_ * depth);
        mr_ = ibv_reg_mr(pd_, memory_.data(), memory_.size(),
                         IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE);
        if (!mr_)
            die("memory");
        slots_.resize(depth);
        for (unsigned i = 0; i < depth; i++) {
            slots_[i].capsule = memory_.data() + i * each_;
            slots_[i].response = slots_[i].capsule + capsule;
            slots_[i].data = slots_[i].response + 64;
            receive(i);
        }
    }
    connection(const connection&) = delete;
    connection& operator=(const connection&) = delete;
    ~connection()
    {
        paused.remove_if([this](const auto& one) { return one.first == this; });
        rdma_destroy_qp(id_);
        ibv_destroy_cq(cq_);
        ibv_dereg_mr(mr_);
        ibv_dealloc_pd(pd_);
        rdma_destroy_id(id_);
    }

    rdma_cm_id* id() { return id_; }
    std::uint16_t qid() const { return qid_; }

    /// Writes where a command of @owner's may: a host's key for one target is of no use to another.
    void trespass(connection& owner, unsigned index)
    {
        const auto& command = owner.slots_[index].command;
        owner_ = &owner;
        ibv_send_wr wr{};
        wr.opcode = IBV_WR_RDMA_WRITE;
        wr.wr.rdma.remote_addr = le64toh(load<std::uint64_t>(command.data() + 24));
        wr.wr.rdma.rkey = le32toh(load<std::uint32_t>(command.data() + 35));
        std::memset(slots_[0].data, 0xee, block);
        post(index | foreign, wr, slots_[0].data, block);
    }

    /// Waits up to ten seconds for what became of a trespass: the host ends the association for it, and the
    /// event that says so can come before the completion.
    void end_trespass()
    {
        for (int tries = 0; owner_ && tries < 1000; tries++) {
            ibv_wc wc;
            if (ibv_poll_cq(cq_, 1, &wc) < 1)
                std::this_thread::sleep_for(std::chrono::milliseconds(10));
            else if (wc.wr_id & foreign)
                trespassed(wc);
        }
    }

    /// Answers a command that is stuck. Returns false if it is not this one's.
    bool abort(std::uint16_t qid, std::uint16_t id)
    {
        if (qid != qid_)
            return false;
        for (unsigned i = 0; i < depth; i++) {
            if (!slots_[i].stuck || load<std::uint16_t>(slots_[i].command.data() + 2) != id)
                continue;
            slots_[i].stuck = false;
            say("aborted a command");
            respond(i, 0x0007); // Command Abort Requested
            return true;
        }
        return false;
    }

    /// Serves a command after a pause.
    void resume(unsigned index) { execute(index); }

    /// The ANA state of its address; 0 without ANA.
    int ana() const
    {
        char text[INET_ADDRSTRLEN] = "";
        const auto* at = reinterpret_cast<const sockaddr_in*>(rdma_get_local_addr(id_));
        inet_ntop(AF_INET, &at->sin_addr, text, sizeof(text));
        for (std::size_t i = 0; i < told.ana.size() && i < told.addresses.size(); i++)
            if (told.addresses[i] == text)
                return told.ana[i];
        return 0;
    }

    /// Ends the connection. A command can arrive before the CM knows that the connection is there, and a
    /// connection that the CM does not know cannot be ended.
    void leave()
    {
        leaving_ = true;
        if (established_)
            rdma_disconnect(id_);
    }

    /// The CM knows.
    void establish()
    {
        established_ = true;
        if (leaving_)
            leave();
    }

    /// The namespaces have changed. A host that has asked for events is told so, once until it reads the log.
    void changed()
    {
        changed_ = !qid_;
        tell_change();
    }

    /// Returns whether there was anything to do.
    bool poll()
    {
        ibv_wc wc[16];
        const int n = ibv_poll_cq(cq_, 16, wc);
        for (int i = 0; i < n; i++) {
            if (wc[i].wr_id & foreign) {
                trespassed(wc[i]);
                continue;
            }
            if (wc[i].status != IBV_WC_SUCCESS)
                continue; // torn down, or a key that was taken away: the host's right
            const unsigned index = wc[i].wr_id & 0xffff;
            if (wc[i].opcode & IBV_WC_RECV) {
                slots_[index].length = wc[i].byte_len;
                serve(index);
            } else if (wc[i].opcode == IBV_WC_RDMA_READ && slots_[index].command[0] == fabrics_opcode) {
                fetched(index);
            } else if (wc[i].opcode == IBV_WC_RDMA_READ) {
                written(index);
            }
        }
        return n > 0;
    }

private:
    void tell_change()
    {
        if (!changed_ || !event_asked_ || event_masked_)
            return;
        changed_ = event_asked_ = false;
        event_masked_ = true;
        say("told of a change");
        respond(event_slot_, 0, 4 << 16 | 2); // a notice: Namespace Attribute Changed, in log page 4
    }

    void event_request(unsigned index)
    {
        if (event_asked_)
            say("a second event is asked for");
        event_asked_ = true;
        event_slot_ = index;
        tell_change();
    }

    /// The log of changed namespaces: that there may be any. Its first readings fail.
    void changed_log(unsigned index)
    {
        if (told.at) {
            told.at--;
            say("the log is not read: %u more", told.at);
            respond(index, 0x0006);
            return;
        }
        say("the log is read");
        event_masked_ = false;
        std::memset(slots_[index].data, 0, 4096);
        std::memset(slots_[index].data, 0xff, 4);
        respond_data(index, 4096);
        tell_change();
    }

    void trespassed(const ibv_wc& wc)
    {
        say("another's key: %s", wc.status == IBV_WC_SUCCESS ? "taken" : "refused");
        owner_->respond(wc.wr_id & 0xffff);
        owner_ = nullptr;
    }

    void receive(unsigned index)
    {
        ibv_sge sge{reinterpret_cast<std::uint64_t>(slots_[index].capsule), command_size + inline_size,
                    mr_->lkey};
        ibv_recv_wr wr{};
        ibv_recv_wr* bad = nullptr;
        wr.wr_id = index;
        wr.sg_list = &sge;
        wr.num_sge = 1;
        ibv_post_recv(id_->qp, &wr, &bad);
    }

    /// What a work request does is set, what it moves is set here.
    void post(std::uint64_t index, ibv_send_wr& wr, std::uint8_t* at, std::uint32_t length)
    {
        ibv_sge sge{reinterpret_cast<std::uint64_t>(at), length, mr_->lkey};
        ibv_send_wr* bad = nullptr;
        wr.wr_id = index;
        wr.sg_list = &sge;
        wr.num_sge = 1;
        wr.send_flags = IBV_SEND_SIGNALED;
        ibv_post_send(id_->qp, &wr, &bad);
    }

    void send(unsigned index, std::uint32_t length, bool invalidate, std::uint32_t key)
    {
        ibv_send_wr wr{};
        wr.opcode = invalidate ? IBV_WR_SEND_WITH_INV : IBV_WR_SEND;
        wr.invalidate_rkey = key;
        post(index, wr, slots_[index].response, length);
    }

    void rdma(unsigned index, ibv_wr_opcode opcode, std::uint32_t length)
    {
        const auto* sgl = slots_[index].command.data() + 24;
        ibv_send_wr wr{};
        wr.opcode = opcode;
        wr.wr.rdma.remote_addr = le64toh(load<std::uint64_t>(sgl));
        wr.wr.rdma.rkey = le32toh(load<std::uint32_t>(sgl + 11));
        post(index, wr, slots_[index].data, length);
    }

    /// Of a read or a write, in bytes.
    static std::uint64_t offset_of(const slot& s)
    {
        return le64toh(load<std::uint64_t>(s.command.data() + 40)) * block;
    }

    static bool reads_owner(const slot& s) { return s.command[0] == 0x02 && offset_of(s) == owner_at; }

    /// The response, with its key invalidated where the host asked for that.
    void respond(unsigned index, std::uint16_t status = 0, std::uint64_t result = 0)
    {
        auto& s = slots_[index];
        bool invalidate =
            !told.keeps_keys && s.command[39] == 0x4f && load<std::uint32_t>(s.command.data() + 35);
        // A key that is not the command's alone: it outlives the command, and is not the target's to
        // invalidate.
        const bool keyed = s.command[39] == 0x40 && load<std::uint32_t>(s.command.data() + 35);
        const bool lasting = keyed && !reads_owner(s);
        auto key = le32toh(load<std::uint32_t>(s.command.data() + 35));
        // The owner record is read again and again, by one key.
        const bool owner = keyed && reads_owner(s) && std::exchange(owner_key_, key) == key;
        auto id = load<std::uint16_t>(s.command.data() + 2);
        std::uint32_t length = response_size;
        bool twice = false;

        if (qid_) {
            if (due("unknown-id"))
                id = htole16(0x0ff7);
            else if (due("old-id"))
                id ^= htole16(0x1000);
            else if (due("repeated-id"))
                twice = true;
            else if (due("short-response"))
                length = 8;
            else if (due("long-response"))
                length = 32;
            else if (due("wrong-key"))
                key ^= 0x100;
            else if ((lasting && due("invalidate")) || (owner && due("invalidate-owner")))
                invalidate = true;
            else if (lasting && due("short-invalidate")) {
                invalidate = true;
                length = 8;
            } else if (lasting && due("long-invalidate")) {
                invalidate = true;
                length = 32;
            }
        }
        std::memset(s.response, 0, 64);
        store(s.response, htole64(result));
        store(s.response + 12, id);
        store(s.response + 14, htole16(status << 1));
        receive(index);
        send(index, length, invalidate, key);
        if (twice)
            send(index, length, false, 0);
    }

    void respond_data(unsigned index, std::uint32_t length)
    {
        rdma(index, IBV_WR_RDMA_WRITE, length);
        respond(index);
    }

    void serve(unsigned index)
    {
        if (leaving_)
            return;
        auto& s = slots_[index];
        std::memcpy(s.command.data(), s.capsule, command_size);
        if (told.holds_admin && clock_type::now() < paused_until)
            paused.emplace_back(this, index);
        else
            execute(index);
    }

    void execute(unsigned index)
    {
        const auto opcode = slots_[index].command[0];
        if (opcode == fabrics_opcode)
            fabrics(index);
        else if (qid_)
            io(index, opcode);
        else
            admin(index, opcode);
    }

    void fabrics(unsigned index)
    {
        const auto& c = slots_[index].command;
        switch (c[4]) {
        case 0x01: // Connect: the one controller there is
            // As one whose subsystem is not active yet: so many times.
            if (once_more("busy")) {
                respond(index, 0x0181);
                return;
            }
            if (told.fault == "drop-connect" && qid_ > told.at) {
                leave();
                return;
            }
            if (qid_ && (due("silent-connect") || (told.fault == "silent-connect" && fault_done))) {
                receive(index);
                return;
            }
            if (told.auth) // responses cover the names in the data
                fetch(index, auth_dialog::connect_size);
            else
                respond(index, 0, connect_result());
            return;
        case 0x05: // Authentication Send
            fetch(index, auth_length(slots_[index]));
            return;
        case 0x06: // Authentication Receive
            auth_receive(index);
            return;
        case 0x04: { // Property Get
            const auto offset = le32toh(load<std::uint32_t>(c.data() + 44));
            if (offset == 0 && told.fault == "drop-cap") {
                leave();
                return;
            }
            std::uint64_t value = 0;
            // "never-ready": it says that this takes two minutes at most.
            const bool never = told.fault == "never-ready";
            if (offset == 0)
                value = (told.entries - 1) | (never ? 240ULL : 20ULL) << 24 | 1ULL << 37;
            else if (offset == 0x8)
                value = 0x20000;
            else if (offset == 0x1c && due("never-ready"))
                say("asked whether it is ready");
            else if (offset == 0x1c && never)
                value = 0;
            else if (offset == 0x1c) // SHST: 1 while it shuts down, then 2
                value = (enabled_ ? 1 : 0) |
                        (!shut_                         ? 0
                         : clock_type::now() < shut_at_ ? 4
                                                        : 8) |
                        (shut_ && told.fault == "shutdown-fails" ? 2 : 0); // CFS
            respond(index, 0, value);
            return;
        }
        case 0x00: { // Property Set
            const auto value = le64toh(load<std::uint64_t>(c.data() + 48));
            enabled_ = value & 1;
            if ((value & 0xc000) && !shut_)
                shut_at_ = clock_type::now() + std::chrono::seconds(told.shutdown_s);
            shut_ = value & 0xc000;
            respond(index);
            return;
        }
        default:
            respond(index, 0x4001);
        }
    }

    /// Controller 1, and whether it wants authentication (ATR), or a secure channel, too (ASCR).
    std::uint32_t connect_result() const
    {
        return 1 | (told.auth ? 1 << 17 : 0) | (told.fault == "auth-channel" ? 1 << 18 : 0);
    }

    static std::uint32_t auth_length(const slot& s)
    {
        return std::min<std::uint32_t>(le32toh(load<std::uint32_t>(s.command.data() + 44)),
                                       auth_dialog::message_size);
    }

    /// Gets the data of a fabrics command.
    void fetch(unsigned index, std::uint32_t length)
    {
        auto& s = slots_[index];
        if (s.command[39] != 0x01) {
            rdma(index, IBV_WR_RDMA_READ, length);
            return;
        }
        std::memcpy(s.data, s.capsule + command_size, length);
        fetched(index);
    }

    /// They are here: those of a Connect, or a message.
    void fetched(unsigned index)
    {
        auto& s = slots_[index];
        if (s.command[4] == 0x01) {
            auth_.connected(s.data);
            respond(index, 0, connect_result());
            return;
        }
        say("queue %u: the host %s", qid_, auth_.sent(s.data, auth_length(s)).c_str());
        respond(index);
        if (told.fault == (auth_.replied() ? "auth-drop" : "auth-leave"))
            leave();
    }

    void auth_receive(unsigned index)
    {
        auto& s = slots_[index];
        if (told.fault == "auth-silent")
            receive(index);
        else if (auth_.answer(s.data))
            respond_data(index, auth_length(s));
        else
            respond(index, 0x4002);
    }

    void identify_controller(std::uint8_t* to)
    {
        std::memset(to + 4, ' ', 20);
        std::memcpy(to + 4, told.serial.data(), std::min<std::size_t>(told.serial.size(), 20));
        std::memset(to + 24, ' ', 40);
        std::memcpy(to + 24, "hostile target", 14);
        std::memset(to + 64, ' ', 8);
        to[77] = static_cast<std::uint8_t>(told.mdts);
        store(to + 78, htole16(1));
        store(to + 80, htole32(0x20000));
        store(to + 92, htole32(told.fault == "events" ? 1 << 8 : 0)); // OAES: namespaces
        store(to + 96, htole32(told.traffic ? 1 << 6 : 0));
        to[111] = 1;
        if (told.floor_s)
            store(to + 320, htole16(1)); // KAS: in units of 100 ms
        if (!told.ana.empty()) {
            to[76] = 1 << 3; // CMIC: ANA
            to[342] = 4;     // ANATT, in seconds
            to[343] = 0x1f;  // ANACAP: all states
            store(to + 344, htole32(told.namespaces));
            store(to + 348, htole32(told.namespaces));
        }
        store(to + 514, htole16(static_cast<std::uint16_t>(told.entries)));
        store(to + 516, htole32(told.namespaces));
        if (told.picky) {
            store(to + 520, htole16(1 << 2 | 1 << 3)); // ONCS: Dataset Management, Write Zeroes
            store(to + 528, htole16(3));               // AWUPF: 2 KiB
        }
        to[525] = told.cacheless ? 0 : 1; // volatile write cache
        store(to + 536, htole32(1 << 2 | 1 << 20 | 1));
        store(to + 1792, htole32((command_size + told.capsule) / 16));
        store(to + 1796, htole32(1));
        to[1803] = 1;
    }

    /// The ANA log page: a group for each namespace, with its number, also if the host asked for groups only.
    void log_page(unsigned index)
    {
        auto& s = slots_[index];
        const auto dwords = le32toh(load<std::uint32_t>(s.command.data() + 40)) >> 16 |
                            (le32toh(load<std::uint32_t>(s.command.data() + 44)) & 0xffff) << 16;
        const auto length = std::min<std::uint32_t>((dwords + 1) * 4, 8192);
        std::memset(s.data, 0, 8192);
        if (s.command[40] == 0x0c && !told.ana.empty()) {
            store(s.data + 8, htole16(static_cast<std::uint16_t>(told.namespaces)));
            for (unsigned i = 0; i < told.namespaces; i++) {
                auto* group = s.data + 16 + i * 36;
                store(group, htole32(i + 1));
                store(group + 4, htole32(1));
                group[16] = static_cast<std::uint8_t>(ana());
                store(group + 32, htole32(i + 1));
            }
        }
        respond_data(index, length);
    }

    void admin(unsigned index, std::uint8_t opcode)
    {
        auto& s = slots_[index];
        if ((told.fault == "drop-identify" && opcode == 0x06) ||
            (told.fault == "drop-features" && opcode == 0x09)) {
            leave();
            return;
        }
        switch (opcode) {
        case 0x06:
            break;
        case 0x09: { // Set Features: as many queues as are wanted, or granted
            const auto wanted = le32toh(load<std::uint32_t>(s.command.data() + 44));
            const auto queues = std::min<std::uint32_t>(wanted & 0xffff, told.grant - 1);
            respond(index, 0, queues | queues << 16);
            return;
        }
        case 0x0c: // Asynchronous Event: only "events" has any
            event_request(index);
            return;
        case 0x08: // Abort
            say("asked to abort");
            respond(index, 0, aborts(s.command.data()) ? 0 : 1);
            return;
        case 0x02:
            if (told.fault == "events" && s.command[40] == 0x04)
                changed_log(index);
            else
                log_page(index);
            return;
        case 0x0a: // Get Features: the keep-alive timeout
            respond(index, 0, s.command[40] == 0x0f ? told.floor_s * 1000 : 0);
            return;
        default: // Keep Alive among them
            respond(index);
            return;
        }
        std::memset(s.data, 0, 4096);
        const auto cns = s.command[40];
        const auto nsid = le32toh(load<std::uint32_t>(s.command.data() + 4));
        // The second namespace cannot be identified, so many times.
        if (cns == 0 && nsid == 2 && once_more("sick")) {
            respond(index, 0x0006);
            return;
        }
        if (told.fault == "no-list" && cns == 2) {
            respond(index, 0x0006);
            return;
        }
        if (cns == 6 && told.limitless) {
            respond(index, 0x4002);
            return;
        }
        if (cns == 1)
            identify_controller(s.data);
        // The second namespace is listed, and does not exist, so many times.
        const bool absent = cns == 0 && nsid == 2 && once_more("absent");
        if (cns == 0 && !absent) {
            store(s.data, htole64(disk_size / block));
            store(s.data + 8, htole64(disk_size / block));
            s.data[130] = 9;
            if (!told.ana.empty())
                store(s.data + 92, htole32(nsid)); // ANAGRPID
        }
        if (cns == 0 && told.picky) {
            s.data[24] = 1 << 4;
            store(s.data + 46, htole16(512)); // NOIOB: 256 KiB
            store(s.data + 64, htole16(7));   // NPWG: 4 KiB
            store(s.data + 68, htole16(127)); // NPDG: 64 KiB
            store(s.data + 72, htole16(255)); // NOWS: 128 KiB
        }
        if (cns == 6 && told.picky) {
            s.data[1] = static_cast<std::uint8_t>(told.wzsl);
            store(s.data + 4, htole32(told.dmrsl));
        }
        if (cns == 2)
            for (unsigned i = nsid; i < told.namespaces; i++)
                store(s.data + 4 * (i - nsid), htole32(i + 1));
        if (cns == 3 && !told.anonymous) {
            s.data[0] = 3;
            s.data[1] = 16;
            std::memset(s.data + 4, static_cast<int>(0x76 + nsid), 16);
        }
        if ((told.fault == "wild-controller" && cns == 1) || (told.fault == "wild-namespace" && cns == 0) ||
            (told.fault == "wild-descriptors" && cns == 3)) {
            std::minstd_rand random(cns + 42);
            std::generate(s.data, s.data + 4096, [&] { return static_cast<std::uint8_t>(random()); });
        }
        if (told.fault == "endless-list" && cns == 2)
            for (unsigned i = 0; i < 1024; i++)
                store(s.data + 4 * i, htole32(1 + (i & 1)));
        if (told.fault == "long-list" && cns == 2)
            for (unsigned i = 0; i < 1024; i++)
                store(s.data + 4 * i, htole32(nsid + 1 + i));
        respond_data(index, 4096);
    }

    void io(unsigned index, std::uint8_t opcode)
    {
        auto& s = slots_[index];
        const auto offset = offset_of(s);
        const std::uint64_t length = (le16toh(load<std::uint16_t>(s.command.data() + 48)) + 1ULL) * block;
        if (const auto state = ana(); state > 2) {
            respond(index, state == 3 ? 0x302 : state == 15 ? 0x303 : 0x301);
            return;
        }
        if (clock_type::now() < paused_until) {
            paused.emplace_back(this, index);
            return;
        }
        if (deaf_to && address(rdma_get_peer_addr(id_)) == deaf_to) {
            receive(index);
            return;
        }
        io_commands += armed;
        if (due("pause")) {
            paused_until = clock_type::now() + std::chrono::seconds(told.keep_s);
            paused.emplace_back(this, index);
            return;
        }
        if (due("reset"))
            reset_until = clock_type::now() + std::chrono::seconds(told.keep_s);
        if (clock_type::now() < reset_until) {
            respond(index, passing_status());
            return;
        }
        if (opcode != 0 && due("stuck")) {
            s.stuck = true;
            return;
        }
        if (due("silence")) {
            receive(index);
            return;
        }
        if (due("vanish")) {
            leave();
            return;
        }
        if (opcode == 0x00) { // Flush: everything is as durable as it gets
            respond(index);
            return;
        }
        if (opcode == 0x08 && told.picky && length <= 4096ULL << told.wzsl) { // Write Zeroes
            clear(index, offset, length);
            return;
        }
        if (opcode == deallocate && told.picky) {
            take(index, range_size);
            return;
        }
        if ((opcode != 0x01 && opcode != 0x02) || offset + length > disk_size || length > data_size) {
            respond(index, 0x4002);
            return;
        }
        if (opcode == 0x02 && told.fault == "host-abort" && offset == host_abort_at) {
            respond(index, 0x371); // what a host says of a command that it gave up
            return;
        }
        if (opcode == 0x02) {
            if (told.fault == "more" && fault_done && offset == more_at)
                say("asked once more for what it had");
            std::memcpy(s.data, disk.data() + offset, length);
            const bool record = armed && offset == owner_at && length == owner_size;
            // The owner record was read, it says, and sends nothing.
            if (record && told.fault == "empty-owner") {
                respond(index);
                return;
            }
            // So many heartbeats in a row read a record with a wrong bit.
            if (record && once_more("torn"))
                s.data[100] ^= 1;
            // More than was asked for: the registration must end where the request does.
            if (due("long-data"))
                rdma(index, IBV_WR_RDMA_WRITE, static_cast<std::uint32_t>(length) + 4096);
            else if (due("early-response"))
                respond(index); // and the data after it, by a key that is gone
            rdma(index, IBV_WR_RDMA_WRITE, static_cast<std::uint32_t>(length));
            if (due("more")) {
                more_at = offset;
                respond(index, 0x2000); // success, and there is more to say
                return;
            }
            if (auto* other = told.fault == "foreign-key" && s.command[39] == 0x4f ? neighbour() : nullptr;
                other && due("foreign-key")) {
                other->trespass(*this, index); // and the response after it
                return;
            }
            if (told.fault == "early-response" && fault_done) {
                told.fault = "none";
                return;
            }
            respond(index);
        } else {
            take(index, static_cast<std::uint32_t>(length));
        }
    }

    /// Gets the data of a write, or the range of a Deallocate.
    void take(unsigned index, std::uint32_t length)
    {
        auto& s = slots_[index];
        if (s.command[39] != 0x01) {
            rdma(index, IBV_WR_RDMA_READ, length);
            return;
        }
        std::memcpy(s.data, s.capsule + command_size, std::min<std::uint32_t>(length, inline_size));
        written(index);
    }

    /// Keeps what is executed later, and gives no answer.
    void withhold(std::uint64_t offset, std::vector<std::uint8_t> data)
    {
        const auto due = clock_type::now() + std::chrono::seconds(told.keep_s);
        say("withheld a write of %llu bytes at %llu, and %s; it is due at %.3f s",
            static_cast<unsigned long long>(data.size()), static_cast<unsigned long long>(offset),
            told.stays ? "silent" : "gone", std::chrono::duration<double>(due.time_since_epoch()).count());
        late.push_back({offset, std::move(data), due});
        if (told.deaf)
            deaf_to = address(rdma_get_peer_addr(id_));
        if (!told.stays)
            leave();
    }

    /// A Write Zeroes, or a Deallocate, after which zeroes are read, too.
    void clear(unsigned index, std::uint64_t offset, std::uint64_t length)
    {
        if (offset > disk_size || length > disk_size - offset) {
            respond(index, 0x4002);
            return;
        }
        if (length >= 65536 && due("late-zeroes")) {
            withhold(offset, std::vector<std::uint8_t>(length));
            return;
        }
        std::memset(disk.data() + offset, 0, length);
        if (told.fault == "late-zeroes" && fault_done)
            say("cleared %llu bytes at %llu", static_cast<unsigned long long>(length),
                static_cast<unsigned long long>(offset));
        respond(index);
    }

    /// The last connection that the host made to another address; that is another controller of its.
    connection* neighbour();
    /// Ends the command that an Abort names. Returns false if it is not known.
    static bool aborts(const std::uint8_t* command);

    static void say_record(const char* what, const std::uint8_t* record)
    {
        if (told.fault == "late-owner")
            say("%s owner record %llu", what,
                static_cast<unsigned long long>(le64toh(load<std::uint64_t>(record + owner_sequence))));
    }

    /// The data of a write are here, or the range of a Deallocate.
    void written(unsigned index)
    {
        auto& s = slots_[index];
        if (s.command[0] == deallocate) {
            clear(index, le64toh(load<std::uint64_t>(s.data + 8)) * block,
                  le32toh(load<std::uint32_t>(s.data + 4)) * std::uint64_t{block});
            return;
        }
        const auto offset = offset_of(s);
        const std::uint64_t length = (le16toh(load<std::uint16_t>(s.command.data() + 48)) + 1ULL) * block;
        // The twentieth of the writes that the test numbers by their bytes; a heartbeat or a claim.
        if ((length >= 65536 && s.data[0] == 20 && due("late-write")) ||
            (offset == owner_at && due("late-owner"))) {
            withhold(offset, {s.data, s.data + length});
            say_record("withheld", s.data);
            return;
        }
        if (told.refuse && fault_done && length >= 65536 && s.data[0] == 20) {
            say("refused %llu bytes at %llu", static_cast<unsigned long long>(length),
                static_cast<unsigned long long>(offset));
            respond(index, 0x4280); // write fault, do not retry
            return;
        }
        std::memcpy(disk.data() + offset, s.data, length);
        if (offset == owner_at)
            say_record("wrote", s.data);
        if (told.fault == "late-write" && fault_done && length >= 4096)
            say("wrote %llu bytes at %llu, first byte 0x%02x", static_cast<unsigned long long>(length),
                static_cast<unsigned long long>(offset), s.data[0]);
        respond(index);
    }

    rdma_cm_id* id_;
    std::uint16_t qid_;
    ibv_pd* pd_ = nullptr;
    ibv_cq* cq_ = nullptr;
    ibv_mr* mr_ = nullptr;
    std::size_t each_ = 0;
    std::uint32_t owner_key_ = 0; ///< by which the owner record was read last
    pages memory_;
    std::vector<slot> slots_;
    connection* owner_ = nullptr;
    auth_dialog auth_{told.fault, known};
    bool established_ = false;
    bool leaving_ = false;
    bool enabled_ = false;
    bool shut_ = false;
    bool changed_ = false;      ///< what the host was not told
    bool event_asked_ = false;  ///< an Asynchronous Event Request waits in event_slot_
    bool event_masked_ = false; ///< until the log is read
    unsigned event_slot_ = 0;
    clock_type::time_point shut_at_{}; ///< when it is shut down
};

std::map<rdma_cm_id*, std::unique_ptr<connection>> connections;

connection* connection::neighbour()
{
    const auto own = [](rdma_cm_id* id) { return address(rdma_get_local_addr(id)); };
    connection* found = nullptr;
    for (auto& [id, link] : connections)
        if (link->qid() && own(id) != own(id_) && (!found || link->qid() > found->qid()))
            found = link.get();
    return found;
}

bool connection::aborts(const std::uint8_t* command)
{
    const auto qid = le16toh(load<std::uint16_t>(command + 40));
    const auto id = load<std::uint16_t>(command + 42);
    return std::any_of(connections.begin(), connections.end(),
                       [&](auto& one) { return one.second->abort(qid, id); });
}

void end_pause()
{
    if (paused_until == clock_type::time_point{} || clock_type::now() < paused_until)
        return;
    paused_until = {};
    say("served again");
    for (auto waiting = std::move(paused); !waiting.empty(); waiting.pop_front())
        waiting.front().first->resume(waiting.front().second);
}

void rotate_ana()
{
    if (!rotate || told.ana.empty())
        return;
    rotate = 0;
    std::rotate(told.ana.begin(), told.ana.begin() + 1, told.ana.end());
    say("the ANA states have changed");
}

void hear()
{
    if (!rotate || !deaf_to)
        return;
    rotate = 0;
    deaf_to = 0;
    say("all hosts are served");
}

/// There is one namespace more.
void announce()
{
    if (!rotate || told.fault != "events")
        return;
    rotate = 0;
    told.namespaces++;
    say("%u namespaces", told.namespaces);
    for (auto& [id, link] : connections)
        link->changed();
}

/// Returns whether the connection's id is still of use.
bool requested(const rdma_cm_event& event)
{
    const auto& param = event.param.conn;
    std::uint16_t qid = 0;
    if (param.private_data && param.private_data_len >= 4)
        qid = le16toh(load<std::uint16_t>(static_cast<const std::uint8_t*>(param.private_data) + 2));
    if (told.fault == "no-answer" && !fault_done) {
        say("a connection that is never answered");
        return true;
    }
    // "few": it grants queues that it then has no room for.
    if ((told.fault == "reject" && !fault_done) || (told.fault == "few" && qid > told.at) ||
        (deaf_to && address(rdma_get_peer_addr(event.id)) == deaf_to)) {
        const std::uint16_t reject[2] = {0, htole16(0x06)};
        rdma_reject(event.id, reject, sizeof(reject));
        return true;
    }
    std::unique_ptr<connection> made;
    try {
        made = std::make_unique<connection>(event.id, qid);
    } catch (const std::system_error& error) {
        say("a host that no longer waits: %s", error.what());
        return false;
    }
    const std::uint16_t reply[16] = {0, htole16(depth)};
    rdma_conn_param accept{};
    accept.private_data = reply;
    accept.private_data_len = sizeof(reply);
    accept.responder_resources = param.responder_resources;
    accept.initiator_depth = param.initiator_depth;
    accept.rnr_retry_count = 7;
    if (rdma_accept(event.id, &accept))
        say("accept: %s", std::strerror(errno));
    connections[event.id] = std::move(made);
    return true;
}

void handle_events(rdma_event_channel* channel)
{
    rdma_cm_event* event = nullptr;
    while (!rdma_get_cm_event(channel, &event)) {
        const auto copy = *event;
        const bool of_use = copy.event != RDMA_CM_EVENT_CONNECT_REQUEST || requested(*event);
        rdma_ack_cm_event(event);
        if (!of_use)
            rdma_destroy_id(copy.id);
        switch (copy.event) {
        case RDMA_CM_EVENT_ESTABLISHED:
            if (auto made = connections.find(copy.id); made != connections.end())
                made->second->establish();
            break;
        case RDMA_CM_EVENT_CONNECT_ERROR:
        case RDMA_CM_EVENT_UNREACHABLE:
        case RDMA_CM_EVENT_REJECTED:
        case RDMA_CM_EVENT_DISCONNECTED:
        case RDMA_CM_EVENT_TIMEWAIT_EXIT:
            rdma_disconnect(copy.id);
            if (auto ended = connections.find(copy.id); ended != connections.end())
                ended->second->end_trespass();
            connections.erase(copy.id);
            break;
        default:
            break;
        }
    }
}

/// Completions that come after this wake the target again. The queues are polled afterwards.
void arm()
{
    ibv_cq* cq = nullptr;
    void* context = nullptr;
    while (completions && !ibv_get_cq_event(completions, &cq, &context)) {
        ibv_ack_cq_events(cq, 1);
        ibv_req_notify_cq(cq, 0);
    }
}

void execute_late()
{
    for (auto write = late.begin(); write != late.end();) {
        if (clock_type::now() < write->when) {
            ++write;
            continue;
        }
        std::memcpy(disk.data() + write->offset, write->data.data(), write->data.size());
        say("executed the withheld write, first byte 0x%02x", write->data[0]);
        write = late.erase(write);
    }
}

void listen_on(rdma_event_channel* channel, const std::string& address)
{
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_port = htons(static_cast<std::uint16_t>(told.port));
    rdma_cm_id* id = nullptr;
    if (inet_pton(AF_INET, address.c_str(), &at.sin_addr) != 1 ||
        rdma_create_id(channel, &id, nullptr, RDMA_PS_TCP) ||
        rdma_bind_addr(id, reinterpret_cast<sockaddr*>(&at)) || rdma_listen(id, 64))
        die(address.c_str());
}

} // namespace

int main(int argc, char** argv)
{
    if (!told.parse(argc, argv) || !known.read(told.host_secret, told.ctrl_secret))
        return 2;
    known.dh = told.dh;
    armed = !told.unarmed;
    auto* channel = rdma_create_event_channel();
    if (!channel || fcntl(channel->fd, F_SETFL, O_NONBLOCK))
        die("event channel");
    for (const auto& address : told.addresses)
        listen_on(channel, address);
    std::signal(SIGUSR1, [](int) { rotate = 1; });
    std::signal(SIGUSR2, [](int) { armed = 1; });
    say("listening");
    for (;;) {
        handle_events(channel);
        // Before what came later, also after a moment in which this process stood still.
        execute_late();
        arm();
        bool busy = false;
        for (auto& [id, link] : connections)
            busy |= link->poll();
        end_pause();
        rotate_ana();
        announce();
        hear();
        if (!busy) {
            pollfd wait[2] = {{channel->fd, POLLIN, 0}, {completions ? completions->fd : -1, POLLIN, 0}};
            ::poll(wait, 2, 100); // a pause, a withheld write or a signal may be due
        }
    }
}
