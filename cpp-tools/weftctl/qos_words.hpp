// SPDX-License-Identifier: GPL-2.0-only
/// QoS settings as a user writes them, on the command line and in the file of a volume.
#pragma once

#include "netlink.hpp"

#include <array>
#include <optional>
#include <string>

namespace weft
{

/// As the user wrote them; what was not given is empty or unset. "off" takes a limit or a target away.
struct qos_words {
    std::string feed_latency, floor, background_latency, background_from, reads, writes;
    std::string weight;
    std::array<std::string, io_classes.size()> max_rate, max_ios;
    std::array<std::optional<std::string>, io_classes.size()> cgroup; ///< "": none

    [[nodiscard]] bool any() const;
};

/// The request for a volume, or a sentence about the first word that is wrong.
[[nodiscard]] result<qos_request> parse_qos(const qos_words& words, const std::string& volume);

/// All settings, as parse_qos() reads them.
[[nodiscard]] qos_words words_of(const qos_status& status);

} // namespace weft
