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
    EXPECT_EQ(all->front().at, (nvme_address{"tcp", "10.0.0.1", 4420}));
    EXPECT_EQ(all->front().size, 1048576U);
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
