// SPDX-License-Identifier: LGPL-2.1-or-later
#include "fd.hpp"
#include "fork.hpp"
#include "memory_impl.hpp"
#include "room.hpp"

#include <weft/new_file.hpp>

#include <algorithm>
#include <array>
#include <fcntl.h>
#include <filesystem>
#include <limits>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

namespace weft
{

namespace
{

// What is not in whole pages goes through the page cache, and the rest past it: the two do not meet in a
// page.
constexpr std::uint64_t page = 4096;
constexpr std::uint64_t piece_bytes = 4 << 20;
constexpr std::uint32_t pieces_in_flight = 8;

std::uint64_t up(std::uint64_t bytes, std::uint64_t unit)
{
    return (bytes + unit - 1) / unit * unit;
}

/// The folder of an absolute path.
std::string folder_of(const std::string& path)
{
    return path.substr(0, path.rfind('/') + 1);
}

/// Refuses a name that another thing than a regular file has: a user who names a device wants to write to it.
/// Of a link, it counts what the link leads to; a link that leads to a file or to nothing is replaced itself.
Result<void> check_name(const std::string& path)
{
    struct stat there {
    };
    if (!::stat(path.c_str(), &there) && !S_ISREG(there.st_mode))
        return failure(EEXIST, path + " is not a regular file, and a new file replaces only these: give it "
                                      "another name, or open a device with weft_open()");
    return {};
}

/// A path for a draft in the same folder, hidden from users who list files.
std::string draft_of(const std::string& path)
{
    static constexpr std::string_view letters = "abcdefghijklmnopqrstuvwxyz012345";
    const auto folder = folder_of(path);
    // With the letters it is at most 255 bytes long, as names are.
    auto draft = folder + "." + path.substr(folder.size(), 240) + "-";
    unsigned char random[8];
    if (::getrandom(random, sizeof(random), 0) < 0)
        std::memset(random, 0, sizeof(random));
    for (const auto byte : random)
        draft += letters[byte % letters.size()];
    return draft;
}

/// Writes pieces of a memory with several in flight.
class Pieces final : public Sink
{
public:
    Pieces(Engine::Impl& engine, const Target& target, const Registration& memory)
        : engine_(engine), target_(target), memory_(memory)
    {
    }
    void complete(std::uint64_t token, const Completion& completion) noexcept override
    {
        auto& piece = pieces_[token];
        if (completion.result != static_cast<std::int64_t>(piece.length) && !error_)
            error_ = completion.result < 0 ? static_cast<int>(-completion.result) : EIO;
        piece.length = 0;
        flying_--;
    }
    /// Returns when nothing is in flight.
    Result<void> write(std::uint64_t offset, std::uint64_t memory_offset, std::uint64_t length)
    {
        Result<void> begun;
        for (std::uint64_t at = 0; at < length && !error_ && begun;) {
            const auto bytes = std::min(piece_bytes, length - at);
            if (begin({offset + at, memory_offset + at, bytes}))
                at += bytes;
            else
                begun = wait_beside(engine_);
        }
        engine_.submit();
        while (flying_)
            static_cast<void>(engine_.wait({}));
        if (error_)
            return failure_of(std::to_string(length) + " bytes at " + std::to_string(offset) +
                                  " cannot be written",
                              error_);
        return begun;
    }

private:
    bool begin(const Io& io)
    {
        const auto free =
            std::find_if(pieces_.begin(), pieces_.end(), [](const Io& one) { return !one.length; });
        if (free == pieces_.end() || !engine_.begin(Kind::write, target_, &memory_, io,
                                                    static_cast<std::uint64_t>(free - pieces_.begin()), this))
            return false;
        *free = io;
        flying_++;
        return true;
    }
    Engine::Impl& engine_;
    const Target& target_;
    const Registration& memory_;
    std::array<Io, pieces_in_flight> pieces_; ///< in flight; those without a length are free
    unsigned flying_ = 0;
    int error_ = 0;
};

} // namespace

Result<NewFile> NewFile::create(const std::string& path, std::uint64_t size)
{
    std::error_code wrong;
    NewFile file;
    file.file_size_ = size;
    file.name_ = std::filesystem::absolute(path, wrong);
    if (wrong || path.empty() || path.ends_with('/'))
        return failure(EINVAL, "'" + path + "' does not name a file");
    if (size > std::numeric_limits<off_t>::max() / 2)
        return failure(EFBIG, std::to_string(size) + " bytes for " + path + ": no file has this size");
    if (auto free = check_name(file.name_); !free)
        return std::unexpected(std::move(free.error()));
    do {
        auto draft = draft_of(file.name_);
        file.cached_fd_ = ::open(draft.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (file.cached_fd_ >= 0)
            file.draft_ = std::move(draft);
    } while (file.cached_fd_ < 0 && errno == EEXIST);
    if (file.cached_fd_ < 0)
        return failure_of(path);
    auto target = Volume::open(file.draft_, Access::read_write);
    if (!target)
        return std::unexpected(std::move(target.error()));
    static_cast<Target&>(file) = std::move(*target);
    // A block of its own for each byte: a full filesystem is seen here, and a sealed file needs them.
    const auto whole = up(size, file.unit());
    int full = 0;
    do
        full = whole ? ::posix_fallocate(file.cached_fd_, 0, static_cast<off_t>(whole)) : 0;
    while (full == EINTR);
    if (full)
        return failure_of(std::to_string(size) + " bytes for " + path, full);
    file.geometry_.size = whole;
    return file;
}

/// What is written past the page cache is a multiple of this, in bytes.
std::uint64_t NewFile::unit() const noexcept
{
    return std::max<std::uint64_t>(page, geometry_.block_size);
}

NewFile::NewFile(NewFile&& other) noexcept
{
    *this = std::move(other);
}

NewFile& NewFile::operator=(NewFile&& other) noexcept
{
    Target::operator=(std::move(other));
    // NOLINTBEGIN(bugprone-use-after-move): the base has moved its own part
    std::swap(name_, other.name_);
    std::swap(draft_, other.draft_);
    std::swap(file_size_, other.file_size_);
    std::swap(cached_fd_, other.cached_fd_);
    // NOLINTEND(bugprone-use-after-move)
    return *this;
}

NewFile::~NewFile()
{
    abandon();
}

/// Removes the draft if there is one, and closes it.
void NewFile::abandon() noexcept
{
    if (!draft_.empty() && forks_ == fork_count)
        ::unlink(draft_.c_str());
    draft_.clear();
    if (cached_fd_ >= 0)
        ::close(std::exchange(cached_fd_, -1));
    close();
}

Result<void> NewFile::write(Engine& engine, const Registration& memory, std::uint64_t offset,
                            std::uint64_t memory_offset, std::uint64_t length)
{
    if (draft_.empty())
        return failure(EBADF, name_ + " is finished: it takes no more writes");
    if (offset > file_size_ || length > file_size_ - offset)
        return failure(EINVAL, std::to_string(length) + " bytes at " + std::to_string(offset) +
                                   " are not within a file of " + std::to_string(file_size_) + " bytes");
    const auto room = memory.memory().size();
    if (memory_offset > room || length > room - memory_offset)
        return failure(EINVAL, std::to_string(length) + " bytes at " + std::to_string(memory_offset) +
                                   " are not within a memory of " + std::to_string(room) + " bytes");
    const auto end = offset + length;
    const auto begin = std::min(up(offset, unit()), end);
    const auto whole = std::max(end / unit() * unit(), begin);
    if (whole > begin) {
        Pieces pieces(*engine.impl_, *this, memory);
        if (auto done = pieces.write(begin, memory_offset + (begin - offset), whole - begin); !done)
            return failure(done.error().code, name_ + ": " + done.error().text);
    }
    if (auto done = copy(memory.memory(), offset, memory_offset, begin - offset); !done)
        return done;
    return copy(memory.memory(), whole, memory_offset + (whole - offset), end - whole);
}

/// Writes less than a page through the page cache.
Result<void> NewFile::copy(const Memory& memory, std::uint64_t offset, std::uint64_t memory_offset,
                           std::uint64_t length) const
{
    std::vector<std::byte> bytes(length);
    if (const int wrong = length ? memory.copy_out(memory_offset, bytes.data(), length) : 0)
        return failure_of(std::to_string(length) + " bytes of the memory cannot be copied", wrong);
    for (std::uint64_t done = 0; done < length;) {
        const auto wrote =
            ::pwrite(cached_fd_, bytes.data() + done, length - done, static_cast<off_t>(offset + done));
        if (wrote < 0 && errno != EINTR)
            return failure_of(name_);
        done += wrote > 0 ? static_cast<std::uint64_t>(wrote) : 0;
    }
    return {};
}

/// Gives the draft the file's size, puts it on the medium, and gives it the file's name.
Result<void> NewFile::publish()
{
    if (draft_.empty())
        return failure(EBADF, name_ + " is finished");
    if (forks_ != fork_count)
        return failure(ECHILD, name_ + " is a file of the parent process");
    // It may be there only since create().
    if (auto free = check_name(name_); !free)
        return free;
    // Engines may have written beyond its end.
    if (::ftruncate(cached_fd_, static_cast<off_t>(file_size_)) || ::fsync(cached_fd_) ||
        ::rename(draft_.c_str(), name_.c_str()))
        return failure_of(name_);
    draft_.clear();
    const OwnedFd folder(::open(folder_of(name_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!folder || ::fsync(folder.get()))
        return failure_of(name_ + " is complete, but its name may not be on the medium");
    return {};
}

Result<void> NewFile::finish()
{
    auto done = publish();
    abandon();
    return done;
}

} // namespace weft
