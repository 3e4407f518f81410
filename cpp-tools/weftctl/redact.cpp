// SPDX-License-Identifier: GPL-2.0-only
#include "redact.hpp"

#include <algorithm>
#include <regex>

namespace weft
{

std::string redact(const std::string& text)
{
    static const std::regex nvme_key("(DHHC-1|NVMeTLSkey-1):[0-9]{2}:[A-Za-z0-9+/=]+:?");
    static const std::regex login("(://|iscsi:)[^ @/]+@");
    static const std::regex parameter(
        "((?:pass(?:w(?:or)?d)?|passphrase|secret|token|api_?key|psk)[a-z_]*\"? "
        "*[=:] *)(\"[^\"\\n]*\"|[^ \\n]+)",
        std::regex::icase);
    // Line by line: the library's matcher recurses for each character of a match.
    std::string out;
    out.reserve(text.size());
    bool in_key = false;
    for (std::size_t start = 0; start < text.size();) {
        const auto end = std::min(text.find('\n', start), text.size() - 1) + 1;
        auto line = text.substr(start, end - start);
        start = end;
        if (line.find("-----BEGIN ") != std::string::npos &&
            line.find("PRIVATE KEY-----") != std::string::npos) {
            in_key = true;
            out += "[redacted]\n";
            continue;
        }
        if (in_key) {
            in_key = line.find("-----END ") == std::string::npos;
            continue;
        }
        line = std::regex_replace(line, nvme_key, "$1:[redacted]");
        line = std::regex_replace(line, login, "$1[redacted]@");
        out += std::regex_replace(line, parameter, "$1[redacted]");
    }
    return out;
}

} // namespace weft
