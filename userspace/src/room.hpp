// SPDX-License-Identifier: LGPL-2.1-or-later
/// What gathers and streams do where an engine has no room for them, or nothing of theirs has ended.
#pragma once

#include "failure.hpp"

#include <weft/engine.hpp>

namespace weft
{

/// Waits until something has ended. What is not the caller's stays for the engine's own callers; EBUSY where
/// that is all that the engine has room for: they do not poll meanwhile, and nothing would ever end.
[[nodiscard]] inline Result<void> wait_beside(Engine& engine)
{
    if (engine.undelivered() == engine.entries())
        return failure(EBUSY, "the engine is full of completions that its poll() has not handed over");
    static_cast<void>(engine.wait({}));
    return {};
}

} // namespace weft
