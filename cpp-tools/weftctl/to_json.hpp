// SPDX-License-Identifier: GPL-2.0-only
/// The data as JSON, as weftctl.schema.json describes it.
#pragma once

#include "model.hpp"

#include <nlohmann/json.hpp>

namespace weft
{

using json = nlohmann::ordered_json;

[[nodiscard]] json to_json(const path_status& path, std::uint32_t member);
[[nodiscard]] json to_json(const volume_status& volume);
[[nodiscard]] json to_json(const qos_status& status);
[[nodiscard]] json to_json(const volume_load& load);
[[nodiscard]] json to_json(const found_volume& volume);
[[nodiscard]] json to_json(const event_report& event);

/// Volumes as devices of a Container Device Interface specification.
[[nodiscard]] json cdi_specification(const std::vector<volume_status>& volumes);

/// The document's text; on one line with an indent of -1. Names may not be valid UTF-8, but JSON has to be.
[[nodiscard]] std::string dump(const json& document, int indent);

} // namespace weft
