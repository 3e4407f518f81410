// SPDX-License-Identifier: GPL-2.0-only
/// Small files: kernel attributes, and weft's files, which are replaced atomically.
#pragma once

#include "result.hpp"
#include <fd.hpp>

#include <charconv>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weft
{

/// A file's content without trailing white space; unset if it cannot be read.
[[nodiscard]] std::optional<std::string> read_text(const std::filesystem::path& path);

/// Nothing has this name. A link that leads nowhere now has it, and an error does not mean that nothing does.
[[nodiscard]] bool is_missing(const std::filesystem::path& path);

/// A text that a device's maker or another process chose, for a terminal: each byte that is not printable
/// ASCII is a question mark.
[[nodiscard]] std::string printable(std::string text);

/// What is in a folder, sorted; empty if it cannot be read.
[[nodiscard]] std::vector<std::filesystem::path> children(const std::filesystem::path& folder);

/// A file that holds one decimal number and nothing else; unset otherwise, as for a word such as "off".
template <typename Number>
[[nodiscard]] std::optional<Number> read_number(const std::filesystem::path& path)
{
    const auto text = read_text(path).value_or("");
    Number number = 0;
    const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
    return problem == std::errc() && end == text.data() + text.size() ? std::optional(number) : std::nullopt;
}

/// Writes an attribute of sysfs or configfs in one write(2). Returns a negative errno on failure; the caller
/// makes the sentence.
[[nodiscard]] int write_attribute(const std::filesystem::path& path, std::string_view text);

/// Lets only root read an attribute that has a secret: the kernel lets all users.
[[nodiscard]] result<void> hide_attribute(const std::filesystem::path& path);

/// A field of an NVMe controller's address attribute ("traddr=10.0.0.1,trsvcid=4420"); empty if it is
/// missing.
[[nodiscard]] std::string address_field(const std::string& address, const std::string& name);

/// A new file, of mode 0600, that takes the place of another in one step. Without commit() the destructor
/// removes it.
class replacement
{
public:
    explicit replacement(std::filesystem::path path);
    replacement(const replacement&) = delete;
    replacement& operator=(const replacement&) = delete;
    ~replacement();

    [[nodiscard]] int problem() const noexcept { return problem_; } ///< errno, where it cannot be made
    [[nodiscard]] const OwnedFd& fd() const noexcept { return fd_; }
    [[nodiscard]] const std::string& temporary() const noexcept { return temporary_; }
    /// Returns 0 or an errno.
    [[nodiscard]] int commit();

private:
    std::filesystem::path path_;
    std::string temporary_;
    OwnedFd fd_;
    int problem_;
    bool done_ = false;
};

/// Replaces a file; after a crash it has the old or the new content. Makes its folder.
[[nodiscard]] result<void> replace_file(const std::filesystem::path& path, std::string_view text,
                                        unsigned int mode = 0600);

} // namespace weft
