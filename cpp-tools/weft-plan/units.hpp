// SPDX-License-Identifier: GPL-2.0-only
/// Quantities whose unit is in the type: bytes divided by seconds are a rate, and bytes plus seconds do not
/// compile.
#pragma once

#include <compare>
#include <cstdint>

namespace weft::plan
{

/// A number of bytes^B * seconds^T.
template <int B, int T>
class quantity
{
public:
    constexpr quantity() = default;
    constexpr explicit quantity(double value) : value_(value) {}
    /// In bytes and seconds.
    [[nodiscard]] constexpr double value() const { return value_; }
    constexpr auto operator<=>(const quantity&) const = default;
    constexpr quantity& operator+=(quantity other)
    {
        value_ += other.value_;
        return *this;
    }
    constexpr quantity operator+(quantity other) const { return quantity(value_ + other.value_); }
    constexpr quantity operator-(quantity other) const { return quantity(value_ - other.value_); }
    constexpr quantity operator*(double factor) const { return quantity(value_ * factor); }
    constexpr quantity operator/(double divisor) const { return quantity(value_ / divisor); }

private:
    double value_ = 0;
};

template <int B, int T>
constexpr auto quantity_of(double value)
{
    if constexpr (B == 0 && T == 0)
        return value;
    else
        return quantity<B, T>(value);
}

template <int B, int T>
constexpr quantity<B, T> operator*(double factor, quantity<B, T> of)
{
    return of * factor;
}
template <int B1, int T1, int B2, int T2>
constexpr auto operator*(quantity<B1, T1> a, quantity<B2, T2> b)
{
    return quantity_of<B1 + B2, T1 + T2>(a.value() * b.value());
}
template <int B1, int T1, int B2, int T2>
constexpr auto operator/(quantity<B1, T1> a, quantity<B2, T2> b)
{
    return quantity_of<B1 - B2, T1 - T2>(a.value() / b.value());
}

using bytes = quantity<1, 0>;
using seconds = quantity<0, 1>;
using bytes_per_second = quantity<1, -1>;
using per_second = quantity<0, -1>;
/// A number of things: GPUs, nodes, members.
using count = std::uint64_t;

constexpr seconds minute(60);
constexpr seconds hour(3600);
constexpr seconds day(86400);
/// 365.25 days.
constexpr seconds year(31557600);
constexpr bytes gigabyte(1e9);
/// 1 Gbit/s.
constexpr bytes_per_second gigabit(1e9 / 8);

} // namespace weft::plan
