// SPDX-License-Identifier: GPL-2.0-only
/// Sizes, and logs that secrets are taken out of.
#include "fuzz.hpp"

#include <redact.hpp>
#include <size.hpp>

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size)
{
    const std::string text(text_of(data, size));
    static_cast<void>(weft::parse_size(text));
    const auto clean = weft::redact(text);
    static const std::string key = "ia6zGodOr4SEG0Zzaw398rpY0wqipUWj4jWjUh4HWUz6aQ2n";
    must(text.find(key) != std::string::npos ||
             weft::redact(text + "DHHC-1:00:" + key + ":").find(key) == std::string::npos,
         "a key is never told");
    must(clean.size() <= 11 * text.size() + 20, "it does not grow without end");
    return 0;
}
