// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

/// A symbol that the library exports.
#define WEFT_API __attribute__((visibility("default")))
/// A part of an exported class that the library does not export.
#define WEFT_HIDDEN __attribute__((visibility("hidden")))
