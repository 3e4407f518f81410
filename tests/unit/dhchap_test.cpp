// SPDX-License-Identifier: GPL-2.0-only
#include "dhchap.hpp"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <gtest/gtest.h>
#include <linux/keyctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

using namespace weft;
using namespace std::literals;

namespace
{

/// The bytes 0 to 31; its checksum is that of Python's zlib.crc32().
constexpr auto counting = "DHHC-1:00:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh+KfiaR:";

std::string why(std::string_view text)
{
    const auto secret = parse_dhchap_secret(text, "x");
    return secret ? "" : secret.error().text;
}

TEST(Dhchap, KeyAndHashAreRead)
{
    const auto secret = parse_dhchap_secret(counting, "x");
    ASSERT_TRUE(secret) << secret.error().text;
    EXPECT_EQ(secret->hash, 0U);
    ASSERT_EQ(secret->key.size(), 32U);
    for (std::size_t i = 0; i < 32; i++)
        EXPECT_EQ(secret->key[i], i);
    EXPECT_EQ(secret->text(), counting);
}

TEST(Dhchap, NewOnesAreReadAgainAndDiffer)
{
    for (const auto& [size, hash] : {std::pair{32, 0}, {32, 1}, {48, 2}, {64, 3}, {64, 0}}) {
        const auto secret =
            new_dhchap_secret(static_cast<std::size_t>(size), static_cast<unsigned int>(hash));
        ASSERT_TRUE(secret);
        const auto again = parse_dhchap_secret(secret->text(), "x");
        ASSERT_TRUE(again) << again.error().text;
        EXPECT_EQ(again->key, secret->key);
        EXPECT_EQ(again->hash, secret->hash);
    }
    EXPECT_NE(new_dhchap_secret(32, 0)->key, new_dhchap_secret(32, 0)->key);
}

TEST(Dhchap, OthersAreRefusedWithTheReasonAndWithoutTheSecret)
{
    EXPECT_EQ(why(""), "x is not a secret: it is not of the form DHHC-1:NN:BASE64:");
    EXPECT_EQ(why("DHHC-1:00:"), "x is not a secret: it is not of the form DHHC-1:NN:BASE64:");
    EXPECT_EQ(why("DHHC-1:04:AAAA:"), "x is not a secret: the two digits after DHHC-1: must be 00 to 03");
    EXPECT_EQ(why("DHHC-1:00:A_AA:"), "x is not a secret: its third field is not base64");
    EXPECT_EQ(why("DHHC-1:00:AAA:"), "x is not a secret: its third field is not base64");
    EXPECT_EQ(why("DHHC-1:00:A===:"), "x is not a secret: its third field is not base64");
    EXPECT_EQ(why("DHHC-1:00:AA=A:"), "x is not a secret: its third field is not base64");
    EXPECT_EQ(why("DHHC-1:00:AAAA:"), "x is not a secret: its key must have 32, 48 or 64 bytes");
    std::string wrong = counting;
    wrong[12] = 'B';
    EXPECT_EQ(why(wrong), "x is not a secret: its checksum is wrong");
    wrong = counting;
    wrong[8] = '2';
    EXPECT_EQ(why(wrong), "x is not a secret: its key must be as long as its hash");
}

TEST(Dhchap, AFileThatOthersMayReadIsRefused)
{
    std::string name = testing::TempDir() + "secret.XXXXXX";
    ASSERT_GE(::mkstemp(name.data()), 0);
    std::ofstream(name) << counting << "\n";
    EXPECT_TRUE(read_dhchap_secret(name));
    ::chmod(name.c_str(), 0640);
    const auto open = read_dhchap_secret(name);
    ASSERT_FALSE(open);
    EXPECT_EQ(open.error().code, exit_code::permission);
    ::unlink(name.c_str());
    EXPECT_EQ(read_dhchap_secret(name).error().code, exit_code::missing);
    EXPECT_FALSE(read_dhchap_secret(testing::TempDir()));
}

/// A key in a keyring of this process or user, for as long as this lives.
class key
{
public:
    key(std::string description, const std::string& text, int keyring)
        : name("keyring:" + description),
          id(::syscall(SYS_add_key, "user", description.c_str(), text.data(), text.size(), keyring))
    {
    }
    key(const key&) = delete;
    key& operator=(const key&) = delete;
    ~key() { ::syscall(SYS_keyctl, KEYCTL_INVALIDATE, id); }

    std::string name;
    long id;
};

TEST(Dhchap, AKeyOfTheKeyringIsRead)
{
    const auto description = "weft-test-" + std::to_string(::getpid());
    EXPECT_EQ(read_dhchap_secret("keyring:" + description).error().code, exit_code::missing);
    for (const int keyring : {KEY_SPEC_USER_KEYRING, KEY_SPEC_PROCESS_KEYRING}) {
        const key one(description, counting + "\n"s, keyring);
        if (one.id < 0)
            GTEST_SKIP() << "no keyrings here: " << std::strerror(errno);
        const auto read = read_dhchap_secret(one.name);
        ASSERT_TRUE(read) << read.error().text;
        EXPECT_EQ(read->text(), counting);
        ASSERT_EQ(::syscall(SYS_keyctl, KEYCTL_SETPERM, one.id, 0x3f010002), 0);
        const auto open = read_dhchap_secret(one.name);
        ASSERT_FALSE(open);
        EXPECT_EQ(open.error().code, exit_code::permission);
    }
    const key other(description, "DHHC-1:00:" + std::string(600, 'A') + ":", KEY_SPEC_PROCESS_KEYRING);
    EXPECT_FALSE(read_dhchap_secret(other.name)) << "one that is too long is not read beyond the end";
}

} // namespace
