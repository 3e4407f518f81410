// SPDX-License-Identifier: GPL-2.0-only
#include "tls.hpp"

#include <gtest/gtest.h>

using namespace weft;

namespace
{

/// The example of the NVMe/TCP specification, 3.6.1.5.
constexpr auto example = "NVMeTLSkey-1:01:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwNf9LrZ:";

std::string why(std::string_view text)
{
    const auto key = parse_tls_key(text, "x");
    return key ? "" : key.error().text;
}

TEST(Tls, TheExampleOfTheSpecificationIsRead)
{
    const auto key = parse_tls_key(example, "x");
    ASSERT_TRUE(key) << key.error().text;
    EXPECT_EQ(key->hash, 1U);
    ASSERT_EQ(key->key.size(), 32U);
    EXPECT_EQ(key->key.front(), 0x55);
    EXPECT_EQ(key->text(), example);
}

TEST(Tls, NewOnesHaveTheHashOfTheirLength)
{
    for (const std::size_t size : {32, 48}) {
        const auto key = new_tls_key(size);
        ASSERT_TRUE(key);
        EXPECT_EQ(hash_size(key->hash), size);
        const auto again = parse_tls_key(key->text(), "x");
        ASSERT_TRUE(again) << again.error().text;
        EXPECT_EQ(again->key, key->key);
    }
    EXPECT_NE(new_tls_key(32)->key, new_tls_key(32)->key);
}

TEST(Tls, OthersAreRefusedWithTheReasonAndWithoutTheKey)
{
    EXPECT_EQ(why("DHHC-1:00:AAAA:"), "x is not a TLS key: it is not of the form NVMeTLSkey-1:NN:BASE64:");
    EXPECT_EQ(why("NVMeTLSkey-1:03:AAAA:"),
              "x is not a TLS key: the two digits after NVMeTLSkey-1: must be 00 to 02");
    EXPECT_EQ(why("NVMeTLSkey-1:00:AAAA:"), "x is not a TLS key: its key must have 32 or 48 bytes");
    std::string wrong = example;
    wrong[20] = 'B';
    EXPECT_EQ(why(wrong), "x is not a TLS key: its checksum is wrong");
    wrong = example;
    wrong[14] = '2';
    EXPECT_EQ(why(wrong), "x is not a TLS key: its key must be as long as its hash");
}

} // namespace
