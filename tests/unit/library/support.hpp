// SPDX-License-Identifier: GPL-2.0-only
/// What the tests of libweft share: files with contents, and what is put into I/O on them.
#pragma once

#include <weft/engine.hpp>

#include "userspace/src/fd.hpp"

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <linux/loop.h>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <sys/ioctl.h>
#include <vector>

namespace weft::test
{

/// Faults of I/O by file, for what is begun from now on; see src/faults.hpp.
struct Faults {
    std::atomic<std::uint32_t> longest = 0; ///< bytes that one submission asks for; 0: all
    std::atomic<unsigned> transient = 0;    ///< so many completions become EAGAIN, EINTR, EAGAIN, ...
    std::atomic<unsigned> broken = 0;       ///< so many become EIO
    std::atomic<unsigned> ended = 0;        ///< so many become 0, as at the end of a file
    std::atomic<unsigned> odd = 0;          ///< so many are a byte short
    std::atomic<unsigned> broken_after = 0; ///< after so many others
    std::atomic<unsigned> synced[8]{};      ///< DMA_BUF_IOCTL_SYNC, by its flags
    std::atomic<unsigned> full = 0;         ///< so many submissions find no room in the ring
    std::atomic<unsigned> stalled = 0;      ///< so many come back when they are cancelled, and not before
};
extern Faults faults;

/// Does valgrind run this program?
inline bool is_under_valgrind()
{
    const char* preloaded = std::getenv("LD_PRELOAD");
    return preloaded && std::string_view(preloaded).contains("vgpreload");
}

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

/// A loop device of a file's; detached with this, and by the kernel where the test dies.
class LoopDevice
{
public:
    /// Nothing where this machine gives none.
    static std::optional<LoopDevice> of(const TemporaryFile& file)
    {
        const OwnedFd control(::open("/dev/loop-control", O_RDWR | O_CLOEXEC));
        const OwnedFd backing(::open(file.path().c_str(), O_RDWR | O_CLOEXEC));
        // Another program may take the same one at the same time.
        for (int i = 0; i < 10 && control && backing; i++) {
            const int number = ::ioctl(control.get(), LOOP_CTL_GET_FREE);
            LoopDevice loop("/dev/loop" + std::to_string(number));
            if (!loop.fd_)
                break;
            loop_config config{};
            config.fd = static_cast<std::uint32_t>(backing.get());
            config.info.lo_flags = LO_FLAGS_AUTOCLEAR;
            if (!::ioctl(loop.fd_.get(), LOOP_CONFIGURE, &config))
                return loop;
        }
        return std::nullopt;
    }
    [[nodiscard]] const std::string& path() const { return path_; }

private:
    explicit LoopDevice(std::string path)
        : path_(std::move(path)), fd_(::open(path_.c_str(), O_RDWR | O_CLOEXEC))
    {
    }
    std::string path_;
    OwnedFd fd_;
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
        faults.ended = 0;
        faults.odd = 0;
        faults.broken_after = 0;
        faults.full = 0;
        for (auto& count : faults.synced)
            count = 0;
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
