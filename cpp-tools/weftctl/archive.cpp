// SPDX-License-Identifier: GPL-2.0-only
#include "archive.hpp"

#include "sysfile.hpp"

#include <archive.h>
#include <archive_entry.h>

#include <cerrno>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <fstream>
#include <iterator>
#include <memory>
#include <sys/stat.h>

namespace weft
{

namespace fs = std::filesystem;

namespace
{

using writer = std::unique_ptr<archive, int (*)(archive*)>;
using entry = std::unique_ptr<archive_entry, void (*)(archive_entry*)>;

bool add_file(archive* to, const fs::path& file, const std::string& name)
{
    std::ifstream in(file, std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(in), {}};
    const entry header(archive_entry_new(), archive_entry_free);
    if (!in || !header)
        return false;
    archive_entry_set_pathname(header.get(), name.c_str());
    archive_entry_set_filetype(header.get(), AE_IFREG);
    archive_entry_set_perm(header.get(), 0600);
    archive_entry_set_mtime(header.get(), std::time(nullptr), 0);
    archive_entry_set_size(header.get(), static_cast<la_int64_t>(text.size()));
    return archive_write_header(to, header.get()) == ARCHIVE_OK &&
           archive_write_data(to, text.data(), text.size()) == static_cast<la_ssize_t>(text.size());
}

/// Packs the files of a folder. Returns 0 or an errno; negative where a file cannot be read.
int pack(const OwnedFd& fd, const fs::path& folder)
{
    const writer to(archive_write_new(), archive_write_free);
    if (!to || archive_write_add_filter_gzip(to.get()) != ARCHIVE_OK ||
        archive_write_set_format_pax_restricted(to.get()) != ARCHIVE_OK ||
        archive_write_open_fd(to.get(), fd.get()) != ARCHIVE_OK)
        return ENOMEM;
    bool good = true;
    for (const auto& file : fs::directory_iterator(folder))
        good = good && add_file(to.get(), file.path(), (folder.filename() / file.path().filename()).string());
    good = good && archive_write_close(to.get()) == ARCHIVE_OK;
    return good ? 0 : archive_errno(to.get()) > 0 ? archive_errno(to.get()) : -1;
}

int pack_into_file(const std::string& output, const fs::path& folder)
{
    replacement next(output);
    int problem = next.problem();
    if (!problem)
        problem = pack(next.fd(), folder);
    // A remote filesystem may say only now that it is full.
    if (!problem && ::fsync(next.fd().get()))
        problem = errno;
    return problem ? problem : next.commit();
}

int pack_into_stream(const std::string& output, const fs::path& folder)
{
    const OwnedFd fd(::open(output.c_str(), O_WRONLY | O_CLOEXEC));
    struct stat known = {};
    if (!fd || ::fstat(fd.get(), &known))
        return errno;
    // It may have another name since.
    return S_ISBLK(known.st_mode) ? EPERM : pack(fd, folder);
}

} // namespace

result<void> check_archive(const std::string& output)
{
    std::error_code ignored;
    if (!fs::is_block_file(output, ignored))
        return {};
    return fail(exit_code::usage, "{} is a disk, which an archive would overwrite; give the name of a file",
                output);
}

result<void> write_archive(const std::string& output, const fs::path& folder)
{
    if (auto good = check_archive(output); !good)
        return good;
    // A terminal or a pipe is written to. A file is replaced once the archive is whole.
    std::error_code ignored;
    const bool is_file = !fs::exists(output, ignored) || fs::is_regular_file(output, ignored);
    const int problem = is_file ? pack_into_file(output, folder) : pack_into_stream(output, folder);
    if (!problem)
        return {};
    return fail(exit_code::failure, "{} cannot be written: {}", output,
                problem > 0 ? std::strerror(problem) : "a part of it cannot be read");
}

} // namespace weft
