// SPDX-License-Identifier: GPL-2.0-only
#include "superblock.hpp"

#include <cstring>
#include <functional>
#include <gtest/gtest.h>

namespace
{

weft_sb_info sample()
{
    weft_sb_info info{};
    for (int i = 0; i < WEFT_UUID_SIZE; i++) {
        info.volume_uuid[i] = static_cast<std::uint8_t>(i + 1);
        info.member_uuid[i] = static_cast<std::uint8_t>(0xf0 - i);
    }
    std::strcpy(info.name, "training-data_1");
    info.member_index = 2;
    info.member_count = 4;
    info.chunk_size = 128 << 10;
    info.block_size = 512;
    info.data_offset = WEFT_DATA_OFFSET;
    info.data_size = std::uint64_t{128 << 10} * 1000;
    info.copy_offset = info.data_offset + info.data_size + 4096;
    info.generation = 7;
    info.created = 1700000000;
    return info;
}

weft_superblock encode(const weft_sb_info& info)
{
    weft_superblock sb{};
    weft_sb_encode(&info, &sb);
    return sb;
}

int decode(const weft_superblock& sb, std::string* text = nullptr)
{
    weft_sb_info info{};
    weft_why why{};
    const int err = weft_sb_decode(&sb, &info, &why);
    if (text)
        *text = why.text;
    if (err)
        EXPECT_STRNE(why.text, "");
    return err;
}

TEST(Crc, IsCrc32c)
{
    EXPECT_EQ(~crc32c(~0u, "123456789", 9), 0xe3069283u); // RFC 3720, B.4's polynomial; the usual check value
}

TEST(Superblock, HasItsBytesWhereTheFormatSays)
{
    const auto sb = encode(sample());
    EXPECT_EQ(sizeof(sb), 4096u);
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(&sb);
    EXPECT_EQ(std::memcmp(bytes, "weft\x1aSB\n", 8), 0);
    EXPECT_EQ(bytes[12], 1);     // major
    EXPECT_EQ(bytes[40], 1);     // volume uuid
    EXPECT_EQ(bytes[56], 't');   // name
    EXPECT_EQ(bytes[88], 0xf0);  // member uuid
    EXPECT_EQ(bytes[104], 2);    // index
    EXPECT_EQ(bytes[106], 4);    // count
    EXPECT_EQ(bytes[110], 2);    // chunk, third byte of 0x20000
    EXPECT_EQ(bytes[122], 0x10); // data offset, third byte of 0x100000
}

TEST(Superblock, ReadsBackWhatWasWritten)
{
    const auto info = sample();
    const auto sb = encode(info);
    weft_sb_info back{};
    weft_why why{};
    ASSERT_EQ(weft_sb_decode(&sb, &back, &why), 0) << why.text;
    const auto again = encode(back);
    EXPECT_EQ(std::memcmp(&sb, &again, sizeof(sb)), 0);
}

TEST(Superblock, EveryFlippedBitIsSeen)
{
    const auto good = encode(sample());
    for (std::size_t byte = 0; byte < sizeof(good); byte++) {
        auto bad = good;
        reinterpret_cast<std::uint8_t*>(&bad)[byte] ^= static_cast<std::uint8_t>(1u << (byte % 8));
        ASSERT_NE(decode(bad), 0) << "byte " << byte;
    }
}

TEST(Superblock, TornHalvesAreSeen)
{
    auto other = sample();
    other.generation = 8;
    const auto a = encode(sample());
    const auto b = encode(other);
    for (std::size_t cut = 512; cut < sizeof(a); cut += 512) {
        auto torn = a;
        std::memcpy(reinterpret_cast<char*>(&torn) + cut, reinterpret_cast<const char*>(&b) + cut,
                    sizeof(a) - cut);
        if (std::memcmp(&torn, &a, sizeof(a)) && std::memcmp(&torn, &b, sizeof(b)))
            ASSERT_EQ(decode(torn), -EBADMSG) << cut;
    }
}

// Each field made impossible, with a right checksum: what a hostile or broken writer could leave.
TEST(Superblock, EveryImpossibleFieldIsRefused)
{
    struct flaw {
        const char* what;
        int err;
        std::function<void(weft_superblock&)> make;
    };
    const std::vector<flaw> flaws = {
        {"major", -EOPNOTSUPP, [](auto& sb) { sb.version_major = htole16(2); }},
        {"major 0", -EOPNOTSUPP, [](auto& sb) { sb.version_major = 0; }},
        {"incompat", -EOPNOTSUPP, [](auto& sb) { sb.feature_incompat = htole64(1ull << 63); }},
        {"name empty", -EINVAL, [](auto& sb) { std::memset(sb.volume_name, 0, sizeof(sb.volume_name)); }},
        {"name slash", -EINVAL, [](auto& sb) { sb.volume_name[3] = '/'; }},
        {"name dot", -EINVAL, [](auto& sb) { sb.volume_name[3] = '.'; }},
        {"name high bit", -EINVAL, [](auto& sb) { sb.volume_name[3] = 0xc3; }},
        {"name endless", -EINVAL, [](auto& sb) { std::memset(sb.volume_name, 'a', sizeof(sb.volume_name)); }},
        {"name long", -ENAMETOOLONG,
         [](auto& sb) { std::memset(sb.volume_name, 'a', sizeof(sb.volume_name) - 1); }},
        {"count 0", -EINVAL, [](auto& sb) { sb.member_count = 0; }},
        {"count 257", -EINVAL, [](auto& sb) { sb.member_count = htole16(257); }},
        {"index", -EINVAL, [](auto& sb) { sb.member_index = sb.member_count; }},
        {"chunk 0", -EINVAL, [](auto& sb) { sb.chunk_size = 0; }},
        {"chunk odd", -EINVAL, [](auto& sb) { sb.chunk_size = htole32(128000); }},
        {"chunk small", -EINVAL, [](auto& sb) { sb.chunk_size = htole32(2048); }},
        {"chunk large", -EINVAL, [](auto& sb) { sb.chunk_size = htole32(32 << 20); }},
        {"block 0", -EINVAL, [](auto& sb) { sb.block_size = 0; }},
        {"block 1024", -EINVAL, [](auto& sb) { sb.block_size = htole32(1024); }},
        {"data at 0", -EINVAL, [](auto& sb) { sb.data_offset = 0; }},
        {"data on the owner", -EINVAL, [](auto& sb) { sb.data_offset = htole64(4096); }},
        {"data odd", -EINVAL, [](auto& sb) { sb.data_offset = htole64(WEFT_DATA_OFFSET + 512); }},
        {"data far", -EINVAL, [](auto& sb) { sb.data_offset = htole64(~4095ull); }},
        {"size 0", -EINVAL, [](auto& sb) { sb.data_size = 0; }},
        {"size odd", -EINVAL, [](auto& sb) { sb.data_size = htole64((128 << 10) + 4096); }},
        {"size huge", -EINVAL, [](auto& sb) { sb.data_size = htole64(1ull << 62); }},
        {"copy in data", -EINVAL, [](auto& sb) { sb.copy_offset = htole64(WEFT_DATA_OFFSET); }},
        {"copy odd", -EINVAL, [](auto& sb) { sb.copy_offset = htole64(le64toh(sb.copy_offset) + 512); }},
        {"copy huge", -EINVAL, [](auto& sb) { sb.copy_offset = htole64(1ull << 63); }},
    };
    for (const auto& flaw : flaws) {
        auto sb = encode(sample());
        flaw.make(sb);
        sb.checksum = htole32(weft_sb_checksum(&sb));
        std::string text;
        EXPECT_EQ(decode(sb, &text), flaw.err) << flaw.what << ": " << text;
    }
}

TEST(Superblock, CopyBelongsWhereItSays)
{
    const auto info = sample();
    weft_why why{};
    EXPECT_EQ(weft_sb_is_copy(&info, info.copy_offset, &why), 0);
    EXPECT_STREQ(why.text, "");
    // The last partition's copy, seen from the start of the disk.
    EXPECT_EQ(weft_sb_is_copy(&info, info.copy_offset + (1 << 20), &why), -ENODATA);
    EXPECT_STRNE(why.text, "");
}

TEST(Superblock, DataLeavesRoomForRecordAndClaim)
{
    auto info = sample();
    info.data_offset = WEFT_CLAIM_OFFSET;
    EXPECT_EQ(decode(encode(info)), -EINVAL);
    info.data_offset = WEFT_CLAIM_OFFSET + WEFT_SB_SIZE;
    EXPECT_EQ(decode(encode(info)), 0);
}

TEST(Superblock, UnknownCompatibleBitsAreNoReason)
{
    auto info = sample();
    info.feature_compat = ~0ull;
    info.feature_ro_compat = 1; // refused read-write, by the kernel
    EXPECT_EQ(decode(encode(info)), 0);
}

TEST(Superblock, FitsADeviceThatHoldsItsCopy)
{
    const auto info = sample();
    weft_why why{};
    EXPECT_EQ(weft_sb_fits(&info, info.copy_offset + 4096, 512, &why), 0);
    EXPECT_EQ(weft_sb_fits(&info, info.copy_offset + 4095, 512, &why), -ENOSPC);
    why = {};
    EXPECT_EQ(weft_sb_fits(&info, info.copy_offset + 4096, 4096, &why), -EINVAL);
    EXPECT_EQ(weft_sb_fits(&info, 0, 512, &why), -ENOSPC);
}

TEST(Superblock, StrangersAreTold)
{
    const auto a = sample();
    auto b = sample();
    b.member_index = 3;
    b.member_uuid[0] ^= 1;
    weft_why why{};
    EXPECT_EQ(weft_sb_same_volume(&a, &b, &why), 0);
    b.volume_uuid[5] ^= 1;
    EXPECT_EQ(weft_sb_same_volume(&a, &b, &why), -EXDEV);
    b = sample();
    b.generation++;
    EXPECT_EQ(weft_sb_same_volume(&a, &b, &why), -ESTALE);
    b = sample();
    b.chunk_size <<= 1;
    EXPECT_EQ(weft_sb_same_volume(&a, &b, &why), -EINVAL);
}

TEST(Plan, LeavesRoomForBothSuperblocks)
{
    EXPECT_EQ(weft_sb_copy_offset(0), 0u);
    EXPECT_EQ(weft_sb_copy_offset(4095), 0u);
    EXPECT_EQ(weft_sb_copy_offset((1 << 20) + 4096 + 511), 1u << 20);
    EXPECT_EQ(weft_sb_data_size(1 << 20, 4096), 0u);
    EXPECT_EQ(weft_sb_data_size((1 << 20) + 4096, 4096), 0u);
    EXPECT_EQ(weft_sb_data_size((1 << 20) + 8192, 4096), 4096u);
    EXPECT_EQ(weft_sb_data_size((1 << 20) + (128 << 10), 128 << 10), 0u);
    EXPECT_EQ(weft_sb_data_size(256 << 20, 128 << 10), std::uint64_t{254} << 20 | 7 << 17);
}

weft_owner_info owner()
{
    weft_owner_info info{};
    info.state = WEFT_OWNER_HELD;
    info.interval_ms = 1000;
    info.outlast_ms = 26000;
    info.sequence = 5;
    std::strcpy(info.host_nqn, "nqn.2014-08.org.nvmexpress:uuid:0");
    info.machine[0] = 1;
    info.machine[WEFT_UUID_SIZE - 1] = 2;
    return info;
}

TEST(Owner, ReadsBackAndSeesEveryFlip)
{
    const auto info = owner();
    weft_owner record{};
    weft_owner_encode(&info, &record);
    weft_owner_info back{};
    weft_why why{};
    ASSERT_EQ(weft_owner_decode(&record, &back, &why), 0);
    EXPECT_STREQ(back.host_nqn, info.host_nqn);
    EXPECT_EQ(std::memcmp(back.machine, info.machine, sizeof(info.machine)), 0);
    EXPECT_EQ(back.sequence, 5u);
    EXPECT_EQ(back.outlast_ms, 26000u);
    for (std::size_t byte = 0; byte < sizeof(record); byte++) {
        auto bad = record;
        reinterpret_cast<std::uint8_t*>(&bad)[byte] ^= 0x10;
        ASSERT_EQ(weft_owner_decode(&bad, &back, &why), -EBADMSG) << byte;
    }
}

TEST(Owner, ZeroesAreNobody)
{
    const weft_owner record{};
    weft_owner_info back{};
    weft_why why{};
    EXPECT_EQ(weft_owner_decode(&record, &back, &why), -ENODATA);
}

/// What reading a record with these values returns.
int read_back(const weft_owner_info& info)
{
    weft_owner record{};
    weft_owner_encode(&info, &record);
    weft_owner_info back{};
    weft_why why{};
    return weft_owner_decode(&record, &back, &why);
}

TEST(Owner, ImpossibleIntervalsAreRefused)
{
    for (const auto interval : {0u, 99u, 60001u, ~0u}) {
        auto info = owner();
        info.interval_ms = interval;
        EXPECT_EQ(read_back(info), -EBADMSG) << interval;
    }
}

TEST(Owner, LateWritesHaveABound)
{
    for (const auto outlast : {0u, WEFT_OUTLAST_MAX_MS + 0u, WEFT_OUTLAST_MAX_MS + 1u, ~0u}) {
        auto info = owner();
        info.outlast_ms = outlast;
        EXPECT_EQ(read_back(info), outlast <= WEFT_OUTLAST_MAX_MS ? 0 : -EBADMSG) << outlast;
    }
}

weft::owner_copy copy_of(const weft_owner_info& info)
{
    return {info, 0, ""};
}

TEST(Owner, TheNewerOfRecordAndClaimCounts)
{
    auto late = owner();
    auto claim = owner();
    late.generation = 3;
    claim.generation = 4;
    std::strcpy(claim.host_nqn, "nqn.2014-08.org.nvmexpress:uuid:1");
    const auto holder = [](const weft_owner_info& record, const weft_owner_info& claimed) -> std::string {
        const auto one = copy_of(record);
        const auto other = copy_of(claimed);
        const auto& decides = weft::deciding(one, other);
        return decides.held() ? decides.info->host_nqn : "nobody";
    };
    EXPECT_EQ(holder(late, claim), claim.host_nqn) << "a former owner's late heartbeat";
    late.state = WEFT_OWNER_FREE;
    EXPECT_EQ(holder(late, claim), claim.host_nqn) << "a former owner's late release";
    late.generation = 4;
    EXPECT_EQ(holder(late, claim), "nobody") << "released after the claim";
    late.generation = 5;
    EXPECT_EQ(holder(late, claim), "nobody");
    claim.volume_uuid[0] ^= 1;
    late.generation = 3;
    EXPECT_EQ(holder(late, claim), "nobody") << "a claim to another volume";
}

TEST(Owner, TheClaimCountsWhereTheRecordIsLost)
{
    const weft::owner_copy none{{}, -ENODATA, "no owner record"};
    const weft::owner_copy damaged{{}, -EBADMSG, "the owner record is damaged"};
    const auto claim = copy_of(owner());
    EXPECT_TRUE(weft::deciding(none, claim).held());
    EXPECT_TRUE(weft::deciding(none, none).absent());
    EXPECT_EQ(weft::deciding(damaged, claim).err, -EBADMSG);
    EXPECT_TRUE(weft::deciding(claim, damaged).held());
}

TEST(Name, IsWhatADeviceFileCanBe)
{
    weft_why why{};
    for (const auto* name : {"a", "data", "A-b_9", "abcdefghijklmnopqrstuvwxyz"})
        EXPECT_EQ(weft_name_check(name, &why), 0) << name;
    for (const auto* name : {"", ".", "..", "a.mem", "a/b", "/", "a b", "-a", "a\n", "\xc3\xa4", "a!b"}) {
        why = {};
        EXPECT_EQ(weft_name_check(name, &why), -EINVAL) << name;
        EXPECT_STRNE(why.text, "");
    }
    why = {};
    EXPECT_EQ(weft_name_check("abcdefghijklmnopqrstuvwxyz0", &why), -ENAMETOOLONG);
}

TEST(Uuid, IsVersion4)
{
    std::uint8_t a[WEFT_UUID_SIZE] = {};
    std::uint8_t b[WEFT_UUID_SIZE] = {};
    weft::make_uuid(a);
    weft::make_uuid(b);
    EXPECT_NE(std::memcmp(a, b, sizeof(a)), 0);
    const auto text = weft::format_uuid(a);
    EXPECT_EQ(text.size(), 36u);
    EXPECT_EQ(text[14], '4');
}

} // namespace
