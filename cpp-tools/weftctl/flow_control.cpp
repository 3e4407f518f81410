// SPDX-License-Identifier: GPL-2.0-only
#include "flow_control.hpp"

#include <fd.hpp>

#include <algorithm>
#include <array>
#include <cstring>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <memory>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

namespace weft
{

namespace
{

/// One command of ethtool for an interface; false if the interface, or its driver, refuses it.
bool ethtool(const OwnedFd& socket, const std::string& interface, void* command)
{
    ifreq request{};
    if (interface.size() >= sizeof(request.ifr_name))
        return false;
    std::memcpy(request.ifr_name, interface.c_str(), interface.size());
    request.ifr_data = static_cast<char*>(command);
    return !ioctl(socket.get(), SIOCETHTOOL, &request);
}

struct unmap {
    std::size_t size = 0;
    void operator()(unsigned char* pages) const { munmap(pages, size); }
};

/// A command of ethtool with room for count elements behind it. The kernel writes as many elements as the
/// driver has by then; older kernels ignore how much room there is. An inaccessible page follows the room, so
/// the command fails where they are more.
template <typename Command, typename Element>
class buffer
{
public:
    explicit buffer(std::size_t count)
    {
        const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
        const auto size = (sizeof(Command) + count * sizeof(Element) + 7) / 8 * 8;
        const auto room = (size + page - 1) / page * page;
        void* pages = mmap(nullptr, room + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (pages == MAP_FAILED)
            return;
        pages_ = {static_cast<unsigned char*>(pages), unmap{room + page}};
        if (!mprotect(pages_.get() + room, page, PROT_NONE))
            command_ = reinterpret_cast<Command*>(pages_.get() + room - size);
    }

    Command* get() { return command_; } ///< null without memory
    Command* operator->() { return command_; }
    [[nodiscard]] const unsigned char* element(std::size_t index) const
    {
        return reinterpret_cast<const unsigned char*>(command_) + sizeof(Command) + index * sizeof(Element);
    }

private:
    std::unique_ptr<unsigned char, unmap> pages_;
    Command* command_ = nullptr;
};

using statistic_name = std::array<char, ETH_GSTRING_LEN>;

/// How many statistics the driver has.
std::uint32_t number_of_statistics(const OwnedFd& socket, const std::string& interface)
{
    buffer<ethtool_sset_info, std::uint32_t> sets(1);
    if (!sets.get())
        return 0;
    sets->cmd = ETHTOOL_GSSET_INFO;
    sets->sset_mask = 1ULL << ETH_SS_STATS;
    if (!ethtool(socket, interface, sets.get()) || !sets->sset_mask)
        return 0;
    std::uint32_t count = 0;
    std::memcpy(&count, sets.element(0), sizeof(count));
    return count;
}

} // namespace

void keep_one_each(std::vector<named_counter>& counters)
{
    std::ranges::sort(counters, {}, &named_counter::name);
    const auto twice = std::ranges::unique(counters, {}, &named_counter::name);
    counters.erase(twice.begin(), twice.end());
}

std::vector<named_counter> flow_control_counters(const std::string& interface)
{
    const OwnedFd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    const auto count = socket ? number_of_statistics(socket, interface) : 0;
    if (!count) // the kernel warns of a question for nothing
        return {};
    buffer<ethtool_gstrings, statistic_name> names(count);
    buffer<ethtool_stats, std::uint64_t> values(count);
    if (!names.get() || !values.get())
        return {};
    names->cmd = ETHTOOL_GSTRINGS;
    names->string_set = ETH_SS_STATS;
    names->len = count;
    values->cmd = ETHTOOL_GSTATS;
    values->n_stats = count;
    if (!ethtool(socket, interface, names.get()) || !ethtool(socket, interface, values.get()) ||
        names->len != count || values->n_stats != count)
        return {};
    std::vector<named_counter> found;
    for (std::size_t i = 0; i < count; i++) {
        const auto* text = reinterpret_cast<const char*>(names.element(i));
        named_counter counter{{text, strnlen(text, sizeof(statistic_name))}, 0};
        if (!is_about_flow_control(counter.name))
            continue;
        std::memcpy(&counter.value, values.element(i), sizeof(counter.value));
        found.push_back(std::move(counter));
    }
    keep_one_each(found);
    return found;
}

bool is_about_flow_control(std::string_view counter)
{
    // "rx_prio3_pause", "tx_pfc_ena_frames_pri3", "rx_priority_3_xoff.nic", "rx_flow_control_xon"
    constexpr std::array words{"pause", "pfc", "xon", "xoff"};
    return std::ranges::any_of(words, [&](const char* word) { return counter.contains(word); });
}

} // namespace weft
