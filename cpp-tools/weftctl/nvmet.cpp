// SPDX-License-Identifier: GPL-2.0-only
#include "nvmet.hpp"

#include "device.hpp"
#include "dhchap.hpp"
#include "process.hpp"
#include "sysfile.hpp"
#include "tls.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>
#include <sys/stat.h>
#include <unistd.h>

namespace weft
{

namespace fs = std::filesystem;

namespace
{

const fs::path root = "/sys/kernel/config/nvmet";

/// Steps that are undone in reverse order unless all of them succeed.
class undo_stack
{
public:
    undo_stack() = default;
    undo_stack(const undo_stack&) = delete;
    undo_stack& operator=(const undo_stack&) = delete;
    ~undo_stack()
    {
        while (!steps_.empty()) {
            steps_.back()();
            steps_.pop_back();
        }
    }
    void push(std::function<void()> step) { steps_.push_back(std::move(step)); }
    void keep() { steps_.clear(); }

private:
    std::vector<std::function<void()>> steps_;
};

std::optional<nvme_address> address_of(const fs::path& port)
{
    nvme_address at;
    at.transport = read_text(port / "addr_trtype").value_or("");
    at.address = usual_address(read_text(port / "addr_traddr").value_or(""));
    at.port = static_cast<std::uint16_t>(
        std::strtoul(read_text(port / "addr_trsvcid").value_or("0").c_str(), nullptr, 10));
    if (at.address.empty() || !at.port)
        return std::nullopt;
    return at;
}

std::optional<fs::path> port_of(const nvme_address& at)
{
    for (const auto& port : children(root / "ports"))
        if (address_of(port) == at)
            return port;
    return std::nullopt;
}

result<void> set(const fs::path& attribute, const std::string& value)
{
    if (const int err = write_attribute(attribute, value))
        return fail(exit_code_of(-err), "the target refuses '{}' for {}: {}", value, attribute.string(),
                    std::strerror(-err));
    return {};
}

// Makes a folder in configfs, and registers its undo step. An existing folder belongs to another program: it
// stays, and the result is `false`.
result<bool> make(const fs::path& folder, undo_stack& undo)
{
    if (!::mkdir(folder.c_str(), 0755)) {
        undo.push([folder] { ::rmdir(folder.c_str()); });
        return true;
    }
    if (errno == EEXIST)
        return false;
    return fail(exit_code_of(errno), "{} cannot be made: {}", folder.string(), std::strerror(errno));
}

bool is_link_to(const fs::path& place, const fs::path& target)
{
    std::error_code none;
    return fs::equivalent(place, target, none);
}

result<void> link(const fs::path& target, const fs::path& place, undo_stack& undo)
{
    // A command that was killed may have made it.
    if (is_link_to(place, target))
        return {};
    if (::symlink(target.c_str(), place.c_str()))
        return fail(exit_code_of(errno), "{} cannot be linked: {}", place.string(), std::strerror(errno));
    undo.push([place] { ::unlink(place.c_str()); });
    return {};
}

result<void> set_p2pmem(const fs::path& ns, const export_spec& spec)
{
    const auto attribute = ns / "p2pmem";
    if (is_missing(attribute)) {
        if (spec.p2pmem == "off")
            return {};
        return fail(exit_code::usage,
                    "{}: this kernel cannot put data into a controller's memory buffer (it lacks "
                    "CONFIG_PCI_P2PDMA); use --p2pmem off",
                    spec.device);
    }
    const std::string value = spec.p2pmem == "off" ? "0" : spec.p2pmem == "auto" ? "1" : spec.p2pmem;
    if (const int err = write_attribute(attribute, value)) {
        if (-err == ENODEV || -err == EINVAL || -err == ENXIO)
            return fail(exit_code::usage,
                        "{}: {} is not a PCI device that offers memory for peer-to-peer DMA", spec.device,
                        spec.p2pmem);
        return fail(exit_code_of(-err), "{}: the target refuses {} as --p2pmem: {}", spec.device, spec.p2pmem,
                    std::strerror(-err));
    }
    return {};
}

result<void> make_namespace(const export_spec& spec, undo_stack& undo)
{
    const auto subsystem = root / "subsystems" / spec.subnqn;
    const auto ns = subsystem / "namespaces/1";
    auto nguid = spec.uuid;
    nguid.erase(std::remove(nguid.begin(), nguid.end(), '-'), nguid.end());

    if (auto made = make(subsystem, undo); !made)
        return std::unexpected(made.error());
    else if (!*made)
        return fail(exit_code::busy, "the target has a subsystem called {} already", spec.subnqn);
    if (auto made = make(ns, undo); !made)
        return std::unexpected(made.error());
    auto done = set(subsystem / "attr_serial", nguid.substr(0, 20));
    if (done)
        done = set(subsystem / "attr_allow_any_host", spec.any_host ? "1" : "0");
    if (done)
        done = set(ns / "device_path", spec.device);
    if (done)
        done = set(ns / "device_uuid", spec.uuid);
    if (done)
        done = set(ns / "device_nguid", nguid);
    if (done)
        done = set_p2pmem(ns, spec);
    if (!done)
        return done;
    const int err = write_attribute(ns / "enable", "1");
    if (err == -EINVAL && spec.p2pmem != "off")
        return fail(
            exit_code_of(-err),
            "the target cannot use {} with --p2pmem {}: the disk's driver cannot do peer-to-peer DMA, or "
            "no such memory is within its reach (see the kernel log); otherwise use --p2pmem off",
            spec.device, spec.p2pmem);
    if (err)
        return fail(exit_code_of(-err), "the target cannot open {}: {}", spec.device, std::strerror(-err));
    undo.push([ns] { static_cast<void>(write_attribute(ns / "enable", "0")); });
    return {};
}

constexpr auto host_key = "dhchap_key";
constexpr auto ctrl_key = "dhchap_ctrl_key";

/// A host has one secret for all subsystems: that of a folder that was there before stays as it is.
result<void> check_secret(const fs::path& host, const char* name, const std::optional<dhchap_secret>& secret)
{
    const auto has = read_text(host / name).value_or("");
    if (secret && has.empty())
        return fail(exit_code::busy,
                    "{} is allowed to connect to other subsystems without {} secret: unexport these first",
                    host.filename().string(), name == host_key ? "a" : "the target's");
    if (secret && has != secret->text())
        return fail(exit_code::busy, "the target knows another secret for {} (in {})",
                    host.filename().string(), (host / name).string());
    return {};
}

/// The same for a hash or a group.
result<void> check_choice(const fs::path& attribute, const std::string& wanted, const char* option)
{
    const auto has = read_text(attribute).value_or("");
    if (has != wanted)
        return fail(
            exit_code::busy,
            "the target authenticates {} with {}, in all of its subsystems: name that one, {}, or unexport "
            "the others first",
            attribute.parent_path().filename().string(), has, option);
    return {};
}

result<void> set_secret(const fs::path& attribute, const std::optional<dhchap_secret>& secret)
{
    if (!secret)
        return {};
    if (auto hidden = hide_attribute(attribute); !hidden)
        return hidden;
    if (const int err = write_attribute(attribute, secret->text()))
        return fail(exit_code_of(-err), "the target refuses the secret for {}: {}", attribute.string(),
                    std::strerror(-err));
    return {};
}

/// For the folder of a host, which was made for this export or was there before.
result<void> give_secrets(const fs::path& host, bool made, const export_spec& spec,
                          const dhchap_secrets& secrets)
{
    if (!secrets.host && !made && !read_text(host / host_key).value_or("").empty())
        return fail(exit_code::busy,
                    "the target has a secret for {}, which is for all of its subsystems: name it, "
                    "--dhchap-secret-file",
                    host.filename().string());
    if (!secrets.host)
        return {};
    if (is_missing(host / host_key))
        return fail(exit_code::missing,
                    "this kernel's target cannot authenticate hosts (it lacks CONFIG_NVME_TARGET_AUTH)");
    const auto hash = fmt::format("hmac({})", spec.dhchap_hash);
    if (!made) {
        auto good = check_secret(host, host_key, secrets.host);
        if (good)
            good = check_secret(host, ctrl_key, secrets.ctrl);
        if (good)
            good = check_choice(host / "dhchap_hash", hash, "--dhchap-hash");
        return good ? check_choice(host / "dhchap_dhgroup", spec.dhchap_group, "--dhchap-dhgroup") : good;
    }
    auto done = set(host / "dhchap_hash", hash);
    if (done)
        done = set(host / "dhchap_dhgroup", spec.dhchap_group);
    if (done)
        done = set_secret(host / host_key, secrets.host);
    return done ? set_secret(host / ctrl_key, secrets.ctrl) : done;
}

fs::path permission_of(const export_spec& spec, const std::string& host)
{
    return root / "subsystems" / spec.subnqn / "allowed_hosts" / host;
}

/// Returns whether the folder of the host was made for it.
result<bool> allow_host(const export_spec& spec, const std::string& host, const dhchap_secrets& secrets,
                        undo_stack& undo)
{
    const auto made = make(root / "hosts" / host, undo);
    if (!made)
        return made;
    auto done = give_secrets(root / "hosts" / host, *made, spec, secrets);
    if (done)
        done = link(root / "hosts" / host, permission_of(spec, host), undo);
    if (!done)
        return std::unexpected(done.error());
    return made;
}

result<void> allow_hosts(export_spec& spec, undo_stack& undo)
{
    const auto secrets = read_dhchap_secrets(spec.dhchap_secret_file, spec.dhchap_ctrl_secret_file);
    if (!secrets)
        return std::unexpected(secrets.error());
    for (const auto& host : spec.hosts) {
        const auto made = allow_host(spec, host, *secrets, undo);
        if (!made)
            return std::unexpected(made.error());
        if (*made)
            spec.own_hosts.push_back(host);
    }
    return {};
}

constexpr auto tls_name = "tls1.3";

/// TLS is a property of a port, for all of its subsystems.
result<void> check_tls(const fs::path& port, const export_spec& spec, const nvme_address& at)
{
    const bool has = read_text(port / "addr_tsas").value_or("") == tls_name;
    if (has && read_text(port / "addr_treq").value_or("") != "required")
        return fail(
            exit_code::busy,
            "the target listens at {} with TLS, but also lets hosts in without: choose another --port",
            at.text());
    if (has == !spec.tls_key_file.empty())
        return {};
    return fail(
        exit_code::busy,
        "the target listens at {} {} TLS, for all of its subsystems: choose another --port, or unexport "
        "the others first",
        at.text(), has ? "with" : "without");
}

/// A host needs a key for a subsystem, and one for discovery.
result<std::vector<tls_change>> give_tls_keys(const export_spec& spec, const std::vector<std::string>& hosts)
{
    std::vector<tls_change> changes;
    if (spec.tls_key_file.empty())
        return changes;
    const auto key = read_tls_key(spec.tls_key_file);
    if (!key)
        return std::unexpected(key.error());
    for (const auto& host : hosts)
        for (const auto& subnqn : {spec.subnqn, std::string(discovery_nqn)}) {
            auto change = tls_change::insert(*key, {host, subnqn});
            if (!change)
                return std::unexpected(change.error());
            changes.push_back(std::move(*change));
        }
    return changes;
}

/// Does another subsystem let the host in by TLS? Then it needs the key for discovery.
bool has_tls_elsewhere(const std::string& host)
{
    for (const auto& port : children(root / "ports"))
        if (read_text(port / "addr_tsas").value_or("") == tls_name)
            for (const auto& subsystem : children(port / "subsystems"))
                if (!is_missing(root / "subsystems" / subsystem.filename() / "allowed_hosts" / host))
                    return true;
    return false;
}

result<void> set_tls(const fs::path& port, const export_spec& spec)
{
    if (spec.tls_key_file.empty())
        return {};
    if (is_missing(port / "addr_tsas") || write_attribute(port / "addr_tsas", tls_name))
        return fail(exit_code::missing,
                    "this kernel's target has no TLS (it lacks CONFIG_NVME_TARGET_TCP_TLS)");
    // A host without TLS is refused.
    return set(port / "addr_treq", "required");
}

struct target_port {
    fs::path folder;
    bool made = false;
};

result<target_port> make_port(const export_spec& spec, const nvme_address& at, undo_stack& undo)
{
    if (auto port = port_of(at)) {
        if (auto good = check_tls(*port, spec, at); !good)
            return std::unexpected(good.error());
        return target_port{*port};
    }
    // A port's name is a number, which hosts see in discovery: use the lowest free one. If another command
    // takes it first, try the next.
    fs::path port;
    for (unsigned int number = 1; port.empty(); number++) {
        const auto folder = root / "ports" / std::to_string(number);
        auto made = make(folder, undo);
        if (!made)
            return std::unexpected(made.error());
        if (*made)
            port = folder;
    }
    auto done = set(port / "addr_trtype", at.transport);
    if (done)
        done = set(port / "addr_adrfam", at.is_ipv6() ? "ipv6" : "ipv4");
    if (done)
        done = set(port / "addr_traddr", at.address);
    if (done)
        done = set(port / "addr_trsvcid", std::to_string(at.port));
    if (done)
        done = set_tls(port, spec);
    if (!done)
        return std::unexpected(done.error());
    return target_port{port, true};
}

// The target listens when a port gets its first subsystem: a wrong address is detected here.
result<void> link_port(const fs::path& port, const export_spec& spec, const nvme_address& at)
{
    const auto place = port / "subsystems" / spec.subnqn;
    const auto subsystem = root / "subsystems" / spec.subnqn;
    if (is_link_to(place, subsystem) || !::symlink(subsystem.c_str(), place.c_str()))
        return {};
    const int err = errno;
    if (err == EADDRNOTAVAIL || (err == ENODEV && at.transport == "rdma"))
        return fail(exit_code::missing, "{}: no {} of this host has the address {}", at.text(),
                    at.transport == "rdma" ? "RDMA device" : "interface", at.address);
    if (err == EADDRINUSE)
        return fail(exit_code::busy, "{}: another program listens there", at.text());
    return fail(exit_code_of(err), "{}: the target cannot listen there: {}", at.text(), std::strerror(err));
}

/// The folder of a host whose permission for this subsystem is gone, and its TLS keys.
void drop_host(const export_spec& spec, const std::string& host)
{
    // The kernel refuses this while another subsystem allows the host.
    if (std::ranges::count(spec.own_hosts, host))
        ::rmdir((root / "hosts" / host).c_str());
    if (spec.tls_key_file.empty())
        return;
    remove_tls_keys({host, spec.subnqn});
    if (!has_tls_elsewhere(host))
        remove_tls_keys({host, discovery_nqn});
}

/// The subsystem leaves a port, and weft's own port goes with its last one.
result<void> leave_port(const fs::path& port, const export_spec& spec, bool own)
{
    const auto place = port / "subsystems" / spec.subnqn;
    if (::unlink(place.c_str()) && errno != ENOENT)
        return fail(exit_code::failure, "{} cannot be removed: {}", place.string(), std::strerror(errno));
    if (own && children(port / "subsystems").empty())
        ::rmdir(port.c_str());
    return {};
}

} // namespace

export_address* export_spec::find(const nvme_address& at)
{
    const auto found = std::ranges::find(addresses, at, &export_address::at);
    return found == addresses.end() ? nullptr : &*found;
}

result<nvmet> nvmet::open(const std::string& transport)
{
    if (auto loaded = load_module("nvmet"); !loaded)
        return std::unexpected(loaded.error());
    if (!transport.empty())
        if (auto loaded = load_module("nvmet-" + transport); !loaded)
            return std::unexpected(loaded.error());
    if (!fs::exists(root))
        return fail(exit_code::missing, "{} is missing: run 'mount -t configfs configfs /sys/kernel/config'",
                    root.string());
    return nvmet();
}

std::vector<served_subsystem> nvmet::subsystems() const
{
    std::vector<served_subsystem> found;
    for (const auto& folder : children(root / "subsystems")) {
        served_subsystem subsystem;
        subsystem.subnqn = folder.filename();
        for (const auto& ns : children(folder / "namespaces")) {
            if (subsystem.device.empty())
                subsystem.device = read_text(ns / "device_path").value_or("");
            subsystem.enabled |= read_text(ns / "enable") == "1";
        }
        for (const auto& port : children(root / "ports"))
            if (!is_missing(port / "subsystems" / subsystem.subnqn))
                if (auto at = address_of(port))
                    subsystem.ports.push_back(*at);
        found.push_back(std::move(subsystem));
    }
    return found;
}

std::string serving_subsystem::subject(const std::string& path) const
{
    return same ? path + " is" : fmt::format("{} shares blocks with {}, which is", path, device);
}

std::optional<serving_subsystem> nvmet::subsystem_of(dev_t device)
{
    for (const auto& folder : children(root / "subsystems"))
        for (const auto& ns : children(folder / "namespaces")) {
            const auto path = read_text(ns / "device_path").value_or("");
            if (const auto number = block_number(path); number && overlaps(*number, device))
                return serving_subsystem{folder.filename(), path, *number == device};
        }
    return std::nullopt;
}

result<void> nvmet::check_unserved(const std::string& path, dev_t device, const std::string& anyway)
{
    if (const auto subsystem = subsystem_of(device))
        return fail(exit_code::busy, "{} exported to other hosts, as {}; 'weftctl unexport' ends that{}",
                    subsystem->subject(path), subsystem->subnqn, anyway);
    return {};
}

nvmet::presence nvmet::presence_of(const export_spec& spec) const
{
    const auto subsystem = root / "subsystems" / spec.subnqn;
    if (is_missing(subsystem))
        return presence::absent;
    const auto device = read_text(subsystem / "namespaces/1/device_path").value_or("");
    // A subsystem without a device was left by a command that was killed.
    if (!device.empty() && device != "(null)" && device != spec.device)
        return presence::foreign;
    // weft's have no other namespace.
    if (std::ranges::any_of(children(subsystem / "namespaces"),
                            [](const fs::path& ns) { return ns.filename() != "1"; }))
        return presence::foreign;
    const auto heard = std::ranges::count_if(
        spec.addresses, [&](const export_address& address) { return listens(spec, address.at); });
    if (!heard || read_text(subsystem / "namespaces/1/enable") != "1")
        return presence::broken;
    return heard == std::ssize(spec.addresses) ? presence::serving : presence::incomplete;
}

bool nvmet::listens(const export_spec& spec, const nvme_address& at)
{
    const auto port = port_of(at);
    return port && !is_missing(*port / "subsystems" / spec.subnqn);
}

result<void> nvmet::add(export_spec& spec) const
{
    undo_stack undo;
    auto done = make_namespace(spec, undo);
    if (done)
        done = allow_hosts(spec, undo);
    if (!done)
        return done;
    auto keys = give_tls_keys(spec, spec.hosts);
    if (!keys)
        return std::unexpected(keys.error());
    result<void> first;
    for (auto& address : spec.addresses) {
        done = listen(spec, address);
        if (done)
            break;
        if (first)
            first = done;
    }
    if (!done)
        return first;
    undo.keep();
    for (auto& key : *keys)
        key.keep();
    return {};
}

result<void> nvmet::listen(const export_spec& spec, export_address& address)
{
    undo_stack undo;
    address.own_port = false;
    const auto port = make_port(spec, address.at, undo);
    if (!port)
        return std::unexpected(port.error());
    if (auto done = link_port(port->folder, spec, address.at); !done)
        return done;
    undo.keep();
    address.own_port = port->made;
    return {};
}

result<void> nvmet::end_listening(const export_spec& spec, const export_address& address)
{
    // Without the link, the port may be another program's by now.
    return listens(spec, address.at) ? leave_port(*port_of(address.at), spec, address.own_port)
                                     : result<void>();
}

result<void> nvmet::allow(export_spec& spec, const std::string& host)
{
    undo_stack undo;
    const auto secrets = read_dhchap_secrets(spec.dhchap_secret_file, spec.dhchap_ctrl_secret_file);
    if (!secrets)
        return std::unexpected(secrets.error());
    auto keys = give_tls_keys(spec, {host});
    if (!keys)
        return std::unexpected(keys.error());
    const auto made = allow_host(spec, host, *secrets, undo);
    if (!made)
        return std::unexpected(made.error());
    undo.keep();
    for (auto& key : *keys)
        key.keep();
    spec.hosts.push_back(host);
    if (*made)
        spec.own_hosts.push_back(host);
    return {};
}

result<void> nvmet::forbid(export_spec& spec, const std::string& host)
{
    const auto place = permission_of(spec, host);
    if (::unlink(place.c_str()) && errno != ENOENT)
        return fail(exit_code::failure, "{} cannot be removed: {}", place.string(), std::strerror(errno));
    drop_host(spec, host);
    std::erase(spec.hosts, host);
    std::erase(spec.own_hosts, host);
    return {};
}

result<void> nvmet::renew_tls_key(const export_spec& spec)
{
    auto keys = give_tls_keys(spec, spec.hosts);
    if (!keys)
        return std::unexpected(keys.error());
    for (auto& key : *keys)
        key.keep();
    return {};
}

result<void> nvmet::remove(const export_spec& spec) const
{
    const auto subsystem = root / "subsystems" / spec.subnqn;
    const auto ns = subsystem / "namespaces/1";
    switch (presence_of(spec)) {
    case presence::absent:
        return {};
    case presence::foreign:
        return fail(exit_code::busy,
                    "{} no longer serves {}, because another program changed it: it is left unchanged",
                    spec.subnqn, spec.device);
    default:
        break;
    }
    for (const auto& port : children(root / "ports")) {
        if (is_missing(port / "subsystems" / spec.subnqn))
            continue;
        const auto at = address_of(port);
        const bool own = std::ranges::any_of(spec.addresses, [&](const export_address& address) {
            return address.own_port && address.at == at;
        });
        if (auto done = leave_port(port, spec, own); !done)
            return done;
    }
    for (const auto& host : children(subsystem / "allowed_hosts")) {
        ::unlink(host.c_str());
        drop_host(spec, host.filename());
    }
    static_cast<void>(write_attribute(ns / "enable", "0"));
    if ((::rmdir(ns.c_str()) && errno != ENOENT) || ::rmdir(subsystem.c_str()))
        return fail(exit_code::failure, "{} cannot be removed: {}", subsystem.string(), std::strerror(errno));
    return {};
}

} // namespace weft
