// SPDX-License-Identifier: LGPL-2.1-or-later
/// Waiting in gathers and streams: for room in the engine, or for the end of their own I/O.
#pragma once

#include "engine_impl.hpp"
#include "failure.hpp"

namespace weft
{

/// Waits until an I/O has ended. Completions of others stay for the engine's callers. EBUSY if these fill the
/// engine: their callers do not poll meanwhile, so the wait would not end. EEXIST if only the engine's thread
/// can wait.
[[nodiscard]] inline Result<void> wait_beside(Engine::Impl& engine)
{
    if (engine.ready_count == engine.ops.size())
        return failure(EBUSY, "the engine is full of completions that its poll() has not handed over");
    const auto before = engine.finished;
    static_cast<void>(engine.wait({}));
    if (engine.finished == before && engine.reachable() == -EEXIST)
        return failure(EEXIST,
                       "the engine belongs to another thread: use it, and what was made with it, there");
    return {};
}

} // namespace weft
