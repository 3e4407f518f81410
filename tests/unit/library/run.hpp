// SPDX-License-Identifier: GPL-2.0-only
#pragma once

#include <string>

namespace weft::test
{

struct Output {
    int status;
    std::string text; ///< of both
};

/// By the shell.
Output run(const std::string& command);

} // namespace weft::test
