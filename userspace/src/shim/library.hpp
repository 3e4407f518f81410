// SPDX-License-Identifier: LGPL-2.1-or-later
/// Optional libraries, opened at run time.
#pragma once

#include <dlfcn.h>

namespace weft::shim
{

class Library
{
public:
    explicit Library(const char* name) noexcept : handle_(::dlopen(name, RTLD_NOW | RTLD_LOCAL)) {}
    ~Library()
    {
        if (handle_)
            ::dlclose(handle_);
    }
    Library(const Library&) = delete;
    Library& operator=(const Library&) = delete;
    explicit operator bool() const noexcept { return handle_ != nullptr; }
    /// Finds a function; false if it is missing.
    template <typename Function>
    [[nodiscard]] bool find(Function*& function, const char* name) const noexcept
    {
        function = handle_ ? reinterpret_cast<Function*>(::dlsym(handle_, name)) : nullptr;
        return function != nullptr;
    }

private:
    void* handle_;
};

} // namespace weft::shim
