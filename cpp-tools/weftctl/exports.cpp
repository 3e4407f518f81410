// SPDX-License-Identifier: GPL-2.0-only
#include "exports.hpp"

#include "host.hpp"
#include "sysfile.hpp"
#include "tls.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <limits>
#include <nlohmann/json.hpp>
#include <ranges>
#include <sys/file.h>
#include <sys/stat.h>
#include <uuid/uuid.h>

namespace weft
{

namespace fs = std::filesystem;
using json = nlohmann::ordered_json;

namespace
{

const fs::path book_path = "/etc/weft/exports.json";
const fs::path lock_path = "/run/weft/exports.lock";

json to_json(const export_spec& spec)
{
    // The first address stands where older versions have their only one.
    const auto& first = spec.addresses.front();
    json others = json::array();
    for (const auto& other : spec.addresses | std::views::drop(1))
        others.push_back(
            {{"address", other.at.address}, {"port", other.at.port}, {"own_port", other.own_port}});
    return {{"device", spec.device},
            {"subnqn", spec.subnqn},
            {"uuid", spec.uuid},
            {"transport", spec.transport()},
            {"address", first.at.address},
            {"port", first.at.port},
            {"own_port", first.own_port},
            {"other_addresses", others},
            {"any_host", spec.any_host},
            {"hosts", spec.hosts},
            {"p2pmem", spec.p2pmem},
            {"size", spec.size},
            {"identity", spec.identity},
            {"own_hosts", spec.own_hosts},
            {"dhchap_secret_file", spec.dhchap_secret_file},
            {"dhchap_ctrl_secret_file", spec.dhchap_ctrl_secret_file},
            {"tls_key_file", spec.tls_key_file},
            {"dhchap_hash", spec.dhchap_hash},
            {"dhchap_group", spec.dhchap_group}};
}

/// Refuses a number that does not fit its type.
template <typename Number>
Number number_of(const json& entry, const char* name)
{
    const auto& value = entry.at(name);
    if (!value.is_number_unsigned() || value.get<std::uint64_t>() > std::numeric_limits<Number>::max())
        throw json::out_of_range::create(401,
                                         fmt::format("{} is not a number from 0 to {}: {}", name,
                                                     std::numeric_limits<Number>::max(), value.dump()),
                                         nullptr);
    return value.get<Number>();
}

export_address address_from_json(const json& entry, const std::string& transport)
{
    export_address address;
    address.at.transport = transport;
    address.at.address = usual_address(entry.at("address").get<std::string>());
    address.at.port = number_of<decltype(address.at.port)>(entry, "port");
    entry.at("own_port").get_to(address.own_port);
    return address;
}

export_spec from_json(const json& entry)
{
    export_spec spec;
    entry.at("device").get_to(spec.device);
    entry.at("subnqn").get_to(spec.subnqn);
    entry.at("uuid").get_to(spec.uuid);
    const auto transport = entry.at("transport").get<std::string>();
    spec.addresses.push_back(address_from_json(entry, transport));
    // Exports of older versions have none, as of what is below.
    for (const auto& other : entry.value("other_addresses", json::array()))
        spec.addresses.push_back(address_from_json(other, transport));
    entry.at("any_host").get_to(spec.any_host);
    entry.at("hosts").get_to(spec.hosts);
    entry.at("p2pmem").get_to(spec.p2pmem);
    spec.size = number_of<decltype(spec.size)>(entry, "size");
    entry.at("own_hosts").get_to(spec.own_hosts);
    spec.identity = entry.value("identity", "");
    spec.dhchap_secret_file = entry.value("dhchap_secret_file", "");
    spec.dhchap_ctrl_secret_file = entry.value("dhchap_ctrl_secret_file", "");
    spec.tls_key_file = entry.value("tls_key_file", "");
    spec.dhchap_hash = entry.value("dhchap_hash", spec.dhchap_hash);
    spec.dhchap_group = entry.value("dhchap_group", spec.dhchap_group);
    // A misspelt one may be that of a secret.
    const auto known = to_json(spec);
    for (const auto& one : entry.items())
        if (!known.contains(one.key()))
            throw json::out_of_range::create(403, fmt::format("{} is not a key of an export", one.key()),
                                             nullptr);
    return spec;
}

// Users edit this file: check all values that become part of configfs paths.
result<void> check(const export_spec& spec)
{
    auto good = check_nqn(spec.subnqn);
    for (const auto& host : spec.hosts)
        if (good)
            good = check_nqn(host);
    for (const auto& [at, own] : spec.addresses) {
        if (good)
            good = check_address(at.address);
        if (good && !at.port)
            return fail(exit_code::usage, "0 is not a port");
        if (good && std::ranges::count(spec.addresses, at, &export_address::at) > 1)
            return fail(exit_code::usage, "{} has the address {} twice", spec.subnqn, at.text());
    }
    uuid_t parsed;
    if (good && uuid_parse(spec.uuid.c_str(), parsed))
        return fail(exit_code::usage, "'{}' is not a UUID", spec.uuid);
    if (good && (!spec.dhchap_ctrl_secret_file.empty() || !spec.dhchap_secret_file.empty()) &&
        (spec.any_host || spec.dhchap_secret_file.empty()))
        return fail(exit_code::usage,
                    "a secret belongs to the hosts in \"hosts\": it excludes \"any_host\", and the "
                    "target's own secret needs one of theirs");
    if (good && !spec.tls_key_file.empty() && (spec.any_host || spec.transport() != "tcp"))
        return fail(exit_code::usage,
                    "a TLS key belongs to the hosts in \"hosts\": it needs tcp and excludes \"any_host\"");
    if (good && !spec.tls_key_file.empty() && !spec.dhchap_secret_file.empty())
        return fail(exit_code::usage, "{}", tls_without_dhchap);
    if (good && spec.transport() != "rdma" && spec.transport() != "tcp")
        return fail(exit_code::usage, "no transport is called '{}'", spec.transport());
    return good;
}

bool same_device(const std::string& one, const std::string& other)
{
    struct stat first {
    };
    struct stat second {
    };
    return one == other ||
           (!::stat(one.c_str(), &first) && !::stat(other.c_str(), &second) && S_ISBLK(first.st_mode) &&
            S_ISBLK(second.st_mode) && first.st_rdev == second.st_rdev);
}

} // namespace

result<std::vector<export_spec>> parse_exports(const std::string& text, const std::string& where)
{
    std::vector<export_spec> all;
    try {
        const auto document = json::parse(text);
        if (document.at("version") != 1)
            return fail(exit_code::damaged, "{} is of version {}, this weftctl knows version 1", where,
                        document.at("version").dump());
        for (const auto& entry : document.at("exports")) {
            auto spec = from_json(entry);
            if (auto good = check(spec); !good)
                return fail(exit_code::damaged, "{}: {}", where, good.error().text);
            if (std::any_of(all.begin(), all.end(), [&](const auto& s) { return s.subnqn == spec.subnqn; }))
                return fail(exit_code::damaged, "{} has {} twice", where, spec.subnqn);
            all.push_back(std::move(spec));
        }
    } catch (const json::exception& problem) {
        return fail(exit_code::damaged, "{} is not what weftctl wrote: {}", where, problem.what());
    }
    return all;
}

result<export_book> export_book::load()
{
    export_book book;
    if (is_missing(book_path))
        return book;
    const auto text = read_text(book_path);
    if (!text)
        return fail(exit_code::permission, "{} cannot be read", book_path.string());
    auto entries = parse_exports(*text, book_path.string());
    if (!entries)
        return std::unexpected(entries.error());
    book.entries_ = std::move(*entries);
    book.text_ = *text;
    return book;
}

result<export_book> export_book::open()
{
    std::error_code ignored;
    fs::create_directories(lock_path.parent_path(), ignored);
    OwnedFd lock(::open(lock_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    if (!lock || ::flock(lock.get(), LOCK_EX))
        return fail(exit_code::permission, "{} cannot be locked: {}", lock_path.string(),
                    std::strerror(errno));
    auto book = load();
    if (book)
        book->lock_ = std::move(lock);
    return book;
}

result<void> export_book::save()
{
    json all = json::array();
    for (const auto& spec : entries_)
        all.push_back(to_json(spec));
    const auto text = json{{"version", 1}, {"exports", all}}.dump(2);
    // A service that waits for an export saves after each attempt.
    if (text == text_)
        return {};
    auto done = replace_file(book_path, text + "\n");
    if (done)
        text_ = text;
    return done;
}

result<void> check_same_disk(const export_spec& spec, const std::vector<std::string>& now)
{
    if (spec.identity.empty() || std::ranges::count(now, spec.identity))
        return {};
    return fail(exit_code::busy,
                "another disk is there: {}, and the one that was exported had {}; to export this one, run "
                "'weftctl unexport {}' first",
                now.empty() ? "it has no identifier" : "it has " + now.front(), spec.identity, spec.subnqn);
}

result<void> check_other_disk(const export_spec& spec, const std::vector<export_spec>& exports)
{
    for (const auto& other : exports)
        if (!spec.identity.empty() && other.identity == spec.identity)
            return fail(exit_code::busy, "{} has the identifier of {}, which is exported already, as {} ({})",
                        spec.device, other.device, other.subnqn, spec.identity);
    return {};
}

std::string uuid_name(const export_spec& spec)
{
    return "weft export " + (spec.identity.empty() ? spec.device : spec.identity);
}

const export_spec* export_book::find(const std::string& device_or_nqn) const
{
    for (const auto& spec : entries_)
        if (spec.subnqn == device_or_nqn || same_device(spec.device, device_or_nqn))
            return &spec;
    return nullptr;
}

result<void> export_book::check_tls_key(const export_spec& spec) const
{
    for (const auto& other : entries_)
        for (const auto& host : spec.hosts)
            if (!spec.tls_key_file.empty() && !other.tls_key_file.empty() &&
                other.tls_key_file != spec.tls_key_file && std::ranges::count(other.hosts, host))
                return fail(exit_code::busy, "{} has the TLS key {} for {}: name that one", host,
                            other.tls_key_file, other.device);
    return {};
}

result<std::vector<std::size_t>> export_book::select(const std::vector<std::string>& names, bool all) const
{
    std::vector<std::size_t> found;
    for (std::size_t i = 0; all && i < entries_.size(); i++)
        found.push_back(i);
    for (const auto& name : names) {
        const auto* spec = find(name);
        if (!spec)
            return fail(exit_code::missing, "{} is not an export of weftctl; 'weftctl exports' lists them",
                        name);
        found.push_back(static_cast<std::size_t>(spec - entries_.data()));
    }
    return found;
}

void export_book::remove(const std::string& subnqn)
{
    entries_.erase(
        std::remove_if(entries_.begin(), entries_.end(), [&](const auto& s) { return s.subnqn == subnqn; }),
        entries_.end());
}

result<void> export_book::serve(const nvmet& target, std::size_t index)
{
    auto& spec = entries_[index];
    for (auto& address : spec.addresses)
        address.own_port = false;
    spec.own_hosts.clear();
    auto done = target.add(spec);
    if (done)
        share(target, index);
    return done;
}

result<void> export_book::complete(const nvmet& target, std::size_t index)
{
    auto& spec = entries_[index];
    result<void> first;
    for (auto& address : spec.addresses)
        if (!nvmet::listens(spec, address.at))
            if (auto done = nvmet::listen(spec, address); !done && first)
                first = done;
    share(target, index);
    return first;
}

void export_book::share(const nvmet& target, std::size_t index)
{
    auto& spec = entries_[index];
    for (const auto& sibling : entries_) {
        if (sibling.subnqn == spec.subnqn || target.presence_of(sibling) == nvmet::presence::absent ||
            target.presence_of(sibling) == nvmet::presence::foreign)
            continue;
        for (const auto& theirs : sibling.addresses)
            if (auto* own = spec.find(theirs.at); own && nvmet::listens(sibling, theirs.at))
                own->own_port |= theirs.own_port;
        for (const auto& host : sibling.own_hosts)
            if (std::ranges::count(spec.hosts, host) && !std::ranges::count(spec.own_hosts, host))
                spec.own_hosts.push_back(host);
    }
}

std::string stable_path(const std::string& device)
{
    std::vector<std::string> names;
    std::error_code ignored;
    for (const auto* folder : {"/dev/disk/by-id", "/dev/disk/by-path"}) {
        for (const auto& entry : fs::directory_iterator(folder, ignored))
            if (same_device(entry.path(), device))
                names.push_back(entry.path());
        if (!names.empty())
            break;
    }
    return names.empty() ? device : most_stable(names);
}

std::string most_stable(const std::vector<std::string>& links)
{
    const auto rank = [](const std::string& link) {
        const auto is_any = [&](const auto& kinds) {
            return std::ranges::any_of(kinds, [&](const auto* kind) { return link.find(kind) != link.npos; });
        };
        // The device's own id, then one made of model and serial number, then a name that anybody changes.
        constexpr std::array own{"/nvme-eui.", "/nvme-uuid.", "/wwn-", "/dm-uuid-", "/md-uuid-"};
        constexpr std::array given{"/dm-name-", "/md-name-"};
        return is_any(own) ? 0 : is_any(given) ? 2 : 1;
    };
    return std::ranges::min(links, {}, [&](const std::string& link) { return std::pair(rank(link), link); });
}

result<std::string> named_uuid(const std::string& name)
{
    const auto machine = machine_uuid();
    if (!machine)
        return fail(exit_code::missing,
                    "/etc/machine-id is missing; run 'systemd-machine-id-setup' to create it");
    uuid_t space;
    if (uuid_parse(machine->c_str(), space))
        return fail(exit_code::damaged, "/etc/machine-id holds '{}', which is not a machine id", *machine);
    uuid_t made;
    uuid_generate_sha1(made, space, name.c_str(), name.size());
    char out[UUID_STR_LEN];
    uuid_unparse_lower(made, out);
    return std::string(out);
}

} // namespace weft
