// SPDX-License-Identifier: GPL-2.0-only
/// Members and services as people write them: what is taken, is taken again as it is shown.
#include "fuzz.hpp"

#include <uri.hpp>

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size)
{
    const auto text = text_of(data, size);
    if (const auto member = weft::parse_member_uri(text)) {
        const auto again = weft::parse_member_uri(member->text());
        must(again && again->at == member->at && again->subnqn == member->subnqn &&
                 again->nsid == member->nsid,
             "a member's URI is taken as it is shown");
        must(weft::is_uri(member->text()), "it is a URI");
    }
    if (const auto service = weft::parse_service_uri(text)) {
        const auto again = weft::parse_service_uri(service->text());
        must(again && *again == *service, "a service's URI is taken as it is shown");
    }
    return 0;
}
