// SPDX-License-Identifier: GPL-2.0-only
#include "archive.hpp"

#include <archive.h>
#include <archive_entry.h>

#include <cerrno>
#include <cstring>
#include <ctime>
#include <fstream>
#include <iterator>
#include <memory>

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

} // namespace

result<void> write_archive(const std::string& output, const fs::path& folder)
{
    const writer to(archive_write_new(), archive_write_free);
    bool good = to && archive_write_add_filter_gzip(to.get()) == ARCHIVE_OK &&
                archive_write_set_format_pax_restricted(to.get()) == ARCHIVE_OK &&
                archive_write_open_filename(to.get(), output.c_str()) == ARCHIVE_OK;
    const bool opened = good;
    for (const auto& file : fs::directory_iterator(folder))
        good = good && add_file(to.get(), file.path(), (folder.filename() / file.path().filename()).string());
    good = good && archive_write_close(to.get()) == ARCHIVE_OK;
    if (good)
        return {};
    const int errnum = to ? archive_errno(to.get()) : ENOMEM;
    const std::string why = errnum > 0 ? std::strerror(errnum) : "a part of it cannot be read";
    std::error_code ignored;
    if (opened)
        fs::remove(output, ignored);
    return fail(exit_code::failure, "{} cannot be written: {}", output, why);
}

} // namespace weft
