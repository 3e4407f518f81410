// SPDX-License-Identifier: GPL-2.0-only
#include "doctor.hpp"

#include "fabrics.hpp"
#include "sysfile.hpp"
#include "tls.hpp"

#include <algorithm>
#include <filesystem>

namespace weft
{

namespace
{

bool is_running(const std::string& program)
{
    std::error_code ignored;
    const std::filesystem::directory_iterator processes("/proc", ignored);
    return std::ranges::any_of(processes, [&](const auto& entry) {
        const auto name = entry.path().filename().string();
        return name.find_first_not_of("0123456789") == name.npos &&
               read_text(entry.path() / "comm") == program;
    });
}

} // namespace

void diagnose_encryption(diagnoses& found)
{
    std::size_t clear_rdma = 0, clear_tcp = 0, encrypted = 0;
    for (const auto& link : connections())
        (link.at.transport == "rdma" ? clear_rdma : is_encrypted(link) ? encrypted : clear_tcp)++;
    constexpr auto effect =
        "any host that can read or change packets of that network can read or change the data";
    if (clear_rdma)
        found.push_back(
            {severity::note, "encryption",
             fmt::format("controllers connected by rdma, which has no encryption: {}", clear_rdma), effect,
             "use a separate network for the cluster, or tcp:// with --tls-key-file"});
    if (clear_tcp)
        found.push_back({severity::note, "encryption",
                         fmt::format("controllers connected by tcp without TLS: {}", clear_tcp), effect,
                         "run weftctl export and weftctl connect, both with --tls-key-file"});
    if (encrypted && !is_running("tlshd"))
        found.push_back({severity::problem, "encryption",
                         fmt::format("controllers connected by TLS: {}, and tlshd does not run", encrypted),
                         "they cannot reconnect after a loss of the network", tls_needs});
    else if (encrypted)
        found.push_back({severity::good, "encryption",
                         fmt::format("controllers connected by TLS: {}", encrypted), "", ""});
}

} // namespace weft
