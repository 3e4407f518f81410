// SPDX-License-Identifier: GPL-2.0-only
/// Other programs: run with an argument vector, no shell.
#pragma once

#include "result.hpp"

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace weft
{

/// The result of a program.
struct process_result {
    int status = 127;   ///< exit status; 128 + signal if a signal ended it; 127 if the program is missing
    std::string output; ///< standard output and standard error
};

/// Runs a program found on PATH and waits for it. `more` is added to its environment, as NAME=VALUE.
[[nodiscard]] process_result run_process(const std::vector<std::string>& arguments,
                                         const std::vector<std::string>& more = {});

/// From now on SIGINT and SIGTERM end a system call that waits (EINTR) instead of the program.
void end_waits_at_signals();
/// Has one come since?
[[nodiscard]] bool a_signal_came() noexcept;
/// Waits after end_waits_at_signals(). Returns false if a signal came.
[[nodiscard]] bool wait_for(std::chrono::milliseconds time) noexcept;
/// Waits until the descriptor can be read, or has an error. Returns false if a signal came, or the time is
/// over.
[[nodiscard]] bool wait_readable(int fd, std::optional<std::chrono::milliseconds> time = {}) noexcept;
/// The same, in a program with other threads.
[[nodiscard]] bool wait_readable_in_thread(int fd) noexcept;

/// The failure of a verb that a signal ended.
[[nodiscard]] error interruption();
/// Ends the program by the signal that came, if a verb has failed by it, and has undone what it had begun.
void end_as_signalled();

/// Loads a kernel module with its dependencies. Succeeds if it is loaded or built in.
[[nodiscard]] result<void> load_module(const std::string& name);

} // namespace weft
