// SPDX-License-Identifier: GPL-2.0-only
/// Tells a user at a terminal what a command waits for.
#pragma once

#include <condition_variable>
#include <string>
#include <thread>

namespace weft
{

/// While it lives longer than two seconds, a line on standard error says what is waited for, and for how
/// long. The destructor erases the line. It prints only to a terminal that can write a line again. Of several
/// that live, in one thread or in many, the one that began last has the line.
class waiting
{
public:
    explicit waiting(std::string what);
    waiting(const waiting&) = delete;
    waiting& operator=(const waiting&) = delete;
    ~waiting();

private:
    void tell(const std::stop_token& stop);

    std::string what_;
    std::condition_variable_any changed_;
    std::jthread thread_;
};

} // namespace weft
