// SPDX-License-Identifier: LGPL-2.1-or-later
/// Waiting in gathers and streams: for room in the engine, or for the end of their own I/O.
#pragma once

#include "engine_impl.hpp"
#include "failure.hpp"

namespace weft
{

/// Waits until an I/O has ended. Completions of others stay for the engine's callers. EBUSY if these fill the
/// engine: their callers do not poll meanwhile, so the wait would not end.
[[nodiscard]] inline Result<void> wait_beside(Engine::Impl& engine)
{
    if (engine.ready_count == engine.ops.size())
        return failure(EBUSY, "the engine is full of completions that its poll() has not handed over");
    static_cast<void>(engine.wait({}));
    return {};
}

} // namespace weft
