// SPDX-License-Identifier: GPL-2.0-only
/// Reading netlink attributes.
#pragma once

#include <cstring>
#include <libmnl/libmnl.h>
#include <linux/genetlink.h>
#include <string>
#include <utility>

namespace weft
{

inline std::string text_of(const nlattr* attr)
{
    return {mnl_attr_get_str(attr), strnlen(mnl_attr_get_str(attr), mnl_attr_get_payload_len(attr))};
}

/// mnl_attr_parse() of a message or a nest, with a function for each attribute.
template <typename F>
struct attr_visitor {
    F visit;
    static int call(const nlattr* attr, void* data)
    {
        static_cast<attr_visitor*>(data)->visit(attr);
        return MNL_CB_OK;
    }
};

template <typename F>
void for_each_attr(const nlmsghdr* header, F visit)
{
    attr_visitor<F> visitor{std::move(visit)};
    mnl_attr_parse(header, GENL_HDRLEN, attr_visitor<F>::call, &visitor);
}

template <typename F>
void for_each_nested(const nlattr* nest, F visit)
{
    attr_visitor<F> visitor{std::move(visit)};
    mnl_attr_parse_nested(nest, attr_visitor<F>::call, &visitor);
}

} // namespace weft
