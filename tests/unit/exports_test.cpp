// SPDX-License-Identifier: GPL-2.0-only
#include "exports.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace
{

using namespace weft;
using nlohmann::json;

json entry()
{
    return {{"device", "/dev/nvme1n1"},
            {"subnqn", "nqn.2014-08.org.example:a"},
            {"uuid", "1b4e28ba-2fa1-11d2-883f-0016d3cca427"},
            {"transport", "tcp"},
            {"address", "10.0.0.1"},
            {"port", 4420},
            {"any_host", true},
            {"hosts", json::array()},
            {"p2pmem", "off"},
            {"size", 1048576},
            {"own_port", true},
            {"own_hosts", json::array()}};
}

result<std::vector<export_spec>> parse(const json& exports)
{
    return parse_exports(json{{"version", 1}, {"exports", exports}}.dump(), "a file");
}

TEST(exports, are_what_was_saved)
{
    const auto all = parse(json::array({entry()}));
    ASSERT_TRUE(all) << all.error().text;
    ASSERT_EQ(all->size(), 1U);
    ASSERT_EQ(all->front().addresses.size(), 1U);
    EXPECT_EQ(all->front().addresses[0].at, (nvme_address{"tcp", "10.0.0.1", 4420}));
    EXPECT_TRUE(all->front().addresses[0].own_port);
    EXPECT_EQ(all->front().size, 1048576U);
}

TEST(exports, have_several_addresses)
{
    auto one = entry();
    one["other_addresses"] =
        json::array({json{{"address", "10.1.0.1"}, {"port", 4421}, {"own_port", false}}});
    const auto all = parse(json::array({one}));
    ASSERT_TRUE(all) << all.error().text;
    ASSERT_EQ(all->front().addresses.size(), 2U);
    EXPECT_EQ(all->front().addresses[1].at, (nvme_address{"tcp", "10.1.0.1", 4421}));
    EXPECT_FALSE(all->front().addresses[1].own_port);

    for (const auto& [name, bad] : {std::pair{"address", json("10.0.0.1")},
                                    {"address", json("node7")},
                                    {"port", json(0)},
                                    {"port", json(70000)}}) {
        auto other = json{{"address", "10.1.0.1"}, {"port", 4420}, {"own_port", false}};
        other[name] = bad;
        one["other_addresses"] = json::array({other});
        EXPECT_FALSE(parse(json::array({one}))) << other;
    }
}

TEST(exports, have_numbers_that_fit)
{
    for (const auto& port : {json(99999999), json(65536), json(0), json(-1), json(4420.5), json("4420")}) {
        auto one = entry();
        one["port"] = port;
        const auto all = parse(json::array({one}));
        ASSERT_FALSE(all) << port;
        EXPECT_EQ(all.error().code, exit_code::damaged);
        EXPECT_NE(all.error().text.find("port"), std::string::npos) << all.error().text;
    }
    auto one = entry();
    one["size"] = -1;
    EXPECT_FALSE(parse(json::array({one})));
}

TEST(exports, are_there_once)
{
    const auto twice = parse(json::array({entry(), entry()}));
    ASSERT_FALSE(twice);
    EXPECT_NE(twice.error().text.find("twice"), std::string::npos);
}

} // namespace
