// SPDX-License-Identifier: LGPL-2.1-or-later
/// How the examples end when something fails: with the sentence of the library.
#pragma once

#include <weft/error.hpp>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>

[[noreturn]] inline void give_up(const std::string& why)
{
    std::fprintf(stderr, "%s\n", why.c_str());
    std::exit(1);
}

template <typename T>
T must(weft::Result<T> result)
{
    if (!result)
        give_up(result.error().text);
    return std::move(*result);
}

inline void must(const weft::Result<void>& result)
{
    if (!result)
        give_up(result.error().text);
}
