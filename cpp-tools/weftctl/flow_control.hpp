// SPDX-License-Identifier: GPL-2.0-only
/// What the driver of a network interface counts of flow control.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace weft
{

/// A counter by the name that the kernel, or a driver, gives it.
struct named_counter {
    std::string name;
    std::uint64_t value = 0;
};

/// Leaves each name once, sorted: a name is a label of a metric.
void keep_one_each(std::vector<named_counter>& counters);

/// Pause frames that an interface sent and received (IEEE 802.3 annex 31B; by priority, 802.1Qbb), and how
/// long they lasted, by the names of its driver. Empty if the driver does not count them, or the interface is
/// missing.
[[nodiscard]] std::vector<named_counter> flow_control_counters(const std::string& interface);

/// Whether a driver's counter of this name is about flow control.
[[nodiscard]] bool is_about_flow_control(std::string_view counter);

} // namespace weft
