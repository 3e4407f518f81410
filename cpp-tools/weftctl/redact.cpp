// SPDX-License-Identifier: GPL-2.0-only
#include "redact.hpp"

#include <algorithm>
#include <new>
#include <regex.h>

namespace weft
{

namespace
{

/// A POSIX extended regular expression. Its first group is kept, the rest is a secret. Not std::regex,
/// whose matcher recurses for each character of a match: logs have lines longer than a stack.
class Secret
{
public:
    explicit Secret(const char* pattern)
    {
        // The pattern is a constant: only an allocation can fail.
        if (::regcomp(&regex_, pattern, REG_EXTENDED | REG_ICASE))
            throw std::bad_alloc();
    }
    Secret(const Secret&) = delete;
    Secret& operator=(const Secret&) = delete;
    ~Secret() { ::regfree(&regex_); }

    /// The line with `instead` in place of each secret.
    [[nodiscard]] std::string without(const std::string& line, const char* instead) const
    {
        std::string out;
        regmatch_t groups[2];
        std::size_t start = 0;
        while (start < line.size()) {
            groups[0] = {static_cast<regoff_t>(start), static_cast<regoff_t>(line.size())};
            const int result =
                ::regexec(&regex_, line.c_str(), 2, groups, REG_STARTEND | (start ? REG_NOTBOL : 0));
            if (result == REG_NOMATCH)
                break;
            // The line could not be searched, so it may contain secrets.
            if (result)
                return out + "[redacted]\n";
            const auto kept = static_cast<std::size_t>(groups[1].rm_eo);
            out.append(line, start, kept - start).append(instead);
            start = static_cast<std::size_t>(groups[0].rm_eo);
        }
        return out.append(line, start);
    }

private:
    regex_t regex_;
};

} // namespace

std::string redact(const std::string& text)
{
    static const Secret nvme_key("(DHHC-1|NVMeTLSkey-1):[0-9]{2}:[A-Za-z0-9+/=:-]+");
    static const Secret login("(://|iscsi:)[^ @/]+@");
    static const Secret parameter("((pass(w(or)?d)?|passphrase|secret|token|api_?key|psk)[a-z_]{0,200}\"? "
                                  "*[=:] *)(\"[^\"]*\"|[^ \n]+)");
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
        line = nvme_key.without(line, ":[redacted]");
        line = login.without(line, "[redacted]@");
        out += parameter.without(line, "[redacted]");
    }
    return out;
}

} // namespace weft
