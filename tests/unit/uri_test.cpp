// SPDX-License-Identifier: GPL-2.0-only
#include "uri.hpp"

#include <gtest/gtest.h>

namespace
{

using namespace weft;

const std::string nqn = "nqn.2014-08.org.nvmexpress:uuid:1b4e28ba-2fa1-11d2-883f-0016d3cca427";

TEST(uri, takes_address_port_and_namespace_apart)
{
    const auto uri = parse_member_uri("tcp://10.0.0.1:4421/" + nqn + "?ns=7");
    ASSERT_TRUE(uri) << uri.error().text;
    EXPECT_EQ(uri->at, (nvme_address{"tcp", "10.0.0.1", 4421}));
    EXPECT_EQ(uri->subnqn, nqn);
    EXPECT_EQ(uri->nsid, 7U);
    EXPECT_EQ(uri->text(), "tcp://10.0.0.1:4421/" + nqn + "?ns=7");
}

TEST(uri, has_defaults)
{
    const auto uri = parse_member_uri("rdma://10.0.0.1/" + nqn);
    ASSERT_TRUE(uri) << uri.error().text;
    EXPECT_EQ(uri->at.port, 4420);
    EXPECT_EQ(uri->nsid, 1U);
    EXPECT_EQ(uri->text(), "rdma://10.0.0.1:4420/" + nqn);
}

TEST(uri, takes_ipv6_in_brackets)
{
    const auto uri = parse_member_uri("rdma://[fd00::1]:4420/nqn.a:b");
    ASSERT_TRUE(uri) << uri.error().text;
    EXPECT_EQ(uri->at.address, "fd00::1");
    EXPECT_EQ(uri->text(), "rdma://[fd00::1]:4420/nqn.a:b");
    const auto again = parse_member_uri(uri->text());
    ASSERT_TRUE(again);
    EXPECT_EQ(again->at, uri->at);
}

TEST(uri, of_one_ipv6_address_is_one_however_it_is_written)
{
    const auto usual = parse_member_uri("rdma://[fd00::1]/nqn.a:b");
    ASSERT_TRUE(usual);
    for (const auto* text : {"rdma://[FD00::1]/nqn.a:b", "rdma://[fd00:0:0:0:0:0:0:1]/nqn.a:b"}) {
        const auto uri = parse_member_uri(text);
        ASSERT_TRUE(uri) << text;
        EXPECT_EQ(uri->at, usual->at) << text;
    }
    const auto all = parse_addresses({"FD00::1"}, {});
    ASSERT_TRUE(all);
    EXPECT_EQ(all->front(), usual->at);
    EXPECT_FALSE(parse_addresses({"FD00::1", "[fd00::0001]:4420"}, {})) << "it is given twice";
}

TEST(uri, of_a_service_ends_at_the_port)
{
    const auto at = parse_service_uri("tcp://[fd00::1]:8009");
    ASSERT_TRUE(at) << at.error().text;
    EXPECT_EQ(at->text(), "tcp://[fd00::1]:8009");
    EXPECT_TRUE(parse_service_uri("rdma://10.0.0.1/"));
    EXPECT_FALSE(parse_service_uri("rdma://10.0.0.1/nqn.x"));
}

struct bad_uri {
    const char* text;
    const char* says;
};

class bad_uris : public testing::TestWithParam<bad_uri>
{
};

TEST_P(bad_uris, are_refused_with_the_reason)
{
    const auto uri = parse_member_uri(GetParam().text);
    ASSERT_FALSE(uri);
    EXPECT_EQ(uri.error().code, exit_code::usage);
    EXPECT_NE(uri.error().text.find(GetParam().says), std::string::npos) << uri.error().text;
}

INSTANTIATE_TEST_SUITE_P(
    all, bad_uris,
    testing::Values(
        bad_uri{"", "not a URI"}, bad_uri{"fc://10.0.0.1/nqn.x", "no transport is called 'fc'"},
        bad_uri{"rdma://", "not an IPv4"}, bad_uri{"rdma://10.0.0.1", "names no subsystem"},
        bad_uri{"rdma://10.0.0.1/", "names no subsystem"},
        bad_uri{"rdma://host7/nqn.x", "takes no host names"},
        bad_uri{"rdma://10.0.0.1:0/nqn.x", "'0' is not a port"},
        bad_uri{"rdma://10.0.0.1:65536/nqn.x", "is not a port"},
        bad_uri{"rdma://10.0.0.1:4420x/nqn.x", "is not a port"},
        bad_uri{"rdma://10.0.0.1:/nqn.x", "is not a port"}, bad_uri{"rdma://fd00::1/nqn.x", "in brackets"},
        bad_uri{"rdma://[fd00::1/nqn.x", "not closed"}, bad_uri{"rdma://[fd00::1]x/nqn.x", "is not a port"},
        bad_uri{"rdma://10.0.0.1/disk1", "starts with 'nqn.'"}, bad_uri{"rdma://10.0.0.1/nqn.a,b", "comma"},
        bad_uri{"rdma://10.0.0.1/nqn.a/../b", "slash"}, bad_uri{"rdma://10.0.0.1/nqn.a b", "blank"},
        bad_uri{"rdma://10.0.0.1/nqn.x?ns=0", "ns=NUMBER"}, bad_uri{"rdma://10.0.0.1/nqn.x?ns=", "ns=NUMBER"},
        bad_uri{"rdma://10.0.0.1/nqn.x?ns=4294967296", "ns=NUMBER"},
        bad_uri{"rdma://10.0.0.1/nqn.x?foo=1", "'foo=1' is not known"}));

TEST(nqn, is_at_most_223_bytes)
{
    EXPECT_TRUE(check_nqn("nqn." + std::string(219, 'x')));
    EXPECT_FALSE(check_nqn("nqn." + std::string(220, 'x')));
}

TEST(uri, of_what_is_listened_on)
{
    const nvme_address like{"tcp", "", 4430};
    const auto all = parse_addresses({"10.0.0.1", "10.0.0.1:4421", "fd00::1", "[fd00::1]:4421"}, like);
    ASSERT_TRUE(all) << all.error().text;
    EXPECT_EQ(*all, (std::vector<nvme_address>{{"tcp", "10.0.0.1", 4430},
                                               {"tcp", "10.0.0.1", 4421},
                                               {"tcp", "fd00::1", 4430},
                                               {"tcp", "fd00::1", 4421}}));
    for (const auto* bad :
         {"", "node7", "10.0.0.1:0", "10.0.0.1:70000", "10.0.0.1/24", "[fd00::1", "10.0.0.1:44x"})
        EXPECT_FALSE(parse_addresses({bad}, like)) << bad;
    EXPECT_FALSE(parse_addresses({"10.0.0.1", "10.0.0.1:4430"}, like));
}

} // namespace
