// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

/// What the library shows.
#define WEFT_API __attribute__((visibility("default")))
/// Of that, what it does not.
#define WEFT_HIDDEN __attribute__((visibility("hidden")))
