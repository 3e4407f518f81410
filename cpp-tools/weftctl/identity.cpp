// SPDX-License-Identifier: GPL-2.0-only
#include "identity.hpp"

#include "sysfile.hpp"

#include <filesystem>
#include <uuid/uuid.h>

namespace weft
{

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
           uuid_type(uuid) == UUID_TYPE_DCE_RANDOM;
}

std::vector<doubtful_namespace> doubtful_namespaces(const connection& link)
{
    const auto* const type = link.initiator == "weft" ? "weft-rdma" : "nvme";
    const auto model = read_text("/sys/class/" + (type + ("/" + link.controller)) + "/model").value_or("");
    std::vector<doubtful_namespace> found;
    for (const auto& disk : link.disks) {
        const auto name = std::filesystem::path(disk).filename().string();
        const auto wwid = read_text("/sys/block/" + name + "/wwid").value_or("");
        if (looks_made_up(wwid, model))
            found.push_back({disk, wwid});
    }
    return found;
}

} // namespace weft
