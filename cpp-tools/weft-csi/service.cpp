// SPDX-License-Identifier: GPL-2.0-only
#include "service.hpp"

#include "volumes.hpp"

#include <result.hpp>
#include <superblock.hpp>

#include <exception>
#include <fmt/format.h>

namespace weft
{

namespace
{

using namespace csi::v1;
using grpc::ServerContext;
using grpc::Status;
using grpc::StatusCode;

/// Longer messages do not fit into gRPC's trailers.
constexpr std::size_t message_most = 2048;

template <typename... Args>
Status invalid(fmt::format_string<Args...> text, Args&&... args)
{
    return {StatusCode::INVALID_ARGUMENT, fmt::format(text, std::forward<Args>(args)...)};
}

/// Calls a function that may throw: gRPC would end the program.
template <typename Call>
Status guarded(const Call& call)
{
    try {
        const Status done = call();
        if (done.error_message().size() <= message_most)
            return done;
        return {done.error_code(), done.error_message().substr(0, message_most)};
    } catch (const std::exception& problem) {
        return {StatusCode::INTERNAL, problem.what()};
    }
}

Status check_volume(const std::string& id)
{
    weft_why why{};
    if (id.empty())
        return invalid("volume_id is missing");
    // A NUL would end it for the check.
    if (id.find('\0') != id.npos || weft_name_check(id.c_str(), &why))
        return invalid("volume_id is not the name of a volume: {}",
                       *why.text ? why.text : "it has a byte of zero");
    return Status::OK;
}

Status check_path(const std::string& path, const char* field)
{
    if (path.empty())
        return invalid("{} is missing", field);
    if (path.front() != '/' || path.find('\0') != path.npos)
        return invalid("{} is not an absolute path", field);
    return Status::OK;
}

/// The use that a capability requests.
Status parse(const VolumeCapability& capability, volume_use& use)
{
    switch (capability.access_mode().mode()) {
    case VolumeCapability::AccessMode::SINGLE_NODE_WRITER:
        use.read_only = false;
        break;
    case VolumeCapability::AccessMode::SINGLE_NODE_READER_ONLY:
    case VolumeCapability::AccessMode::MULTI_NODE_READER_ONLY:
        use.read_only = true;
        break;
    case VolumeCapability::AccessMode::UNKNOWN:
        return invalid("volume_capability has no access mode");
    default:
        return invalid("one host writes to a weft volume, or many read it: use SINGLE_NODE_WRITER or "
                       "MULTI_NODE_READER_ONLY");
    }
    switch (capability.access_type_case()) {
    case VolumeCapability::kBlock:
        use.block = true;
        return Status::OK;
    case VolumeCapability::kMount:
        use.filesystem = capability.mount().fs_type();
        use.flags.assign(capability.mount().mount_flags().begin(), capability.mount().mount_flags().end());
        return Status::OK;
    default:
        return invalid("volume_capability is neither 'block' nor 'mount'; use one of the two");
    }
}

/// The volume's attributes, which Kubernetes passes to each call.
template <typename Context>
Status read_context(const Context& context, volume_use& use)
{
    for (const auto& [key, value] : context) {
        if (key == "members")
            use.members = value;
        // Kubernetes adds its own.
        else if (key.find('/') == key.npos)
            return invalid("volumeAttributes have no '{}'; use 'members'", key);
    }
    return Status::OK;
}

/// The first that is not OK.
template <typename... Checks>
Status first_failure(Checks... checks)
{
    Status found;
    static_cast<void>(((found = checks, found.ok()) && ...));
    return found;
}

void set(VolumeUsage& usage, VolumeUsage::Unit unit, const volume_usage::amount& amount)
{
    usage.set_unit(unit);
    usage.set_available(amount.available);
    usage.set_total(amount.total);
    usage.set_used(amount.used);
}

} // namespace

Status identity_service::GetPluginInfo(ServerContext* /*context*/, const GetPluginInfoRequest* /*request*/,
                                       GetPluginInfoResponse* response)
{
    response->set_name(csi_driver_name);
    response->set_vendor_version(WEFT_VERSION);
    return Status::OK;
}

Status identity_service::GetPluginCapabilities(ServerContext* /*context*/,
                                               const GetPluginCapabilitiesRequest* /*request*/,
                                               GetPluginCapabilitiesResponse* /*response*/)
{
    return Status::OK;
}

Status identity_service::Probe(ServerContext* /*context*/, const ProbeRequest* /*request*/,
                               ProbeResponse* response)
{
    return guarded([response] {
        auto done = probe();
        response->mutable_ready()->set_value(done.ok());
        return done;
    });
}

/// Runs a call for a volume, unless another runs: the orchestrator repeats calls that take long.
template <typename Call>
Status node_service::alone(const std::string& volume, const Call& call)
{
    if (auto valid = check_volume(volume); !valid.ok())
        return valid;
    {
        const std::lock_guard lock(mutex_);
        if (!busy_.insert(volume).second)
            return {StatusCode::ABORTED,
                    fmt::format("another call for volume {} is running; try again", volume)};
    }
    auto done = guarded(call);
    const std::lock_guard lock(mutex_);
    busy_.erase(volume);
    return done;
}

Status node_service::NodeStageVolume(ServerContext* /*context*/, const NodeStageVolumeRequest* request,
                                     NodeStageVolumeResponse* /*response*/)
{
    return alone(request->volume_id(), [request] {
        volume_use use;
        use.name = request->volume_id();
        const auto valid = first_failure(read_context(request->volume_context(), use),
                                         parse(request->volume_capability(), use),
                                         check_path(request->staging_target_path(), "staging_target_path"));
        return valid.ok() ? stage(use, request->staging_target_path()) : valid;
    });
}

Status node_service::NodeUnstageVolume(ServerContext* /*context*/, const NodeUnstageVolumeRequest* request,
                                       NodeUnstageVolumeResponse* /*response*/)
{
    return alone(request->volume_id(), [request] {
        const auto valid = check_path(request->staging_target_path(), "staging_target_path");
        return valid.ok() ? unstage(request->volume_id(), request->staging_target_path()) : valid;
    });
}

Status node_service::NodePublishVolume(ServerContext* /*context*/, const NodePublishVolumeRequest* request,
                                       NodePublishVolumeResponse* /*response*/)
{
    return alone(request->volume_id(), [request] {
        volume_use use;
        use.name = request->volume_id();
        const auto valid = first_failure(read_context(request->volume_context(), use),
                                         parse(request->volume_capability(), use),
                                         check_path(request->staging_target_path(), "staging_target_path"),
                                         check_path(request->target_path(), "target_path"));
        if (!valid.ok())
            return valid;
        return publish(use, request->staging_target_path(), request->target_path(),
                       request->readonly() || use.read_only);
    });
}

Status node_service::NodeUnpublishVolume(ServerContext* /*context*/,
                                         const NodeUnpublishVolumeRequest* request,
                                         NodeUnpublishVolumeResponse* /*response*/)
{
    return alone(request->volume_id(), [request] {
        const auto valid = check_path(request->target_path(), "target_path");
        return valid.ok() ? unpublish(request->volume_id(), request->target_path()) : valid;
    });
}

Status node_service::NodeGetVolumeStats(ServerContext* /*context*/, const NodeGetVolumeStatsRequest* request,
                                        NodeGetVolumeStatsResponse* response)
{
    return guarded([request, response] {
        const auto valid = first_failure(check_volume(request->volume_id()),
                                         check_path(request->volume_path(), "volume_path"));
        if (!valid.ok())
            return valid;
        volume_usage usage;
        auto done = measure(request->volume_id(), request->volume_path(), usage);
        if (!done.ok())
            return done;
        if (usage.counted)
            set(*response->add_usage(), VolumeUsage::BYTES, usage.bytes);
        if (usage.counted && !usage.block)
            set(*response->add_usage(), VolumeUsage::INODES, usage.inodes);
        auto* condition = response->mutable_volume_condition();
        condition->set_abnormal(!usage.problem.empty());
        condition->set_message(usage.problem.empty() ? "the volume works" : usage.problem);
        return done;
    });
}

Status node_service::NodeGetCapabilities(ServerContext* /*context*/,
                                         const NodeGetCapabilitiesRequest* /*request*/,
                                         NodeGetCapabilitiesResponse* response)
{
    for (const auto type :
         {NodeServiceCapability::RPC::STAGE_UNSTAGE_VOLUME, NodeServiceCapability::RPC::GET_VOLUME_STATS,
          NodeServiceCapability::RPC::VOLUME_CONDITION})
        response->add_capabilities()->mutable_rpc()->set_type(type);
    return Status::OK;
}

Status node_service::NodeGetInfo(ServerContext* /*context*/, const NodeGetInfoRequest* /*request*/,
                                 NodeGetInfoResponse* response)
{
    response->set_node_id(node_id_);
    return Status::OK;
}

Status registration_service::GetInfo(ServerContext* /*context*/,
                                     const pluginregistration::InfoRequest* /*request*/,
                                     pluginregistration::PluginInfo* response)
{
    response->set_type("CSIPlugin");
    response->set_name(csi_driver_name);
    response->set_endpoint(socket_);
    response->add_supported_versions("1.0.0"); // of CSI: all of version 1
    return Status::OK;
}

Status
registration_service::NotifyRegistrationStatus(ServerContext* /*context*/,
                                               const pluginregistration::RegistrationStatus* request,
                                               pluginregistration::RegistrationStatusResponse* /*response*/)
{
    if (!request->plugin_registered())
        complain("weft-csi: the kubelet refuses this plugin: {}\n", request->error());
    return Status::OK;
}

} // namespace weft
