// SPDX-License-Identifier: GPL-2.0-only
#include "identity.hpp"

#include "device.hpp"
#include "sysfile.hpp"

#include <array>
#include <filesystem>
#include <sys/sysmacros.h>
#include <uuid/uuid.h>

namespace weft
{

namespace
{

/// First those of a disk that was made of others, which have identifiers, too.
constexpr std::array attributes{"dm/uuid", "md/uuid", "weft/uuid", "wwid", "device/wwid", "serial"};

} // namespace

const char* const made_up_why =
    "if the target generates it at each start, it changes then, and weft refuses the disk as another one";
const char* const made_up_fix =
    "give it a fixed identifier at the target: device_uuid of the namespace in configfs (Linux), "
    "nvmf_subsystem_add_ns --uuid and --nguid (SPDK); 'weftctl export' does so";

bool looks_made_up(std::string_view wwid, std::string_view model)
{
    constexpr std::string_view prefix = "uuid.";
    if (!wwid.starts_with(prefix) || !(model == "Linux" || model.starts_with("SPDK")))
        return false;
    uuid_t uuid;
    return !uuid_parse(std::string(wwid.substr(prefix.size())).c_str(), uuid) &&
           uuid_variant(uuid) == UUID_VARIANT_DCE && uuid_type(uuid) == UUID_TYPE_DCE_RANDOM;
}

std::vector<std::string> identities_of(dev_t number, const std::filesystem::path& numbers)
{
    const auto folder_of = [&](dev_t one) { return numbers / fmt::format("{}:{}", major(one), minor(one)); };
    const auto whole = whole_of(number, numbers);
    const auto disk = folder_of(whole.value_or(number));
    const auto start = read_text(folder_of(number) / "start").value_or("");
    const auto model = read_text(disk / "device/model").value_or("");
    std::vector<std::string> found;
    if (whole && start.empty())
        return found;
    for (const auto* name : attributes) {
        const auto value = read_text(disk / name).value_or("");
        // An array that does not have its metadata yet has a UUID of zeroes.
        if (value.find_first_not_of("0- ") == value.npos || looks_made_up(value, model))
            continue;
        found.push_back(fmt::format("{} {}{}", name, printable(value), whole ? ", sector " + start : ""));
    }
    return found;
}

std::vector<doubtful_namespace> doubtful_namespaces(const connection& link)
{
    const auto* const type = link.initiator == "weft" ? "weft-rdma" : "nvme";
    const auto model = read_text("/sys/class/" + (type + ("/" + link.controller)) + "/model").value_or("");
    std::vector<doubtful_namespace> found;
    for (const auto& disk : link.disks) {
        const auto name = std::filesystem::path(disk).filename().string();
        // SPDK takes an NGUID of the disk's if it is given only a UUID.
        const auto wwid = read_text("/sys/block/" + name + "/wwid").value_or("");
        const auto nguid = read_text("/sys/block/" + name + "/nguid").value_or("");
        if (looks_made_up(wwid, model))
            found.push_back({disk, wwid});
        else if (looks_made_up("uuid." + nguid, model))
            found.push_back({disk, "nguid " + nguid});
    }
    return found;
}

} // namespace weft
