// SPDX-License-Identifier: GPL-2.0-only
#include "run.hpp"

#include <cstdio>

namespace weft::test
{

Output run(const std::string& command)
{
    Output output{-1, ""};
    auto* pipe = ::popen((command + " 2>&1").c_str(), "r");
    if (!pipe)
        return output;
    char part[512];
    while (std::fgets(part, sizeof(part), pipe))
        output.text += part;
    output.status = ::pclose(pipe);
    return output;
}

} // namespace weft::test
