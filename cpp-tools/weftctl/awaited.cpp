// SPDX-License-Identifier: GPL-2.0-only
#include "awaited.hpp"

#include "sysfile.hpp"

#include <algorithm>
#include <charconv>
#include <fcntl.h>
#include <filesystem>
#include <sys/file.h>
#include <system_error>
#include <unistd.h>

namespace weft
{

namespace fs = std::filesystem;

namespace
{

/// A file for each, with the time and the reason, which the command that waits has locked.
const fs::path folder = "/run/weft/awaited";

bool is_locked(const fs::path& path)
{
    const OwnedFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
    return fd && ::flock(fd.get(), LOCK_SH | LOCK_NB) && errno == EWOULDBLOCK;
}

} // namespace

std::vector<awaited_volume> awaited_volumes()
{
    std::vector<awaited_volume> found;
    std::error_code problem;
    for (fs::directory_iterator file(folder, problem), end; !problem && file != end;
         file.increment(problem)) {
        const auto text = read_text(file->path());
        if (!text || !is_locked(file->path()))
            continue;
        const auto line = text->find('\n');
        awaited_volume one;
        one.name = file->path().filename().string();
        // Its command may be about to write it.
        if (std::from_chars(text->data(), text->data() + text->size(), one.since).ec != std::errc())
            continue;
        if (line != std::string::npos)
            one.reason = text->substr(line + 1);
        found.push_back(std::move(one));
    }
    std::ranges::sort(found, {}, &awaited_volume::name);
    return found;
}

void awaiting::say(const std::string& reason)
{
    if (!fd_) {
        std::error_code ignored;
        fs::create_directories(folder, ignored);
        OwnedFd fd(::open((folder / name_).c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644));
        // Another command waits for it and reports that.
        if (!fd || ::flock(fd.get(), LOCK_EX | LOCK_NB))
            return;
        fd_ = std::move(fd);
        since_ = std::time(nullptr);
    }
    const auto text = std::to_string(since_) + "\n" + reason + "\n";
    // Users who cannot read the file get less detail.
    if (!::ftruncate(fd_.get(), 0) && ::pwrite(fd_.get(), text.data(), text.size(), 0) < 0)
        end();
}

void awaiting::end()
{
    if (fd_)
        ::unlink((folder / name_).c_str());
    fd_ = OwnedFd();
}

} // namespace weft
