// SPDX-License-Identifier: GPL-2.0-only
#include "fabrics.hpp"

#include "device.hpp"
#include "host.hpp"
#include "netlink.hpp"
#include "process.hpp"
#include "sysfile.hpp"
#include "tls.hpp"
#include "waiting.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <libnvme.h>
#include <memory>
#include <syslog.h>
#include <thread>
#include <uuid/uuid.h>

namespace weft
{

namespace fs = std::filesystem;

namespace
{

constexpr auto namespace_wait = std::chrono::seconds(10);

/// libnvme's tree. The library's own output is dropped: the reason is in errno and is reported in
/// one line.
class nvme_tree
{
public:
    nvme_tree() : log_(std::fopen("/dev/null", "we")), root_(log_ ? nvme_create_root(log_, LOG_ERR) : nullptr)
    {
    }
    nvme_tree(const nvme_tree&) = delete;
    nvme_tree& operator=(const nvme_tree&) = delete;
    ~nvme_tree()
    {
        if (root_)
            nvme_free_tree(root_);
        if (log_)
            std::fclose(log_);
    }
    [[nodiscard]] nvme_root_t get() const { return root_; }
    [[nodiscard]] explicit operator bool() const { return root_; }

    /// The reason why the last call failed, as a sentence.
    [[nodiscard]] std::string why(int errnum) const
    {
        switch (errnum) {
        case ECONNREFUSED:
        case ENVME_CONNECT_CONNREFUSED:
            return "connection refused: no listener at that address, or the target rejects this host";
        case ECONNRESET:
            return "the target ended the connection: it uses another transport, requires TLS "
                   "(--tls-key-file), or is overloaded";
        case ETIMEDOUT:
            return "no answer in time; check the address, and firewalls on the path";
        case EHOSTUNREACH:
        case ENETUNREACH:
        case EADDRNOTAVAIL:
            return "there is no route to that address from this host (for rdma: no RDMA device reaches it)";
        case ENVME_CONNECT_WRITE:
            return "no target listens at that address, or it rejects this host: 'dmesg' has the kernel's "
                   "reason";
        default:
            break;
        }
        const char* text = nvme_errno_to_string(errnum);
        return text ? text : std::strerror(errnum);
    }

private:
    std::FILE* log_;
    nvme_root_t root_;
};

struct controller_deleter {
    void operator()(nvme_ctrl* controller) const { nvme_free_ctrl(controller); }
};
using controller = std::unique_ptr<nvme_ctrl, controller_deleter>;

nvme_fabrics_config config_of(const connect_options& options)
{
    nvme_fabrics_config config;
    nvmf_default_config(&config);
    if (options.queues)
        config.nr_io_queues = *options.queues;
    if (options.queue_depth)
        config.queue_size = *options.queue_depth;
    if (options.keep_alive)
        config.keep_alive_tmo = *options.keep_alive;
    if (options.reconnect_delay)
        config.reconnect_delay = *options.reconnect_delay;
    if (options.ctrl_loss_timeout)
        config.ctrl_loss_tmo = *options.ctrl_loss_timeout;
    if (options.fast_io_fail_timeout)
        config.fast_io_fail_tmo = *options.fast_io_fail_timeout;
    if (options.tos)
        config.tos = *options.tos;
    return config;
}

/// The identity of this host for targets: NQN and id.
struct host_identity {
    std::string nqn;
    std::string id;
};

result<host_identity> identity_of(const connect_options& options)
{
    auto nqn = options.host_nqn.empty() ? host_nqn() : result<std::string>(options.host_nqn);
    if (!nqn)
        return std::unexpected(nqn.error());
    auto id = options.host_id.empty() ? read_text("/etc/nvme/hostid").value_or("") : options.host_id;
    // NQN and id have to name the same host: without a file, use the UUID in the NQN as the id.
    if (const auto uuid = nqn->find("uuid:"); id.empty() && uuid != std::string::npos)
        id = nqn->substr(uuid + 5);
    return host_identity{std::move(*nqn), std::move(id)};
}

result<nvme_host_t> host_of(const nvme_tree& tree, const connect_options& options)
{
    const auto identity = identity_of(options);
    if (!identity)
        return std::unexpected(identity.error());
    auto* host = nvme_lookup_host(tree.get(), identity->nqn.c_str(),
                                  identity->id.empty() ? nullptr : identity->id.c_str());
    if (!host)
        return fail(exit_code::usage, "the host NQN '{}' cannot be used", identity->nqn);
    return host;
}

/// The file that the user names; without a name the usual one, if it is there.
std::string or_usual(const std::string& file, const char* usual)
{
    std::error_code ignored;
    return file.empty() && fs::exists(usual, ignored) ? usual : file;
}

result<dhchap_secrets> secrets_of(const connect_options& options)
{
    auto secrets = read_dhchap_secrets(or_usual(options.dhchap_secret_file, usual_dhchap_secret),
                                       or_usual(options.dhchap_ctrl_secret_file, usual_dhchap_ctrl_secret));
    if (secrets && secrets->ctrl && !secrets->host)
        return fail(exit_code::usage, "--dhchap-ctrl-secret-file needs this host's own secret, too: "
                                      "--dhchap-secret-file");
    return secrets;
}

/// The target finds the same key by the same two names.
result<tls_change> give_tls_key(const std::string& file, const std::string& host_nqn,
                                const std::string& subnqn)
{
    const auto key = read_tls_key(file);
    if (!key)
        return std::unexpected(key.error());
    return tls_change::insert(*key, {host_nqn, subnqn});
}

result<void> check_tls(const nvme_address& at, const connect_options& options)
{
    if (options.tls_key_file.empty() || at.transport == "tcp")
        return {};
    return fail(exit_code::usage, "{} cannot be encrypted: TLS is for tcp", at.text());
}

/// Connects with weft's own initiator. The disks exist when this returns.
result<std::string> create_own(const nvme_address& at, const std::string& subnqn,
                               const connect_options& options)
{
    const auto identity = identity_of(options);
    if (!identity)
        return std::unexpected(identity.error());
    if (!options.host_interface.empty())
        return fail(exit_code::usage, "--host-interface is for tcp; use --host-address for rdma");
    controller_request request;
    uuid_t id;
    if (uuid_parse(identity->id.c_str(), id))
        return fail(exit_code::usage, "the host id '{}' is not a UUID", identity->id);
    std::copy(std::begin(id), std::end(id), request.host_id.begin());
    request.transport = at.transport;
    request.subnqn = subnqn;
    request.host_nqn = identity->nqn;
    request.address = at.address;
    request.service = std::to_string(at.port);
    request.host_address = options.host_address;
    request.io_queues = static_cast<std::uint32_t>(options.queues.value_or(0));
    request.poll_queues = static_cast<std::uint32_t>(options.poll_queues.value_or(0));
    request.queue_size = static_cast<std::uint32_t>(options.queue_depth.value_or(0));
    request.keep_alive = static_cast<std::uint32_t>(options.keep_alive.value_or(0));
    request.reconnect_delay = static_cast<std::uint32_t>(options.reconnect_delay.value_or(0));
    request.ctrl_loss_timeout = options.ctrl_loss_timeout;
    request.fast_io_fail_timeout = options.fast_io_fail_timeout;
    request.tos = options.tos;
    request.background_tos = options.background_tos;
    auto secrets = secrets_of(options);
    if (!secrets)
        return std::unexpected(secrets.error());
    request.secrets = std::move(*secrets);
    auto kernel = netlink::open();
    if (!kernel)
        return std::unexpected(kernel.error());
    auto name = kernel->create_controller(request);
    if (!name)
        return fail(name.error().code, "{}/{} cannot be connected: {}", at.text(), subnqn, name.error().text);
    return name;
}

const char* or_null(const std::string& text)
{
    return text.empty() ? nullptr : text.c_str();
}

/// The stock host shows the secrets of a controller to all users, until this hides them.
result<void> hide_secrets(nvme_ctrl_t ctrl, const dhchap_secrets& secrets)
{
    const auto folder = fs::path("/sys/class/nvme") / nvme_ctrl_get_name(ctrl);
    for (const auto& [given, name] : {std::pair(secrets.host.has_value(), "dhchap_secret"),
                                      std::pair(secrets.ctrl.has_value(), "dhchap_ctrl_secret")})
        if (auto hidden = given ? hide_attribute(folder / name) : result<void>(); !hidden)
            return hidden;
    return {};
}

/// A controller that is connected in the kernel: its name in `controller`.
result<controller> add_controller(const nvme_tree& tree, const nvme_address& at, const std::string& subnqn,
                                  const connect_options& options, int& errnum)
{
    if (!tree)
        return fail(exit_code::failure, "libnvme cannot start: {}", std::strerror(errno));
    if (auto loaded = load_module("nvme-" + at.transport); !loaded)
        return std::unexpected(loaded.error());
    auto host = host_of(tree, options);
    if (!host)
        return std::unexpected(host.error());
    controller made(nvme_create_ctrl(tree.get(), subnqn.c_str(), at.transport.c_str(), at.address.c_str(),
                                     or_null(options.host_address), or_null(options.host_interface),
                                     std::to_string(at.port).c_str()));
    if (!made)
        return fail(exit_code::failure, "libnvme cannot describe {}: {}", at.text(), std::strerror(errno));
    const auto secrets = secrets_of(options);
    if (!secrets)
        return std::unexpected(secrets.error());
    if (secrets->host)
        nvme_host_set_dhchap_key(*host, secrets->host->text().c_str());
    if (secrets->ctrl)
        nvme_ctrl_set_dhchap_key(made.get(), secrets->ctrl->text().c_str());
    auto config = config_of(options);
    config.tls = !options.tls_key_file.empty();
    tls_change key;
    if (config.tls) {
        auto given = give_tls_key(options.tls_key_file, nvme_host_get_hostnqn(*host), subnqn);
        if (!given)
            return std::unexpected(given.error());
        key = std::move(*given);
    }
    errno = 0;
    if (nvmf_add_ctrl(*host, made.get(), &config)) {
        errnum = errno;
        return config.tls
                   ? fail(exit_code::failure, "{}/{} cannot be connected: {}", at.text(), subnqn, tls_needs)
                   : fail(exit_code::failure, "{}/{} cannot be connected: {}", at.text(), subnqn,
                          tree.why(errnum));
    }
    key.keep();
    if (const auto hidden = hide_secrets(made.get(), *secrets); !hidden) {
        nvme_disconnect_ctrl(made.get());
        return std::unexpected(hidden.error());
    }
    return made;
}

std::string fixed_text(const char* text, std::size_t size)
{
    std::string out(text, strnlen(text, size));
    out.erase(out.find_last_not_of(' ') + 1);
    return out;
}

// "nvme3n1" and "weft-rdma0n1"; not "nvme3c1n1", which is a path of a disk with several.
bool is_disk(const std::string& name)
{
    return is_own_disk(name) ||
           (name.rfind("nvme", 0) == 0 && name.find('n', 4) != std::string::npos &&
            name.find('c', 4) == std::string::npos && name.find('p', 4) == std::string::npos);
}

void add_disks(const fs::path& folder, std::vector<std::string>& disks)
{
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(folder, ignored)) {
        const auto name = entry.path().filename().string();
        const auto disk = "/dev/" + name;
        if (is_disk(name) && std::find(disks.begin(), disks.end(), disk) == disks.end())
            disks.push_back(disk);
    }
}

// The controllers of an initiator over fabrics, and for each the subsystem folder its disks are in.
void scan_class(const fs::path& folder, const std::string& initiator, std::vector<connection>& found)
{
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(folder, ignored)) {
        connection link;
        link.initiator = initiator;
        link.controller = entry.path().filename();
        link.at.transport = read_text(entry.path() / "transport").value_or("");
        if (link.at.transport != "rdma" && link.at.transport != "tcp")
            continue;
        const auto address = read_text(entry.path() / "address").value_or("");
        link.at.address = usual_address(address_field(address, "traddr"));
        link.host_address = address_field(address, "host_traddr");
        link.host_interface = address_field(address, "host_iface");
        link.at.port =
            static_cast<std::uint16_t>(std::strtoul(address_field(address, "trsvcid").c_str(), nullptr, 10));
        link.subnqn = read_text(entry.path() / "subsysnqn").value_or("");
        link.state = read_text(entry.path() / "state").value_or("");
        add_disks(entry.path(), link.disks);
        for (const auto& subsystem : fs::directory_iterator("/sys/class/nvme-subsystem", ignored))
            if (fs::exists(subsystem.path() / link.controller, ignored))
                add_disks(subsystem.path(), link.disks);
        std::sort(link.disks.begin(), link.disks.end());
        found.push_back(std::move(link));
    }
}

std::vector<connection> scan()
{
    std::vector<connection> found;
    scan_class("/sys/class/nvme", "nvme", found);
    scan_class("/sys/class/weft-rdma", "weft", found);
    std::sort(found.begin(), found.end(),
              [](const auto& one, const auto& other) { return one.controller < other.controller; });
    return found;
}

/// The properties by which a connection is found again.
struct connection_search {
    const nvme_address& at;
    const std::string& subnqn;
    const std::string& initiator;
    const connect_options& options;
    path_match match;
};

std::optional<connection> find_connection(const connection_search& search)
{
    const auto fits = [&](const std::string& wanted, const std::string& has) {
        return wanted == has || (search.match == path_match::any && wanted.empty());
    };
    for (auto& link : scan())
        if (link.at == search.at && link.subnqn == search.subnqn && link.initiator == search.initiator &&
            fits(search.options.host_address, link.host_address) &&
            fits(search.options.host_interface, link.host_interface))
            return link;
    return std::nullopt;
}

/// If a user requests encryption, no path of the disk may be without it.
result<void> check_encrypted(const std::string& subnqn, const connect_options& options)
{
    if (options.tls_key_file.empty())
        return {};
    for (const auto& link : scan())
        if (link.initiator == "nvme" && link.subnqn == subnqn && !is_encrypted(link))
            return fail(exit_code::busy,
                        "{} is connected without TLS, and is a path of the same disk: "
                        "'weftctl disconnect {}' first",
                        link.controller, link.controller);
    return {};
}

/// A key that the user names is that of the next connection of a controller that has TLS already.
result<void> renew_tls_key(const connection& link, const connect_options& options)
{
    if (options.tls_key_file.empty())
        return {};
    const auto host_nqn = read_text(fs::path("/sys/class/nvme") / link.controller / "hostnqn");
    if (!host_nqn)
        return fail(exit_code::missing, "{} is gone", link.controller);
    auto given = give_tls_key(options.tls_key_file, *host_nqn, link.subnqn);
    if (!given)
        return std::unexpected(given.error());
    given->keep();
    return {};
}

/// Secrets that the user names are those of the next authentication of a controller that is connected
/// already.
result<void> renew_secrets(const connection& link, const connect_options& options)
{
    if (auto done = renew_tls_key(link, options); !done)
        return done;
    if (options.dhchap_secret_file.empty() && options.dhchap_ctrl_secret_file.empty())
        return {};
    if (link.initiator != "weft")
        return fail(
            exit_code::usage,
            "{} is connected by the stock host, which accepts a secret only at connect: disconnect it first",
            link.controller);
    // Secrets that are not named stay as the kernel has them.
    const auto secrets = read_dhchap_secrets(options.dhchap_secret_file, options.dhchap_ctrl_secret_file);
    if (!secrets)
        return std::unexpected(secrets.error());
    auto kernel = netlink::open();
    if (!kernel)
        return std::unexpected(kernel.error());
    return kernel->set_secrets(link.at.transport, link.controller, *secrets);
}

} // namespace

std::vector<connection> connections()
{
    return scan();
}

struct discovery_service::state {
    nvme_address at;
    nvme_tree tree;
    controller link; ///< of the tree

    state() = default;
    state(const state&) = delete;
    state& operator=(const state&) = delete;
    ~state()
    {
        if (link)
            nvme_disconnect_ctrl(link.get());
    }
};

discovery_service::discovery_service(std::unique_ptr<state> opened) : state_(std::move(opened)) {}
discovery_service::discovery_service(discovery_service&& other) noexcept = default;
discovery_service& discovery_service::operator=(discovery_service&& other) noexcept = default;
discovery_service::~discovery_service() = default;

result<discovery_service> discovery_service::open(const nvme_address& at, const connect_options& options,
                                                  bool persistent)
{
    auto opened = std::make_unique<state>();
    opened->at = at;
    if (auto good = check_tls(at, options); !good)
        return std::unexpected(good.error());
    auto wanted = options;
    // NVMe over Fabrics: a discovery controller is persistent if it has a keep-alive timeout.
    if (persistent && !wanted.keep_alive)
        wanted.keep_alive = 30;
    if (persistent && !wanted.ctrl_loss_timeout)
        wanted.ctrl_loss_timeout = -1;
    const waiting telling(fmt::format("connecting to the discovery service at {}", at.text()));
    int errnum = 0;
    auto link = add_controller(opened->tree, at, discovery_nqn, wanted, errnum);
    if (!link)
        return std::unexpected(link.error());
    opened->link = std::move(*link);
    return discovery_service(std::move(opened));
}

std::string discovery_service::device() const
{
    const auto* name = nvme_ctrl_get_name(state_->link.get());
    return name ? name : "";
}

result<std::vector<discovered>> discovery_service::ask(unsigned int& left_out) const
{
    const waiting telling(
        fmt::format("waiting for the answer of the discovery service at {}", state_->at.text()));
    nvmf_discovery_log* raw = nullptr;
    errno = 0;
    const int failed = nvmf_get_discovery_log(state_->link.get(), &raw, 10);
    const int errnum = errno;
    const std::unique_ptr<nvmf_discovery_log, decltype(&std::free)> log(raw, &std::free);
    if (failed || !log)
        return fail(exit_code::failure, "{} does not return its discovery log: {}", state_->at.text(),
                    state_->tree.why(errnum));

    std::vector<discovered> found;
    for (std::uint64_t i = 0; i < le64toh(log->numrec); i++) {
        const auto& entry = log->entries[i];
        // The discovery service also lists itself (NVMe base specification, 5.1.12.3.2: subtype 3).
        if ((entry.trtype != NVMF_TRTYPE_RDMA && entry.trtype != NVMF_TRTYPE_TCP) ||
            entry.subtype == NVME_NQN_CURR)
            continue;
        discovered row;
        row.at.transport = entry.trtype == NVMF_TRTYPE_RDMA ? "rdma" : "tcp";
        row.at.address = usual_address(fixed_text(entry.traddr, sizeof(entry.traddr)));
        row.at.port = static_cast<std::uint16_t>(
            std::strtoul(fixed_text(entry.trsvcid, sizeof(entry.trsvcid)).c_str(), nullptr, 10));
        row.subnqn = fixed_text(entry.subnqn, sizeof(entry.subnqn));
        row.discovery = entry.subtype != NVME_NQN_NVME;
        // Users give this output to a shell: blanks in an answer would become words of a command.
        if (check_address(row.at.address) && (row.discovery || check_nqn(row.subnqn)))
            found.push_back(std::move(row));
        else
            left_out++;
    }
    return found;
}

result<connection> connect(const nvme_address& at, const std::string& subnqn, const connect_options& options,
                           path_match match)
{
    const std::string initiator = !options.initiator.empty() ? options.initiator
                                  : at.transport == "rdma"   ? "weft"
                                                             : "nvme";
    if (initiator == "weft" && at.transport != "rdma")
        return fail(exit_code::usage, "weft's own initiator is for rdma; {} is connected by the stock host",
                    at.transport);
    if (initiator != "weft" && options.background_tos)
        return fail(exit_code::usage, "--background-tos needs weft's own initiator, and {} uses another one",
                    at.text());
    if (auto good = check_tls(at, options); !good)
        return std::unexpected(good.error());
    const connection_search search{at, subnqn, initiator, options, match};
    if (auto good = check_encrypted(subnqn, options); !good)
        return std::unexpected(good.error());
    if (auto known = find_connection(search)) {
        if (auto done = renew_secrets(*known, options); !done)
            return std::unexpected(done.error());
        return *known;
    }
    const waiting telling(fmt::format("connecting to {}/{}", at.text(), subnqn));
    const nvme_tree tree;
    int errnum = 0;
    result<void> done;
    if (initiator == "weft") {
        if (auto name = create_own(at, subnqn, options); !name)
            done = std::unexpected(name.error());
    } else if (auto made = add_controller(tree, at, subnqn, options, errnum); !made) {
        done = std::unexpected(made.error());
    }
    if (!done) {
        // Another command has connected it meanwhile; or the kernel has, and a signal came before its answer.
        if (auto known = find_connection(search); known && check_encrypted(subnqn, options)) {
            known->made = initiator == "weft" && a_signal_came();
            return *known;
        }
        return std::unexpected(done.error());
    }
    auto link = find_connection(search);
    if (!link)
        return fail(exit_code::failure, "{}/{} was connected and is gone again; 'dmesg' says why", at.text(),
                    subnqn);
    if (auto good = check_encrypted(subnqn, options); !good)
        return std::unexpected(good.error());
    link->made = true;
    return *link;
}

proven authentication_of(const connection& link)
{
    if (link.initiator == "weft") {
        const auto text =
            read_text(fs::path("/sys/class/weft-rdma") / link.controller / "authentication").value_or("none");
        return {text != "none", text.ends_with(" mutual")};
    }
    const auto has = [&](const char* name) {
        const auto text = read_text(fs::path("/sys/class/nvme") / link.controller / name).value_or("none");
        return !text.empty() && text != "none";
    };
    return {has("dhchap_secret") || has("dhchap_ctrl_secret"), has("dhchap_ctrl_secret")};
}

bool is_encrypted(const connection& link)
{
    // The kernel shows the key's number; none while it connects again. Linux 6.7 to 6.11 have an empty file
    // without TLS, too.
    std::error_code ignored;
    const auto folder = fs::path("/sys/class/nvme") / link.controller;
    return !read_text(folder / "tls_key").value_or("").empty() || fs::exists(folder / "tls_mode", ignored);
}

std::optional<connection> current(const connection& link)
{
    for (auto& now : scan())
        if (now.controller == link.controller && now.at == link.at && now.subnqn == link.subnqn)
            return now;
    return std::nullopt;
}

bool is_reached_by(const connection& link, const std::string& uri)
{
    if (!is_uri(uri))
        return false;
    const auto parsed = parse_member_uri(uri);
    return parsed && parsed->at == link.at && parsed->subnqn == link.subnqn;
}

std::optional<std::uint32_t> disk_nsid(const std::string& name)
{
    return read_number<std::uint32_t>(fs::path("/sys/class/block") / name / "nsid");
}

std::optional<std::string> claimed_disk(const connection& link)
{
    const auto now = current(link);
    for (const auto& disk : now ? now->disks : std::vector<std::string>())
        if (is_claimed(disk))
            return disk;
    return std::nullopt;
}

result<void> disconnect(const connection& link)
{
    if (!current(link))
        return {};
    const waiting telling(fmt::format("disconnecting {}", link.controller));
    if (link.initiator == "weft") {
        auto kernel = netlink::open();
        if (!kernel)
            return std::unexpected(kernel.error());
        return kernel->delete_controller(link.at.transport, link.controller);
    }
    const int err = write_attribute(fs::path("/sys/class/nvme") / link.controller / "delete_controller", "1");
    if (err && err != -ENOENT && err != -ENODEV)
        return fail(exit_code_of(-err), "{} cannot be disconnected: {}", link.controller,
                    std::strerror(-err));
    return {};
}

result<std::string> namespace_disk(const connection& of, const member_uri& uri)
{
    const auto deadline = std::chrono::steady_clock::now() + namespace_wait;
    const waiting telling(fmt::format("waiting for the disk of {}", uri.text()));
    std::error_code ignored;
    do {
        for (const auto& link : scan()) {
            // The stock host's disks belong to the subsystem, those of weft's host to the controller.
            if (link.subnqn != uri.subnqn || link.initiator != of.initiator ||
                (of.initiator == "weft" && link.controller != of.controller))
                continue;
            for (const auto& disk : link.disks)
                if (disk_nsid(disk.substr(5)) == uri.nsid && fs::exists(disk, ignored))
                    return disk;
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
    } while (std::chrono::steady_clock::now() < deadline);
    return fail(exit_code::missing, "{} is connected, but has no namespace {} that this host can use",
                uri.text(), uri.nsid);
}

} // namespace weft
