// SPDX-License-Identifier: GPL-2.0-only
#include "redact.hpp"

#include <gtest/gtest.h>

namespace
{

using weft::redact;

TEST(redact, blanks_nvme_secrets)
{
    EXPECT_EQ(redact("key DHHC-1:00:ia6zGodOr4SEG0Zzaw398rpY0wqipUWj4jWjUh4HWUz6aQ2n: end\n"),
              "key DHHC-1:[redacted] end\n");
    EXPECT_EQ(redact("NVMeTLSkey-1:01:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwNf9LrZ:"),
              "NVMeTLSkey-1:[redacted]");
}

TEST(redact, blanks_parameters_that_say_so)
{
    EXPECT_EQ(redact("root=/dev/vda rd.iscsi.password=hunter2 ro"),
              "root=/dev/vda rd.iscsi.password=[redacted] ro");
    EXPECT_EQ(redact("\"dhchap_secret\": \"abc def\", x"), "\"dhchap_secret\": [redacted], x");
    EXPECT_EQ(redact("netroot=iscsi:me:pw@10.0.0.1 x=http://u:p@h/ y"),
              "netroot=iscsi:[redacted]@10.0.0.1 x=http://[redacted]@h/ y");
    EXPECT_EQ(redact("TOKEN=abc\nnext\n"), "TOKEN=[redacted]\nnext\n");
}

TEST(redact, blanks_private_keys)
{
    EXPECT_EQ(redact("a\n-----BEGIN EC PRIVATE KEY-----\nMHcC\nAQEE\n-----END EC PRIVATE KEY-----\nb\n"),
              "a\n[redacted]\nb\n");
    EXPECT_EQ(redact("-----BEGIN PRIVATE KEY-----\nMHcC"), "[redacted]\n");
}

TEST(redact, leaves_the_rest)
{
    const std::string text =
        "volume data: 10.0.0.1, nqn.2014-08.org.nvmexpress:uuid:1b4e28ba, 100% of it\n\n";
    EXPECT_EQ(redact(text), text);
    EXPECT_EQ(redact(""), "");
    EXPECT_EQ(redact("no newline"), "no newline");
}

TEST(redact, takes_long_lines)
{
    const std::string much(1 << 20, 'x');
    EXPECT_EQ(redact(much), much);
    EXPECT_EQ(redact("://" + much + "@host token=" + much + " secret: \"" + much + "\"\n"),
              "://[redacted]@host token=[redacted] secret: [redacted]\n");
    const std::string zero("a\0token=b", 9);
    EXPECT_EQ(redact(zero), std::string("a\0token=[redacted]", 18));
}

} // namespace
