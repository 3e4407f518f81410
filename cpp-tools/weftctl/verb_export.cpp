// SPDX-License-Identifier: GPL-2.0-only
#include "device.hpp"
#include "dhchap.hpp"
#include "exports.hpp"
#include "identity.hpp"
#include "notify.hpp"
#include "process.hpp"
#include "size.hpp"
#include "sysfile.hpp"
#include "tls.hpp"
#include "verbs.hpp"
#include "waiting.hpp"

#include <algorithm>
#include <chrono>
#include <optional>
#include <set>
#include <utility>

namespace weft
{

namespace
{

struct export_options {
    std::vector<std::string> devices;
    std::vector<std::string> addresses;
    nvme_address at; ///< its transport and port are those of all of them
    std::vector<std::string> hosts;
    bool any_host = false;
    std::string dhchap_secret_file, dhchap_ctrl_secret_file, dhchap_hash = "sha256",
                                                             dhchap_group = "ffdhe2048";
    std::string tls_key_file;
    std::string subnqn;
    std::string p2pmem = "off";
    bool saved = false;
    unsigned int wait = 0;
    bool dry_run = false;
};

// Keeps "auto" and "off". Converts a disk or controller to its PCI address, which the kernel takes.
result<std::string> parse_p2pmem(const std::string& text)
{
    if (text == "auto" || text == "off")
        return text;
    std::filesystem::path device = text;
    if (text.rfind("/dev/", 0) == 0) {
        const auto name = device.filename().string();
        const auto controller = name.substr(0, name.find('n', 4));
        std::error_code problem;
        device = std::filesystem::canonical("/sys/class/nvme/" + controller + "/device", problem);
        if (problem)
            return fail(exit_code::usage, "{} is not an NVMe device that has memory (CMB)", text);
    }
    const auto name = device.filename().string();
    if (!std::filesystem::exists("/sys/bus/pci/devices/" + name))
        return fail(exit_code::usage, "--p2pmem: '{}' is neither auto nor off, nor a PCI device of this host",
                    text);
    if (read_text("/sys/bus/pci/devices/" + name + "/p2pmem/published").value_or("0") != "1")
        return fail(exit_code::usage, "--p2pmem: {} publishes no memory for peer-to-peer DMA", name);
    return name;
}

// An unused device. It is claimed during the export, so that it cannot be mounted meanwhile.
result<block_device> claim(const std::string& path)
{
    auto device = block_device::open(path, block_device::access::write_exclusive);
    if (!device)
        return device;
    if (const auto subsystem = nvmet::subsystem_of(device->number()))
        return fail(exit_code::busy, "{} exported already, as {}", subsystem->subject(path),
                    subsystem->subnqn);
    for (const auto& user : users_of(device->number()))
        if (user.rfind("held by", 0) == 0 || user.rfind("mounted", 0) == 0)
            return fail(exit_code::busy, "{} is in use: {}", path, user);
    return device;
}

std::string identity_of(const block_device& device)
{
    const auto known = identities_of(device.number());
    return known.empty() ? "" : known.front();
}

result<export_spec> plan(const block_device& device, const export_options& options)
{
    export_spec spec;
    spec.device = stable_path(device.path());
    spec.size = device.size();
    spec.identity = identity_of(device);
    auto uuid = named_uuid(uuid_name(spec));
    if (!uuid)
        return std::unexpected(uuid.error());
    spec.uuid = *uuid;
    spec.subnqn = options.subnqn.empty() ? "nqn.2014-08.org.nvmexpress:uuid:" + spec.uuid : options.subnqn;
    auto addresses = parse_addresses(options.addresses, options.at);
    if (!addresses)
        return std::unexpected(addresses.error());
    for (auto& at : *addresses)
        spec.addresses.push_back({std::move(at)});
    spec.hosts = options.hosts;
    spec.any_host = options.any_host;
    // They are read again after a reboot, in another folder.
    spec.dhchap_secret_file = full_name(options.dhchap_secret_file);
    spec.dhchap_ctrl_secret_file = full_name(options.dhchap_ctrl_secret_file);
    spec.tls_key_file = full_name(options.tls_key_file);
    spec.dhchap_hash = options.dhchap_hash;
    spec.dhchap_group = options.dhchap_group;
    auto p2pmem = parse_p2pmem(options.p2pmem);
    if (!p2pmem)
        return std::unexpected(p2pmem.error());
    spec.p2pmem = *p2pmem;
    return spec;
}

result<void> check_tls(const export_options& options)
{
    if (options.tls_key_file.empty())
        return {};
    if (options.at.transport != "tcp")
        return fail(exit_code::usage, "--tls-key-file needs --transport tcp: there is no TLS for {}",
                    options.at.transport);
    if (options.any_host)
        return fail(exit_code::usage, "--any-host and --tls-key-file contradict each other: a key belongs to "
                                      "a host; name it with --host");
    if (!options.dhchap_secret_file.empty())
        return fail(exit_code::usage, "{}", tls_without_dhchap);
    if (const auto key = read_tls_key(options.tls_key_file); !key)
        return std::unexpected(key.error());
    return {};
}

result<void> check_options(const export_options& options)
{
    if (options.devices.empty())
        return fail(exit_code::usage, "name the devices to export");
    if (options.addresses.empty())
        return fail(exit_code::usage, "--address is missing: give the address to listen on");
    if (auto good = parse_addresses(options.addresses, options.at); !good)
        return std::unexpected(good.error());
    if (options.any_host && !options.hosts.empty())
        return fail(exit_code::usage, "--host and --any-host contradict each other");
    if (!options.any_host && options.hosts.empty())
        return fail(exit_code::usage, "who may connect? Give --host NQN for each host ('weftctl host-nqn' "
                                      "prints it there), or --any-host for all hosts");
    for (const auto& host : options.hosts)
        if (auto good = check_nqn(host); !good)
            return good;
    if (options.any_host && !options.dhchap_secret_file.empty())
        return fail(exit_code::usage, "--any-host and --dhchap-secret-file contradict each other: a secret "
                                      "belongs to a host; name it with --host");
    if (options.dhchap_secret_file.empty() && !options.dhchap_ctrl_secret_file.empty())
        return fail(exit_code::usage, "--dhchap-ctrl-secret-file needs --dhchap-secret-file, too");
    if (auto good = check_tls(options); !good)
        return good;
    if (auto secrets = read_dhchap_secrets(options.dhchap_secret_file, options.dhchap_ctrl_secret_file);
        !secrets)
        return std::unexpected(secrets.error());
    if (!options.subnqn.empty()) {
        if (options.devices.size() > 1)
            return fail(exit_code::usage, "--subnqn names one subsystem, {} devices are given",
                        options.devices.size());
        if (auto good = check_nqn(options.subnqn); !good)
            return good;
    }
    return {};
}

// The first address is for 'weftctl create', the others are for 'weftctl path add'.
void describe(const export_spec& spec, bool dry_run, std::vector<action>& actions)
{
    for (const auto& [at, own] : spec.addresses) {
        const auto uri = spec.uri(at);
        const bool first = at == spec.addresses.front().at;
        actions.push_back({"export", uri, first ? uri : uri + " (another path to it)", dry_run});
    }
}

// All or nothing. They are saved before they are served: if this command is killed, `unexport` removes the
// subsystems that it has made so far. If a step fails, this command removes the exports.
result<void> serve_all(export_book& book, const nvmet& target, const std::vector<export_spec>& specs,
                       renderer& out)
{
    const auto first = book.entries().size();
    for (const auto& spec : specs)
        book.add(spec);
    auto done = book.save();
    if (!done)
        return done;
    std::size_t served = 0;
    while (done && served < specs.size()) {
        done = book.serve(target, first + served);
        if (done)
            done = book.complete(target, first + served++);
    }
    // With the parts of the target that are ours.
    if (done)
        done = book.save();
    if (done)
        return done;
    for (std::size_t i = specs.size(); i-- > 0;) {
        const auto undone = i < served ? target.remove(book.entries()[first + i]) : result<void>();
        // Exports that are still served stay in the file, for `unexport`.
        if (undone)
            book.remove(specs[i].subnqn);
        else
            out.failure(undone.error());
    }
    if (auto undone = book.save(); !undone)
        out.failure(undone.error());
    return done;
}

result<exit_code> run_new(const export_options& options, renderer& out)
{
    if (auto good = check_options(options); !good)
        return std::unexpected(good.error());
    // A step that ends half-way leaves folders that no export owns. All of them take no time: they end first.
    end_waits_at_signals();
    const auto target = nvmet::open(options.at.transport);
    if (!target)
        return std::unexpected(target.error());
    auto book = export_book::open();
    if (!book)
        return std::unexpected(book.error());

    std::vector<block_device> claimed;
    std::vector<export_spec> specs;
    for (const auto& path : options.devices) {
        if (auto distinct = check_distinct(claimed, path); !distinct)
            return std::unexpected(distinct.error());
        if (const auto* known = book->find(path))
            return fail(exit_code::busy, "{} is exported already, as {}", path, known->subnqn);
        auto device = claim(path);
        if (!device)
            return std::unexpected(device.error());
        auto spec = plan(*device, options);
        if (!spec)
            return std::unexpected(spec.error());
        for (const auto* others : {&book->entries(), &std::as_const(specs)})
            if (auto other = check_other_disk(*spec, *others); !other)
                return std::unexpected(other.error());
        if (auto good = book->check_tls_key(*spec); !good)
            return std::unexpected(good.error());
        if (target->presence_of(*spec) != nvmet::presence::absent || book->find(spec->subnqn))
            return fail(exit_code::busy, "the target has a subsystem called {} already", spec->subnqn);
        claimed.push_back(std::move(*device));
        specs.push_back(std::move(*spec));
    }

    std::vector<action> actions;
    for (const auto& spec : specs)
        describe(spec, options.dry_run, actions);
    if (!options.dry_run)
        if (auto done = serve_all(*book, *target, specs, out); !done)
            return std::unexpected(done.error());
    out.actions(actions);
    return exit_code::ok;
}

/// The device of a saved export. It may have grown, as a logical volume does; a smaller one lacks data.
result<block_device> claim_saved(const export_spec& spec)
{
    auto device = claim(spec.device);
    if (device)
        if (auto same = check_same_disk(spec, identities_of(device->number())); !same)
            return std::unexpected(same.error());
    if (device && device->size() < spec.size)
        return fail(
            exit_code::busy,
            "the device there has {} and had {} when it was exported: it is another device, or it has shrunk",
            format_size(device->size()), format_size(spec.size));
    return device;
}

result<void> refuse_foreign(const export_spec& spec)
{
    return fail(exit_code::busy, "a subsystem called {} serves something else", spec.subnqn);
}

result<void> serve_entry(export_book& book, std::size_t index)
{
    const auto& spec = book.entries()[index];
    const auto target = nvmet::open(spec.transport());
    if (!target)
        return std::unexpected(target.error());
    switch (target->presence_of(spec)) {
    case nvmet::presence::serving:
        return nvmet::renew_tls_key(spec);
    case nvmet::presence::incomplete:
        if (auto done = nvmet::renew_tls_key(spec); !done)
            return done;
        return book.complete(*target, index);
    case nvmet::presence::foreign:
        return refuse_foreign(spec);
    case nvmet::presence::broken:
        if (auto done = target->remove(spec); !done)
            return done;
        break;
    case nvmet::presence::absent:
        break;
    }
    const auto device = claim_saved(spec);
    if (!device)
        return std::unexpected(device.error());
    auto& entry = book.entry(index);
    entry.size = device->size();
    // An older version has not noted it. The UUID stays: hosts know the disk by it.
    if (entry.identity.empty())
        entry.identity = identity_of(*device);
    auto done = book.serve(*target, index);
    return done ? book.complete(*target, index) : done;
}

/// What serve_entry() would find wrong, as far as it shows without serving. Whether the host has an export's
/// addresses does not.
result<void> check_entry(const export_spec& spec)
{
    const auto target = nvmet::open(spec.transport());
    if (!target)
        return std::unexpected(target.error());
    if (!spec.tls_key_file.empty())
        if (const auto key = read_tls_key(spec.tls_key_file); !key)
            return std::unexpected(key.error());
    if (const auto secrets = read_dhchap_secrets(spec.dhchap_secret_file, spec.dhchap_ctrl_secret_file);
        !secrets)
        return std::unexpected(secrets.error());
    const auto presence = target->presence_of(spec);
    if (presence == nvmet::presence::foreign)
        return refuse_foreign(spec);
    // If there is a subsystem of ours, it has the device.
    if (presence == nvmet::presence::absent)
        if (const auto device = claim_saved(spec); !device)
            return std::unexpected(device.error());
    return {};
}

nvmet::presence presence_of(const export_spec& spec)
{
    const auto target = nvmet::open("");
    return target ? target->presence_of(spec) : nvmet::presence::absent;
}

/// Serves the saved exports, one round after the other. What was served once, also in part, and is not any
/// more was withdrawn by a user, and stays away.
class saved_exports
{
public:
    explicit saved_exports(bool dry_run) : dry_run_(dry_run) {}
    /// An error if nothing could be tried; failures() has it, too.
    [[nodiscard]] result<void> serve_round();
    [[nodiscard]] const std::vector<error>& failures() const { return failures_; }
    [[nodiscard]] exit_code tell(renderer& out);

private:
    [[nodiscard]] result<void> serve(export_book& book);

    bool dry_run_;
    std::set<std::string> seen_, done_; ///< names of subsystems: served in part at least, and all of it
    std::vector<action> actions_;
    std::vector<error> failures_; ///< of the last round
};

result<void> saved_exports::serve(export_book& book)
{
    for (std::size_t i = 0; i < book.entries().size(); i++) {
        const auto& spec = book.entries()[i];
        if (seen_.contains(spec.subnqn) && presence_of(spec) == nvmet::presence::absent)
            done_.insert(spec.subnqn);
        if (done_.contains(spec.subnqn))
            continue;
        const auto done = dry_run_ ? check_entry(spec) : serve_entry(book, i);
        const auto presence = presence_of(spec);
        const bool incomplete = presence == nvmet::presence::incomplete;
        if (incomplete || presence == nvmet::presence::serving)
            seen_.insert(spec.subnqn);
        if (done) {
            describe(spec, dry_run_ && presence != nvmet::presence::serving, actions_);
            done_.insert(spec.subnqn);
            continue;
        }
        failures_.push_back({done.error().code,
                             fmt::format("{} is not exported{}: {}", spec.device,
                                         incomplete ? " at all of its addresses" : "", done.error().text)});
    }
    return dry_run_ || book.entries().empty() ? result<void>() : book.save();
}

result<void> saved_exports::serve_round()
{
    auto book = export_book::open();
    failures_.clear();
    result<void> done;
    // Who stops the service withdraws the exports next.
    if (a_signal_came())
        done = std::unexpected(interruption());
    else if (!book)
        done = std::unexpected(book.error());
    else
        done = serve(*book);
    if (!done)
        failures_.push_back(done.error());
    return done;
}

exit_code saved_exports::tell(renderer& out)
{
    for (const auto& failure : failures_)
        out.failure(failure);
    if (actions_.empty() && failures_.empty())
        actions_.push_back({"export", "", "no export is saved", false, false});
    if (!actions_.empty())
        out.actions(actions_);
    return failures_.empty() ? exit_code::ok : failures_.back().code;
}

/// After a boot, devices and addresses appear later: for a switch, that may be minutes. The saved exports are
/// not locked during the wait. A service has started after `start_wait`, also without them.
result<exit_code> run_saved(const export_options& options, renderer& out)
{
    using clock = std::chrono::steady_clock;
    constexpr std::chrono::seconds start_wait(60), longest_delay(60);
    const auto begun = clock::now();
    const auto deadline = begun + std::chrono::seconds(options.wait);
    std::chrono::milliseconds delay(500);
    saved_exports exports(options.dry_run);
    std::string told;
    std::optional<waiting> telling;
    if (options.wait) {
        end_waits_at_signals();
        telling.emplace("waiting for the devices and addresses of saved exports");
    }
    for (;;) {
        // A service has served others, and withdraws them when it is stopped. It must not fail before that.
        if (auto done = exports.serve_round(); !done && (!options.wait || a_signal_came()))
            return std::unexpected(done.error());
        const auto now = clock::now();
        const bool is_over = exports.failures().empty() || options.dry_run || now >= deadline;
        const bool is_late = now >= begun + start_wait;
        const bool is_service = (is_over || is_late) && !options.dry_run && notify_ready();
        if (is_over)
            break;
        // Once for each reason: the journal of a service has to say for what it waits.
        const auto lack = texts_of(exports.failures());
        if (is_service && lack != told)
            complain("weftctl: still waiting: {}\n", lack);
        if (is_service)
            told = lack;
        if (!wait_for(delay))
            return std::unexpected(interruption());
        if (is_late)
            delay = std::min<std::chrono::milliseconds>(delay * 2, longest_delay);
    }
    telling.reset();
    return exports.tell(out);
}

} // namespace

verb add_export(CLI::App& app)
{
    auto options = std::make_shared<export_options>();
    auto* command =
        app.add_subcommand("export", "serve block devices to other hosts by the kernel's NVMe target");
    auto* devices = command->add_option("DEVICE", options->devices, "block devices that are not in use");
    command->add_option("--transport", options->at.transport, "rdma or tcp")
        ->check(CLI::IsMember({"rdma", "tcp"}))
        ->capture_default_str();
    command
        ->add_option("--address", options->addresses,
                     "ADDRESS[:PORT] of this host to listen on; repeat it for another rail")
        ->allow_extra_args(false);
    command->add_option("--port", options->at.port, "port to listen on, if --address has none")
        ->check(CLI::Range(1, 65535))
        ->capture_default_str();
    command
        ->add_option("--host", options->hosts, "NQN of a host that may connect; repeat it for another host")
        ->allow_extra_args(false);
    command->add_flag("--any-host", options->any_host, "every host that reaches the address may connect");
    command->add_option("--dhchap-secret-file", options->dhchap_secret_file,
                        "file with the secret of these hosts: they must authenticate by DH-HMAC-CHAP");
    command->add_option("--dhchap-ctrl-secret-file", options->dhchap_ctrl_secret_file,
                        "file with this target's own secret, for hosts that authenticate the target");
    command->add_option("--dhchap-hash", options->dhchap_hash, "hash of the authentication")
        ->check(CLI::IsMember({"sha256", "sha384", "sha512"}))
        ->capture_default_str();
    command
        ->add_option("--dhchap-dhgroup", options->dhchap_group,
                     "Diffie-Hellman group of the authentication; null for none")
        ->check(CLI::IsMember({"null", "ffdhe2048", "ffdhe3072", "ffdhe4096", "ffdhe6144", "ffdhe8192"}))
        ->capture_default_str();
    command->add_option("--tls-key-file", options->tls_key_file,
                        "file with the TLS key of these hosts: they must connect by TLS 1.3 (tcp)");
    command->add_option("--subnqn", options->subnqn, "name of the subsystem, for one device");
    command
        ->add_option("--p2pmem", options->p2pmem,
                     "move data through memory of an NVMe controller (CMB): auto, its device, or off")
        ->capture_default_str();
    command->add_flag("--saved", options->saved, "serve the saved exports again, as at boot")
        ->excludes(devices);
    command->add_option("--wait", options->wait, "with --saved: seconds to wait for devices and addresses")
        ->check(CLI::Range(0, 86400));
    command->add_flag("--dry-run", options->dry_run, "check, say what would be done, export nothing");
    command->footer(R"(Prints the URI of each export: 'weftctl create' on another host takes it as a member.
With several addresses, a host makes a member of the first URI, and adds the others by 'weftctl path add'.
'weftctl change-export' changes hosts and addresses of an export while hosts use it.
Exports are kept in /etc/weft/exports.json. weft-exports.service serves them again at boot, if it is enabled: the
packages enable it. It waits for a day for devices and addresses that are not there yet. A device that is mounted, held by
another driver or exported already is refused. weftctl does not change what other programs configured in the kernel's
target.

An export is of a disk, not of a path. At boot, and with --saved, another disk at the path is refused, as
after a logical volume was made anew under its name. A disk is known by its identifier in sysfs (dm/uuid,
md/uuid, weft/uuid, wwid, device/wwid or serial; of a partition with its start), of which its UUID is made. A
disk without one, such as a loop device or a device of device-mapper without a UUID, is known by its path, and
refused only if it is smaller than before.

'weftctl host-nqn' on a host prints its NQN.

Examples:
  weftctl export /dev/nvme0n1 /dev/nvme1n1 --address 10.0.0.1 \
      --host nqn.2014-08.org.nvmexpress:uuid:7ae4e2b7-6a2c-4d1c-9d52-8a1fbbb0a9a1
  weftctl export /dev/nvme0n1 --address 10.0.0.1 --dhchap-secret-file /etc/weft/dhchap-secret \
      --host nqn.2014-08.org.nvmexpress:uuid:7ae4e2b7-6a2c-4d1c-9d52-8a1fbbb0a9a1
  weftctl export /dev/nvme0n1 --address 10.0.0.1 --address 10.1.0.1 --any-host
  weftctl export /dev/nvme0n1 --transport tcp --address 10.0.0.1 --any-host
  weftctl export /dev/nvme0n1 --transport tcp --address 10.0.0.1 --port 4430 --tls-key-file /etc/weft/tls-key \
      --host nqn.2014-08.org.nvmexpress:uuid:7ae4e2b7-6a2c-4d1c-9d52-8a1fbbb0a9a1
  weftctl export --saved --wait 60)");
    return {command, [options](renderer& out) {
                return options->saved ? run_saved(*options, out) : run_new(*options, out);
            }};
}

} // namespace weft
