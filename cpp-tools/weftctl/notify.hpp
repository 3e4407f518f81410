// SPDX-License-Identifier: GPL-2.0-only
#pragma once

namespace weft
{

/// Tells systemd that the service which this program is has started (sd_notify(3), READY=1). Elsewhere it
/// does nothing and returns false.
bool notify_ready();

} // namespace weft
