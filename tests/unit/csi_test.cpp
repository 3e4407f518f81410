// SPDX-License-Identifier: GPL-2.0-only
/// What weft-csi refuses, and what it says of itself. It does nothing to the host here.
#include <service.hpp>
#include <volumes.hpp>

#include <gtest/gtest.h>

namespace
{

using namespace csi::v1;
using grpc::StatusCode;

weft::node_service node("node17");

NodeStageVolumeRequest staging()
{
    NodeStageVolumeRequest request;
    request.set_volume_id("data");
    request.set_staging_target_path("/staging");
    auto& capability = *request.mutable_volume_capability();
    capability.mutable_mount();
    capability.mutable_access_mode()->set_mode(VolumeCapability::AccessMode::SINGLE_NODE_WRITER);
    return request;
}

void expect_invalid(const NodeStageVolumeRequest& request, const std::string& sentence)
{
    NodeStageVolumeResponse response;
    const auto done = node.NodeStageVolume(nullptr, &request, &response);
    EXPECT_EQ(done.error_code(), StatusCode::INVALID_ARGUMENT);
    EXPECT_NE(done.error_message().find(sentence), std::string::npos) << done.error_message();
}

} // namespace

TEST(csi, names_are_checked)
{
    auto request = staging();
    request.set_volume_id("");
    expect_invalid(request, "volume_id is missing");
    for (const std::string name : {"..", "a/b", "-x", "a b", "../../etc/passwd"}) {
        request.set_volume_id(name);
        expect_invalid(request, "volume_id is not the name of a volume: ");
    }
    request.set_volume_id(std::string("a\0b", 3));
    expect_invalid(request, "a byte of zero");
    request.set_volume_id(std::string(1 << 20, 'a'));
    expect_invalid(request, "characters");
}

TEST(csi, paths_are_absolute)
{
    auto request = staging();
    request.set_staging_target_path("");
    expect_invalid(request, "staging_target_path is missing");
    request.set_staging_target_path("staging");
    expect_invalid(request, "staging_target_path is not an absolute path");
    request.set_staging_target_path(std::string("/a\0b", 4));
    expect_invalid(request, "staging_target_path is not an absolute path");
}

TEST(csi, one_host_writes_or_many_read)
{
    auto request = staging();
    auto& capability = *request.mutable_volume_capability();
    for (const auto mode : {VolumeCapability::AccessMode::MULTI_NODE_SINGLE_WRITER,
                            VolumeCapability::AccessMode::MULTI_NODE_MULTI_WRITER,
                            VolumeCapability::AccessMode::SINGLE_NODE_SINGLE_WRITER,
                            VolumeCapability::AccessMode::SINGLE_NODE_MULTI_WRITER}) {
        capability.mutable_access_mode()->set_mode(mode);
        expect_invalid(request, "use SINGLE_NODE_WRITER or MULTI_NODE_READER_ONLY");
    }
    capability.mutable_access_mode()->set_mode(VolumeCapability::AccessMode::UNKNOWN);
    expect_invalid(request, "has no access mode");
    capability.clear_access_mode();
    expect_invalid(request, "has no access mode");
    request = staging();
    request.mutable_volume_capability()->clear_mount();
    expect_invalid(request, "neither 'block' nor 'mount'");
}

TEST(csi, attributes_are_known)
{
    auto request = staging();
    (*request.mutable_volume_context())["member"] = "/dev/nvme1n1";
    expect_invalid(request, "volumeAttributes have no 'member'; use 'members'");
}

TEST(csi, other_calls_check_names_and_paths_too)
{
    NodeUnstageVolumeRequest unstage;
    NodeUnstageVolumeResponse unstaged;
    unstage.set_volume_id("data");
    EXPECT_EQ(node.NodeUnstageVolume(nullptr, &unstage, &unstaged).error_message(),
              "staging_target_path is missing");
    NodePublishVolumeRequest publish;
    NodePublishVolumeResponse published;
    publish.set_volume_id("data");
    publish.set_staging_target_path("/staging");
    *publish.mutable_volume_capability() = staging().volume_capability();
    EXPECT_EQ(node.NodePublishVolume(nullptr, &publish, &published).error_message(),
              "target_path is missing");
    NodeUnpublishVolumeRequest unpublish;
    NodeUnpublishVolumeResponse unpublished;
    unpublish.set_target_path("/target");
    EXPECT_EQ(node.NodeUnpublishVolume(nullptr, &unpublish, &unpublished).error_message(),
              "volume_id is missing");
    NodeGetVolumeStatsRequest stats;
    NodeGetVolumeStatsResponse counted;
    stats.set_volume_id("data");
    EXPECT_EQ(node.NodeGetVolumeStats(nullptr, &stats, &counted).error_message(), "volume_path is missing");
}

TEST(csi, a_volume_of_another_command_is_known)
{
    using weft::has_assembled;
    EXPECT_TRUE(has_assembled(true, "assembled volume data of 2 members as /dev/weft/data"));
    EXPECT_TRUE(has_assembled(false, "volume data is assembled, but iopolicy cannot be set to numa: ..."));
    EXPECT_FALSE(has_assembled(true, "volume data is assembled already"));
    EXPECT_FALSE(has_assembled(false, "a volume called data is assembled already"));
    EXPECT_FALSE(
        has_assembled(false, "volume data is assembled already by another command, which has not ended"));
    EXPECT_FALSE(
        has_assembled(false, "volume data is assembled already, and another command is stopping it"));
    EXPECT_FALSE(has_assembled(false, "volume data is assembled already, but its QoS is not set: ..."));
    // The other command has the target by now, and this one had not.
    EXPECT_FALSE(has_assembled(false, "volume data: member 0 of 2 is missing"));
}

TEST(csi, the_plugin_says_what_it_is)
{
    weft::identity_service identity;
    GetPluginInfoResponse info;
    EXPECT_TRUE(identity.GetPluginInfo(nullptr, nullptr, &info).ok());
    EXPECT_EQ(info.name(), "weft.csi");
    EXPECT_FALSE(info.vendor_version().empty());
    GetPluginCapabilitiesResponse capabilities;
    EXPECT_TRUE(identity.GetPluginCapabilities(nullptr, nullptr, &capabilities).ok());
    NodeGetInfoResponse about;
    EXPECT_TRUE(node.NodeGetInfo(nullptr, nullptr, &about).ok());
    EXPECT_EQ(about.node_id(), "node17");
    NodeGetCapabilitiesResponse can;
    EXPECT_TRUE(node.NodeGetCapabilities(nullptr, nullptr, &can).ok());
    ASSERT_EQ(can.capabilities_size(), 3);
    EXPECT_EQ(can.capabilities(0).rpc().type(), NodeServiceCapability::RPC::STAGE_UNSTAGE_VOLUME);
}

TEST(csi, the_kubelet_finds_the_socket)
{
    weft::registration_service registration("/kubelet/plugins/weft.csi/csi.sock");
    pluginregistration::PluginInfo info;
    EXPECT_TRUE(registration.GetInfo(nullptr, nullptr, &info).ok());
    EXPECT_EQ(info.type(), "CSIPlugin");
    EXPECT_EQ(info.name(), "weft.csi");
    EXPECT_EQ(info.endpoint(), "/kubelet/plugins/weft.csi/csi.sock");
    ASSERT_EQ(info.supported_versions_size(), 1);
}
