// SPDX-License-Identifier: LGPL-2.1-or-later
#include "buffers.hpp"

#include "forks.hpp"
#include "report.hpp"

#include <shim/cuda.hpp>

#include <atomic>
#include <cerrno>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <string>

namespace weft::cufile
{

namespace
{

struct Table {
    ProcessLock<std::shared_mutex> lock;
    std::map<std::uint64_t, std::shared_ptr<const Buffer>> by_base; ///< no two overlap
};

/// Never destroyed: threads may do I/O until the process ends.
Table& table()
{
    static auto* const once = new Table;
    return *once;
}

/// Is it memory of a GPU? Host memory that CUDA knows (pinned) is reached as host memory.
bool is_of_gpu(std::uint64_t address) noexcept
{
    const auto* cuda = shim::cuda();
    unsigned type = 0;
    return cuda && !cuda->pointer_attribute(&type, shim::cu_pointer_memory_type, address) &&
           type == shim::cu_memory_of_device;
}

CUfileOpError error_of(int code) noexcept
{
    return code == EINVAL ? CU_FILE_CUDA_POINTER_INVALID
           : code == EIO  ? CU_FILE_CUDA_CONTEXT_MISMATCH
                          : CU_FILE_INTERNAL_ERROR;
}

std::expected<std::shared_ptr<const Buffer>, CUfileOpError> make(std::uint64_t base, std::uint64_t length,
                                                                 std::uint64_t number)
{
    auto memory =
        is_of_gpu(base) ? Memory::from_cuda(base, length) : Memory::of(reinterpret_cast<void*>(base), length);
    if (!memory) {
        say_once("memory", memory.error().text);
        return std::unexpected(error_of(memory.error().code));
    }
    return std::make_shared<const Buffer>(number, base, length, *std::move(memory));
}

/// The registered buffer that this address is in. The caller has the lock.
std::shared_ptr<const Buffer> holding(const Table& of, std::uint64_t address)
{
    auto next = of.by_base.upper_bound(address);
    if (next == of.by_base.begin())
        return nullptr;
    const auto& buffer = std::prev(next)->second;
    return address - buffer->base < buffer->length ? buffer : nullptr;
}

} // namespace

CUfileOpError add_buffer(const void* base, std::size_t length)
{
    const auto address = reinterpret_cast<std::uintptr_t>(base);
    if (!base || !length || length > UINT64_MAX - address)
        return CU_FILE_INVALID_VALUE;
    static std::atomic<std::uint64_t> last = 0;
    auto made = make(address, length, ++last);
    if (!made)
        return made.error();
    const std::lock_guard held(table().lock);
    const auto next = table().by_base.lower_bound(address);
    if (holding(table(), address) || (next != table().by_base.end() && next->first < address + length))
        return CU_FILE_MEMORY_ALREADY_REGISTERED;
    table().by_base.emplace(address, *std::move(made));
    return CU_FILE_SUCCESS;
}

std::shared_ptr<const Buffer> remove_buffer(const void* base)
{
    const std::lock_guard held(table().lock);
    const auto found = table().by_base.find(reinterpret_cast<std::uintptr_t>(base));
    if (found == table().by_base.end())
        return nullptr;
    auto buffer = std::move(found->second);
    table().by_base.erase(found);
    return buffer;
}

std::expected<Place, CUfileOpError> find_buffer(const void* base, off_t offset, std::size_t size)
{
    const auto address = reinterpret_cast<std::uintptr_t>(base);
    const auto from = static_cast<std::uint64_t>(offset);
    if (!base || offset < 0 || from > UINT64_MAX - address || size > UINT64_MAX - address - from)
        return std::unexpected(CU_FILE_INVALID_VALUE);
    std::shared_ptr<const Buffer> buffer;
    {
        const std::shared_lock held(table().lock);
        buffer = holding(table(), address);
    }
    if (!buffer) {
        auto made = make(address + from, size, 0);
        if (!made)
            return std::unexpected(made.error());
        return Place{*std::move(made), 0};
    }
    const auto at = address - buffer->base + from;
    if (at > buffer->length || size > buffer->length - at)
        return std::unexpected(CU_FILE_INVALID_MAPPING_RANGE);
    return Place{std::move(buffer), at};
}

} // namespace weft::cufile
