// SPDX-License-Identifier: GPL-2.0-only
/// What the tests of libweft share: files with contents, and what is put into I/O on them.
#pragma once

#include <weft/engine.hpp>

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <random>
#include <string>
#include <vector>

namespace weft::test
{

/// Faults of I/O by file, for what is begun from now on; see src/faults.hpp.
struct Faults {
    std::atomic<std::uint32_t> longest = 0; ///< bytes that one submission asks for; 0: all
    std::atomic<unsigned> transient = 0;    ///< so many completions become EAGAIN, EINTR, EAGAIN, ...
    std::atomic<unsigned> broken = 0;       ///< so many become EIO
    std::atomic<unsigned> broken_after = 0; ///< after so many others
    std::atomic<unsigned> stalled = 0;      ///< so many come back when they are cancelled, and not before
};
extern Faults faults;

/// A file of random bytes, gone with this.
class TemporaryFile
{
public:
    explicit TemporaryFile(std::size_t bytes, unsigned seed = 1) : data_(bytes)
    {
        static std::atomic<unsigned> number = 0;
        path_ = std::filesystem::current_path() /
                ("weft-test-" + std::to_string(::getpid()) + "-" + std::to_string(number++));
        std::mt19937 random(seed);
        for (auto& byte : data_)
            byte = static_cast<std::byte>(random());
        std::ofstream(path_, std::ios::binary)
            .write(reinterpret_cast<const char*>(data_.data()), static_cast<std::streamsize>(bytes));
    }
    TemporaryFile(const TemporaryFile&) = delete;
    TemporaryFile& operator=(const TemporaryFile&) = delete;
    ~TemporaryFile() { std::filesystem::remove(path_); }
    [[nodiscard]] std::string path() const { return path_.string(); }
    [[nodiscard]] const std::vector<std::byte>& data() const { return data_; }
    [[nodiscard]] std::vector<std::byte> read() const
    {
        std::ifstream file(path_, std::ios::binary);
        std::vector<std::byte> now(std::filesystem::file_size(path_));
        file.read(reinterpret_cast<char*>(now.data()), static_cast<std::streamsize>(now.size()));
        return now;
    }

private:
    std::filesystem::path path_;
    std::vector<std::byte> data_;
};

/// The value, or the test ends with the sentence.
template <typename T>
T must(Result<T> result)
{
    if (!result)
        throw std::runtime_error(result.error().text);
    return std::move(*result);
}

/// A file, open as a volume, and memory that is registered with it.
struct OpenFile {
    explicit OpenFile(std::size_t bytes, std::size_t memory_bytes, Access access = Access::read,
                      const Policy& policy = {})
        : file(bytes), volume(must(Volume::open(file.path(), access))),
          memory(must(Memory::allocate(memory_bytes))), registration(must(volume.add(memory, policy)))
    {
    }
    TemporaryFile file;
    Volume volume;
    Memory memory;
    Registration registration;
};

/// No fault outlives its test.
class LibraryTest : public ::testing::Test
{
protected:
    void TearDown() override
    {
        faults.longest = 0;
        faults.transient = 0;
        faults.broken = 0;
        faults.broken_after = 0;
        faults.stalled = 0;
    }
    /// Waits for one completion.
    static Completion one(Engine& engine)
    {
        Completion completion;
        while (!engine.wait({&completion, 1}))
            ;
        return completion;
    }
};

constexpr std::size_t kib = 1024;
constexpr std::size_t mib = 1024 * kib;

} // namespace weft::test
