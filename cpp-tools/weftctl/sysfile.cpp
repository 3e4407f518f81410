// SPDX-License-Identifier: GPL-2.0-only
#include "sysfile.hpp"

#include <fd.hpp>

#include <cerrno>
#include <cstring>
#include <fcntl.h>

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

result<void> replace_file(const fs::path& path, std::string_view text)
{
    std::error_code problem;
    fs::create_directories(path.parent_path(), problem);
    const auto temporary = path.string() + ".new";
    {
        const OwnedFd fd(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
        if (!fd || ::write(fd.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()) ||
            ::fsync(fd.get()))
            return fail(exit_code::failure, "{} cannot be written: {}", temporary, std::strerror(errno));
    }
    if (::rename(temporary.c_str(), path.c_str()))
        return fail(exit_code::failure, "{} cannot be replaced: {}", path.string(), std::strerror(errno));
    const OwnedFd folder(::open(path.parent_path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!folder || ::fsync(folder.get()))
        return fail(exit_code::failure, "{} cannot be synchronised: {}", path.parent_path().string(),
                    std::strerror(errno));
    return {};
}

} // namespace weft
