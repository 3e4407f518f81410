// SPDX-License-Identifier: GPL-2.0-only
/// Files that appear whole or not at all.
#include "support.hpp"

#include <weft/new_file.hpp>
#include <weft/stream.hpp>
#include <weft/weft.h>

#include <algorithm>
#include <cstring>
#include <sys/stat.h>
#include <sys/wait.h>

namespace weft::test
{

namespace
{

/// A folder of its own, memory of random bytes, and an engine.
class NewFileTest : public LibraryTest
{
protected:
    NewFileTest() : memory_(must(Memory::allocate(size)))
    {
        std::filesystem::create_directory(folder_);
        std::mt19937 random(7);
        std::generate(memory_.data(), memory_.data() + size,
                      [&] { return static_cast<std::byte>(random()); });
    }
    ~NewFileTest() override { std::filesystem::remove_all(folder_); }
    [[nodiscard]] std::string path(const char* name = "new") const { return (folder_ / name).string(); }
    [[nodiscard]] std::vector<std::string> names() const
    {
        std::vector<std::string> all;
        for (const auto& one : std::filesystem::directory_iterator(folder_))
            all.push_back(one.path().filename());
        std::sort(all.begin(), all.end());
        return all;
    }
    /// Are these bytes of the file those of the memory?
    [[nodiscard]] bool is_there(std::uint64_t offset, std::uint64_t memory_offset, std::uint64_t length) const
    {
        std::ifstream file(path(), std::ios::binary);
        std::vector<char> bytes(length);
        file.seekg(static_cast<std::streamoff>(offset));
        file.read(bytes.data(), static_cast<std::streamsize>(length));
        return file.gcount() == static_cast<std::streamsize>(length) &&
               !std::memcmp(bytes.data(), memory_.data() + memory_offset, length);
    }
    static constexpr std::size_t size = 12 * mib;
    std::filesystem::path folder_ =
        std::filesystem::current_path() / ("weft-new-" + std::to_string(::getpid()));
    Memory memory_;
    Engine engine_ = must(Engine::create({.entries = 16}));
};

TEST_F(NewFileTest, ItAppearsWhole)
{
    // Pieces of all sizes, of which none begins or ends with a page.
    const std::uint64_t lengths[] = {10, 5000, 4096, 9 * mib + 1, 1, 4095, 100000};
    std::uint64_t total = 0;
    for (const auto length : lengths)
        total += length;
    auto file = must(NewFile::create(path(), total));
    EXPECT_EQ(file.size() % 4096, 0U);
    const auto registration = must(file.add(memory_, {.staged = true, .read_only = true}));
    std::uint64_t at = 0;
    for (const auto length : lengths) {
        const auto written = file.write(engine_, registration, at, at % 4096, length);
        ASSERT_TRUE(written) << written.error().text;
        at += length;
    }
    EXPECT_FALSE(std::filesystem::exists(path()));
    const auto done = file.finish();
    ASSERT_TRUE(done) << done.error().text;
    EXPECT_EQ(names(), std::vector<std::string>{"new"});
    EXPECT_EQ(std::filesystem::file_size(path()), total);
    at = 0;
    for (const auto length : lengths) {
        EXPECT_TRUE(is_there(at, at % 4096, length)) << at;
        at += length;
    }
    const auto umask = ::umask(0);
    ::umask(umask);
    struct stat status {
    };
    ASSERT_FALSE(::stat(path().c_str(), &status));
    EXPECT_EQ(status.st_mode & 0777U, 0666U & ~umask);
    // It is closed.
    EXPECT_EQ(file.write(engine_, registration, 0, 0, 1).error().code, EBADF);
    EXPECT_EQ(file.finish().error().code, EBADF);
    ASSERT_TRUE(engine_.write(file, registration, {0, 0, 4096}, 0));
    EXPECT_EQ(one(engine_).result, -EBADF);
}

TEST_F(NewFileTest, OrNotAtAll)
{
    std::ofstream(path()) << "the old one";
    {
        auto file = must(NewFile::create(path(), mib));
        const auto registration = must(file.add(memory_, {}));
        ASSERT_TRUE(file.write(engine_, registration, 0, 0, mib));
        EXPECT_EQ(names().size(), 2U);
        // One that has been moved is one file still.
        auto moved = std::move(file);
        auto other = must(NewFile::create(path("other"), 10));
        other = std::move(moved);
        ASSERT_TRUE(other.write(engine_, registration, 0, 0, mib));
    }
    EXPECT_EQ(names(), std::vector<std::string>{"new"});
    EXPECT_EQ(std::filesystem::file_size(path()), std::strlen("the old one"));
}

TEST_F(NewFileTest, StreamsWriteToIt)
{
    constexpr std::uint64_t total = 5 * mib + 777;
    auto file = must(NewFile::create(path(), total));
    auto window = must(Memory::allocate(2 * mib));
    const auto registration = must(file.add(window, {}));
    {
        auto stream = must(WriteStream::create(engine_, file, registration));
        for (auto piece = must(stream.next()); piece.length; piece = must(stream.next())) {
            std::memcpy(window.data() + piece.memory_offset, memory_.data() + piece.offset, piece.length);
            ASSERT_TRUE(stream.put(piece.length));
        }
        ASSERT_TRUE(stream.finish());
    }
    ASSERT_TRUE(file.finish());
    EXPECT_EQ(std::filesystem::file_size(path()), total);
    EXPECT_TRUE(is_there(0, 0, total));
}

TEST_F(NewFileTest, RangesAndSizesThatAreNone)
{
    auto file = must(NewFile::create(path(), 10000));
    const auto registration = must(file.add(memory_, {.staged = true}));
    const auto code = [&](std::uint64_t offset, std::uint64_t memory_offset, std::uint64_t length) {
        return file.write(engine_, registration, offset, memory_offset, length).error().code;
    };
    EXPECT_EQ(code(0, 0, 10001), EINVAL);
    EXPECT_EQ(code(10001, 0, 0), EINVAL);
    EXPECT_EQ(code(1, 0, ~std::uint64_t{0}), EINVAL);
    EXPECT_EQ(code(0, size - 10, 11), EINVAL);
    EXPECT_EQ(code(0, ~std::uint64_t{0}, 1), EINVAL);
    EXPECT_TRUE(file.write(engine_, registration, 10000, size, 0));
    EXPECT_EQ(NewFile::create(path(), ~std::uint64_t{0}).error().code, EFBIG);
    EXPECT_EQ(NewFile::create(path("none/new"), 1).error().code, ENOENT);
    for (const auto* none : {"", "/", "folder/"})
        EXPECT_EQ(NewFile::create(none, 1).error().code, EINVAL) << none;
    const auto full = NewFile::create(path("full"), std::uint64_t{1} << 60);
    ASSERT_FALSE(full);
    EXPECT_NE(full.error().text.find("1152921504606846976 bytes for " + path("full")), std::string::npos)
        << full.error().text;
    // What is written beyond the end is cut off.
    ASSERT_TRUE(engine_.write(file, registration, {file.size(), 0, 4096}, 0));
    EXPECT_EQ(one(engine_).result, 4096);
    EXPECT_TRUE(file.finish());
    EXPECT_EQ(std::filesystem::file_size(path()), 10000U);
    // Without copies, the pages of both sides have to meet.
    auto strict = must(NewFile::create(path("strict"), 100000));
    const auto pinned = must(strict.add(memory_, {}));
    EXPECT_TRUE(strict.write(engine_, pinned, 10, 10, 90000));
    if (strict.is_direct())
        EXPECT_EQ(strict.write(engine_, pinned, 10, 0, 90000).error().code, EINVAL);
    EXPECT_TRUE(strict.finish());
    auto longest = must(NewFile::create(path(std::string(255, 'x').c_str()), 0));
    EXPECT_TRUE(longest.finish());
    EXPECT_EQ(names().size(), 3U) << "two files and the longest name";
}

TEST_F(NewFileTest, NothingButAFileIsReplaced)
{
    const auto make = [&](const std::string& name) {
        const auto at = path(name.c_str());
        if (name == "folder")
            std::filesystem::create_directory(at);
        else if (name == "pipe")
            EXPECT_FALSE(::mkfifo(at.c_str(), 0600));
        else
            std::filesystem::create_symlink("/dev/null", at);
    };
    for (const std::string name : {"folder", "pipe", "device"}) {
        auto late = must(NewFile::create(path(name.c_str()), 5));
        make(name);
        const auto kind = std::filesystem::symlink_status(path(name.c_str())).type();
        const auto refused = late.finish();
        ASSERT_FALSE(refused) << name;
        EXPECT_EQ(refused.error().code, EEXIST) << name;
        const auto next = NewFile::create(path(name.c_str()), 5);
        ASSERT_FALSE(next) << name;
        EXPECT_EQ(next.error().code, EEXIST) << name;
        EXPECT_NE(next.error().text.find(path(name.c_str()) + " is not a regular file"), std::string::npos);
        EXPECT_EQ(std::filesystem::symlink_status(path(name.c_str())).type(), kind) << name;
    }
    EXPECT_EQ(names(), (std::vector<std::string>{"device", "folder", "pipe"}));
    // Links are replaced, and what they lead to stays.
    std::ofstream(path("old")) << "the old one";
    std::filesystem::create_symlink("old", path("link"));
    std::filesystem::create_symlink("nowhere", path("dangling"));
    for (const auto* link : {"link", "dangling"}) {
        auto file = must(NewFile::create(path(link), 5));
        ASSERT_TRUE(file.finish()) << link;
        EXPECT_TRUE(std::filesystem::is_regular_file(std::filesystem::symlink_status(path(link)))) << link;
    }
    EXPECT_EQ(std::filesystem::file_size(path("old")), std::strlen("the old one"));
}

TEST_F(NewFileTest, AWriteThatFails)
{
    auto file = must(NewFile::create(path(), size));
    const auto registration = must(file.add(memory_, {}));
    faults.broken_after = 1;
    faults.broken = 1;
    const auto failed = file.write(engine_, registration, 0, 0, size);
    ASSERT_FALSE(failed);
    EXPECT_EQ(failed.error().code, EIO);
    EXPECT_NE(failed.error().text.find(path()), std::string::npos);
    EXPECT_EQ(engine_.in_flight(), 0U) << "it has waited for the others";
    // More pieces than there are entries, and short and repeated writes.
    faults.longest = 64 * kib;
    faults.transient = 20;
    ASSERT_TRUE(file.write(engine_, registration, 0, 0, size));
    ASSERT_TRUE(file.finish());
    EXPECT_TRUE(is_there(0, 0, size));
}

TEST_F(NewFileTest, AnEngineFullOfOthers)
{
    const TemporaryFile other(mib);
    const auto volume = must(Volume::open(other.path()));
    const auto place = must(Memory::allocate(4096));
    const auto read = must(volume.add(place, {}));
    auto file = must(NewFile::create(path(), mib));
    const auto registration = must(file.add(memory_, {}));
    while (engine_.read(volume, read, {0, 0, 4096}, 1))
        ;
    while (engine_.undelivered() < engine_.in_flight())
        static_cast<void>(engine_.wait({}));
    EXPECT_EQ(file.write(engine_, registration, 0, 0, mib).error().code, EBUSY);
    std::array<Completion, 16> completions;
    while (engine_.in_flight())
        static_cast<void>(engine_.poll(completions));
    EXPECT_TRUE(file.write(engine_, registration, 0, 0, mib));
}

TEST_F(NewFileTest, AChildLeavesItsParentsFileAlone)
{
    auto file = must(NewFile::create(path(), 100));
    const auto child = ::fork();
    if (!child) {
        const bool refused = file.finish().error().code == ECHILD;
        // What finish() has closed is closed in the child alone.
        ::_exit(refused && std::filesystem::exists(path()) == false ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    EXPECT_TRUE(file.finish());
    EXPECT_EQ(names(), std::vector<std::string>{"new"});
}

TEST_F(NewFileTest, FromC)
{
    weft_error error{};
    auto* const engine = weft_engine_create(nullptr, &error);
    auto* const memory = weft_memory_of(memory_.data(), size, &error);
    auto* const file = weft_file_create(path().c_str(), 5000, &error);
    ASSERT_NE(file, nullptr) << error.text;
    auto* const registration = weft_register(file, memory, WEFT_ALLOW_STAGED | WEFT_READ_ONLY, &error);
    ASSERT_NE(registration, nullptr) << error.text;
    EXPECT_EQ(weft_file_write(engine, file, registration, 0, 3, 5000, &error), 0) << error.text;
    EXPECT_EQ(weft_file_write(engine, file, registration, 1, 0, 5000, &error), -EINVAL);
    EXPECT_NE(std::strstr(error.text, "not within a file of 5000 bytes"), nullptr) << error.text;
    EXPECT_EQ(weft_file_finish(file, &error), 0) << error.text;
    EXPECT_EQ(weft_file_finish(file, &error), -EBADF);
    weft_unregister(registration);
    weft_close(file);
    EXPECT_TRUE(is_there(0, 3, 5000));

    weft_close(weft_file_create(path("none").c_str(), 5000, &error));
    EXPECT_EQ(names(), std::vector<std::string>{"new"});
    EXPECT_EQ(weft_file_create(path("no/where").c_str(), 1, &error), nullptr);
    EXPECT_EQ(error.code, ENOENT);
    auto* const opened = weft_open(path().c_str(), WEFT_READ_WRITE, &error);
    EXPECT_EQ(weft_file_finish(opened, &error), -EINVAL);
    EXPECT_NE(std::strstr(error.text, "weft_file_create"), nullptr);
    weft_close(opened);
    weft_memory_free(memory);
    weft_engine_destroy(engine);
}

} // namespace

} // namespace weft::test
