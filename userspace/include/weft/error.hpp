// SPDX-License-Identifier: LGPL-2.1-or-later
/// Errors are values. The library throws only std::bad_alloc, and only from functions that set something up.
///
/// The headers need C++17. Result and Span are the library's own, so that programs of all versions of C++
/// mean the same types with them.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#if __has_include(<expected>)
#include <expected>
#endif

namespace weft
{

/// The reason of a failure.
struct Error {
    int code;         ///< an errno, positive
    std::string text; ///< one sentence without a full stop; the kernel's sentence if there is one
};

/// A value, or the reason why there is none. Used as std::expected<T, Error>.
template <typename T>
class [[nodiscard]] Result
{
public:
    Result(T value)
        : state_(std::in_place_index<0>, std::move(value)) {} // NOLINT(google-explicit-constructor)
    Result(Error error)
        : state_(std::in_place_index<1>, std::move(error)) {} // NOLINT(google-explicit-constructor)
#ifdef __cpp_lib_expected
    Result(std::unexpected<Error> error) // NOLINT(google-explicit-constructor)
        : state_(std::in_place_index<1>, std::move(error).error())
    {
    }
#endif
    [[nodiscard]] bool has_value() const noexcept
    {
        return state_.index() == 0;
    }
    explicit operator bool() const noexcept
    {
        return has_value();
    }
    /// Only with a value.
    [[nodiscard]] T& operator*() & noexcept
    {
        return *std::get_if<0>(&state_);
    }
    [[nodiscard]] const T& operator*() const& noexcept
    {
        return *std::get_if<0>(&state_);
    }
    [[nodiscard]] T&& operator*() && noexcept
    {
        return std::move(*std::get_if<0>(&state_));
    }
    [[nodiscard]] T* operator->() noexcept
    {
        return std::get_if<0>(&state_);
    }
    [[nodiscard]] const T* operator->() const noexcept
    {
        return std::get_if<0>(&state_);
    }
    /// Only without a value.
    [[nodiscard]] Error& error() & noexcept
    {
        return *std::get_if<1>(&state_);
    }
    [[nodiscard]] const Error& error() const& noexcept
    {
        return *std::get_if<1>(&state_);
    }
    [[nodiscard]] Error&& error() && noexcept
    {
        return std::move(*std::get_if<1>(&state_));
    }

private:
    std::variant<T, Error> state_;
};

/// That something is done, or the reason why not.
template <>
class [[nodiscard]] Result<void>
{
public:
    Result() = default;
    Result(Error error) : error_(std::move(error)) {} // NOLINT(google-explicit-constructor)
#ifdef __cpp_lib_expected
    Result(std::unexpected<Error> error)
        : error_(std::move(error).error()) {} // NOLINT(google-explicit-constructor)
#endif
    [[nodiscard]] bool has_value() const noexcept
    {
        return !error_;
    }
    explicit operator bool() const noexcept
    {
        return has_value();
    }
    [[nodiscard]] Error& error() & noexcept
    {
        return *error_;
    }
    [[nodiscard]] const Error& error() const& noexcept
    {
        return *error_;
    }
    [[nodiscard]] Error&& error() && noexcept
    {
        return std::move(*error_);
    }

private:
    std::optional<Error> error_;
};

/// Objects one behind the other, which belong to the caller. Made of a pointer and a number, or of a
/// container.
template <typename T>
class Span
{
public:
    constexpr Span() noexcept = default;
    constexpr Span(T* data, std::size_t size) noexcept : data_(data), size_(size) {}
    template <typename Container, typename = std::enable_if_t<
                                      std::is_convertible_v<decltype(std::declval<Container&>().data()), T*>>>
    constexpr Span(Container&& container) noexcept // NOLINT(google-explicit-constructor)
        : data_(container.data()), size_(container.size())
    {
    }
    template <std::size_t count>
    constexpr Span(T (&array)[count]) noexcept
        : data_(array), size_(count) // NOLINT(google-explicit-constructor)
    {
    }
    [[nodiscard]] constexpr T* data() const noexcept { return data_; }
    [[nodiscard]] constexpr std::size_t size() const noexcept { return size_; }
    [[nodiscard]] constexpr bool empty() const noexcept { return !size_; }
    [[nodiscard]] constexpr T* begin() const noexcept { return data_; }
    [[nodiscard]] constexpr T* end() const noexcept { return data_ + size_; }
    [[nodiscard]] constexpr T& operator[](std::size_t index) const noexcept { return data_[index]; }

private:
    T* data_ = nullptr;
    std::size_t size_ = 0;
};

} // namespace weft
