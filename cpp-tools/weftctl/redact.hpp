// SPDX-License-Identifier: GPL-2.0-only
/// Removes secrets from text that leaves the node.
#pragma once

#include <string>

namespace weft
{

/// NVMe DH-HMAC-CHAP secrets and TLS keys (TP8006, TP8018: "DHHC-1:...:", "NVMeTLSkey-1:...:"), values of
/// parameters whose names say that they are secret ("password=", "iscsi.secret="), and private keys in PEM,
/// as "[redacted]".
[[nodiscard]] std::string redact(const std::string& text);

} // namespace weft
