// SPDX-License-Identifier: GPL-2.0-only
#include "dhchap.hpp"

#include <array>
#include <utility>

namespace weft
{

namespace
{

constexpr std::array<std::size_t, 3> sizes{32, 48, 64};
constexpr secret_form form{"DHHC-1:", "secret", 3, "32, 48 or 64", sizes};

} // namespace

std::string dhchap_secret::text() const
{
    return secret_bytes::text(form.prefix);
}

result<dhchap_secret> parse_dhchap_secret(std::string_view text, const std::string& where)
{
    auto secret = parse_secret(form, text, where);
    if (!secret)
        return std::unexpected(secret.error());
    return dhchap_secret{std::move(*secret)};
}

result<dhchap_secret> read_dhchap_secret(const std::string& path)
{
    const auto text = read_secret(path);
    if (!text)
        return std::unexpected(text.error());
    return parse_dhchap_secret(*text, path);
}

result<dhchap_secrets> read_dhchap_secrets(const std::string& host, const std::string& ctrl)
{
    dhchap_secrets secrets;
    for (const auto& [file, secret] : {std::pair{&host, &secrets.host}, std::pair{&ctrl, &secrets.ctrl}}) {
        if (file->empty())
            continue;
        auto read = read_dhchap_secret(*file);
        if (!read)
            return std::unexpected(read.error());
        *secret = std::move(*read);
    }
    return secrets;
}

result<dhchap_secret> new_dhchap_secret(std::size_t size, unsigned int hash)
{
    auto secret = new_secret(size, hash);
    if (!secret)
        return std::unexpected(secret.error());
    return dhchap_secret{std::move(*secret)};
}

} // namespace weft
