// SPDX-License-Identifier: GPL-2.0-only
#include "sysfile.hpp"

#include <fd.hpp>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace weft
{

namespace fs = std::filesystem;

std::optional<std::string> read_text(const fs::path& path)
{
    // Not a stream: reading an attribute may fail, and a stream's buffer would throw.
    const OwnedFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!fd)
        return std::nullopt;
    std::string text;
    char buffer[4096];
    ssize_t got = 0;
    while ((got = ::read(fd.get(), buffer, sizeof(buffer))) > 0)
        text.append(buffer, static_cast<std::size_t>(got));
    if (got < 0)
        return std::nullopt;
    text.erase(text.find_last_not_of(" \t\r\n") + 1);
    return text;
}

bool is_missing(const fs::path& path)
{
    std::error_code ignored;
    return fs::symlink_status(path, ignored).type() == fs::file_type::not_found;
}

std::string printable(std::string text)
{
    std::ranges::replace_if(
        text, [](unsigned char c) { return c < ' ' || c > '~'; }, '?');
    return text;
}

std::vector<std::filesystem::path> children(const std::filesystem::path& folder)
{
    std::vector<std::filesystem::path> found;
    std::error_code ignored;
    for (const auto& entry : std::filesystem::directory_iterator(folder, ignored))
        found.push_back(entry.path());
    std::sort(found.begin(), found.end());
    return found;
}

int write_attribute(const fs::path& path, std::string_view text)
{
    const OwnedFd fd(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
    if (!fd)
        return -errno;
    const auto put = ::write(fd.get(), text.data(), text.size());
    if (put < 0)
        return -errno;
    return put == static_cast<ssize_t>(text.size()) ? 0 : -EIO;
}

std::string address_field(const std::string& address, const std::string& name)
{
    for (std::size_t start = 0; start < address.size();) {
        const auto end = std::min(address.find(',', start), address.size());
        if (address.compare(start, name.size() + 1, name + "=") == 0)
            return address.substr(start + name.size() + 1, end - start - name.size() - 1);
        start = end + 1;
    }
    return {};
}

namespace
{

/// What this process has open already, whatever it is.
bool is_own(const fs::path& path)
{
    const auto& name = path.native();
    return name == "/dev/stdout" || name == "/dev/stderr" || name.starts_with("/dev/fd/") ||
           name.starts_with("/proc/self/fd/");
}

/// What is written to in its place, or refuses that, where files are replaced. A link is replaced, too: who
/// made it may be somebody else, and lead to anything.
bool is_stream(const fs::path& path)
{
    std::error_code ignored;
    const auto kind = fs::symlink_status(path, ignored).type();
    return is_own(path) || (kind != fs::file_type::regular && kind != fs::file_type::symlink &&
                            kind != fs::file_type::not_found && kind != fs::file_type::none);
}

/// Writes all of it. Returns 0 or an errno.
int write_whole(const OwnedFd& fd, std::string_view text)
{
    while (!text.empty()) {
        const auto put = ::write(fd.get(), text.data(), text.size());
        if (put <= 0)
            return put ? errno : EIO;
        text.remove_prefix(static_cast<std::size_t>(put));
    }
    return 0;
}

/// Appends to it. Returns 0 or an errno.
int write_stream(const fs::path& path, std::string_view text)
{
    const OwnedFd fd(::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_APPEND | (is_own(path) ? 0 : O_NOFOLLOW)));
    struct stat known = {};
    if (!fd || ::fstat(fd.get(), &known))
        return errno;
    // It may have another name since, and a disk is never meant.
    if (S_ISBLK(known.st_mode) || (S_ISREG(known.st_mode) && !is_own(path)))
        return EPERM;
    return write_whole(fd, text);
}

} // namespace

replacement::replacement(fs::path path)
    : path_(std::move(path)), temporary_(path_.string() + ".XXXXXX"),
      fd_(::mkostemp(temporary_.data(), O_CLOEXEC)), problem_(fd_ ? 0 : errno)
{
}

replacement::~replacement()
{
    if (fd_ && !done_)
        ::unlink(temporary_.c_str());
}

int replacement::commit()
{
    done_ = !::rename(temporary_.c_str(), path_.c_str());
    return done_ ? 0 : errno;
}

result<void> hide_attribute(const fs::path& path)
{
    if (::chmod(path.c_str(), 0600))
        return fail(exit_code_of(errno), "{} cannot be hidden from others: {}", path.string(),
                    std::strerror(errno));
    return {};
}

result<void> replace_file(const fs::path& path, std::string_view text, unsigned int mode)
{
    const fs::path folder = path.has_parent_path() ? path.parent_path() : ".";
    std::error_code ignored;
    // A pipe, a terminal or /dev/stdout, whatever that is, is written to, and has nothing to synchronise.
    if (is_stream(path)) {
        if (const int wrong = write_stream(path, text))
            return fail(exit_code::failure, "{} cannot be written: {}", path.string(), std::strerror(wrong));
        return {};
    }
    fs::create_directories(folder, ignored);
    replacement next(path);
    int problem = next.problem();
    if (!problem && ::fchmod(next.fd().get(), mode))
        problem = errno;
    if (!problem)
        problem = write_whole(next.fd(), text);
    if (!problem && ::fsync(next.fd().get()))
        problem = errno;
    if (problem)
        return fail(exit_code::failure, "{} cannot be written: {}", next.temporary(), std::strerror(problem));
    if ((problem = next.commit()))
        return fail(exit_code::failure, "{} cannot be replaced: {}", path.string(), std::strerror(problem));
    const OwnedFd opened(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!opened || ::fsync(opened.get()))
        return fail(exit_code::failure, "{} cannot be synchronised: {}", folder.string(),
                    std::strerror(errno));
    return {};
}

} // namespace weft
