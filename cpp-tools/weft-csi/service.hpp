// SPDX-License-Identifier: GPL-2.0-only
/// The services Identity and Node of the Container Storage Interface, and Registration of Kubernetes'
/// kubelet.
#pragma once

#include <csi.grpc.pb.h>
#include <registration.grpc.pb.h>

#include <mutex>
#include <set>
#include <string>

namespace weft
{

constexpr auto csi_driver_name = "weft.csi";

class identity_service final : public csi::v1::Identity::Service
{
public:
    grpc::Status GetPluginInfo(grpc::ServerContext* context, const csi::v1::GetPluginInfoRequest* request,
                               csi::v1::GetPluginInfoResponse* response) override;
    grpc::Status GetPluginCapabilities(grpc::ServerContext* context,
                                       const csi::v1::GetPluginCapabilitiesRequest* request,
                                       csi::v1::GetPluginCapabilitiesResponse* response) override;
    grpc::Status Probe(grpc::ServerContext* context, const csi::v1::ProbeRequest* request,
                       csi::v1::ProbeResponse* response) override;
};

class node_service final : public csi::v1::Node::Service
{
public:
    explicit node_service(std::string node_id) : node_id_(std::move(node_id)) {}

    grpc::Status NodeStageVolume(grpc::ServerContext* context, const csi::v1::NodeStageVolumeRequest* request,
                                 csi::v1::NodeStageVolumeResponse* response) override;
    grpc::Status NodeUnstageVolume(grpc::ServerContext* context,
                                   const csi::v1::NodeUnstageVolumeRequest* request,
                                   csi::v1::NodeUnstageVolumeResponse* response) override;
    grpc::Status NodePublishVolume(grpc::ServerContext* context,
                                   const csi::v1::NodePublishVolumeRequest* request,
                                   csi::v1::NodePublishVolumeResponse* response) override;
    grpc::Status NodeUnpublishVolume(grpc::ServerContext* context,
                                     const csi::v1::NodeUnpublishVolumeRequest* request,
                                     csi::v1::NodeUnpublishVolumeResponse* response) override;
    grpc::Status NodeGetVolumeStats(grpc::ServerContext* context,
                                    const csi::v1::NodeGetVolumeStatsRequest* request,
                                    csi::v1::NodeGetVolumeStatsResponse* response) override;
    grpc::Status NodeGetCapabilities(grpc::ServerContext* context,
                                     const csi::v1::NodeGetCapabilitiesRequest* request,
                                     csi::v1::NodeGetCapabilitiesResponse* response) override;
    grpc::Status NodeGetInfo(grpc::ServerContext* context, const csi::v1::NodeGetInfoRequest* request,
                             csi::v1::NodeGetInfoResponse* response) override;

private:
    template <typename Call>
    grpc::Status alone(const std::string& volume, const Call& call);

    std::string node_id_;
    std::mutex mutex_;
    std::set<std::string> busy_; ///< volumes for which a call runs
};

class registration_service final : public pluginregistration::Registration::Service
{
public:
    /// `socket` is the path where the other services are.
    explicit registration_service(std::string socket) : socket_(std::move(socket)) {}

    grpc::Status GetInfo(grpc::ServerContext* context, const pluginregistration::InfoRequest* request,
                         pluginregistration::PluginInfo* response) override;
    grpc::Status NotifyRegistrationStatus(grpc::ServerContext* context,
                                          const pluginregistration::RegistrationStatus* request,
                                          pluginregistration::RegistrationStatusResponse* response) override;

private:
    std::string socket_;
};

} // namespace weft
