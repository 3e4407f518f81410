// SPDX-License-Identifier: LGPL-2.1-or-later
#include "room.hpp"

#include <weft/gather.hpp>

#include <algorithm>
#include <vector>

namespace weft
{

namespace
{

/// Neighbours on target and in memory, as one read.
struct Read {
    std::uint32_t first = 0; ///< of the sorted extents
    std::uint32_t count = 0;
    std::uint32_t length = 0;
    std::uint32_t order = 0;
    std::uint32_t member = 0;
};

/// A member's reads are [next, end) of all.
struct Queue {
    std::uint32_t next = 0;
    std::uint32_t end = 0;
    std::uint32_t in_flight = 0;
};

std::uint32_t member_of(const Geometry& geometry, std::uint64_t offset)
{
    return geometry.chunk_size
               ? static_cast<std::uint32_t>(offset / geometry.chunk_size % geometry.member_count)
               : 0;
}

} // namespace

struct Gather::Impl final : Sink {
    Impl(Engine& engine_in, const GatherOptions& options_in)
        : engine(engine_in), options(options_in), sorted(options_in.capacity), reads(options_in.capacity)
    {
    }

    void arrange(const Target& target, std::span<const Extent> wanted);
    void refill(const Target& target, const Registration& memory) noexcept;
    void complete(std::uint64_t token, const Completion& completion) noexcept override;

    Engine& engine;
    GatherOptions options;
    std::vector<std::uint32_t> sorted; ///< indices of extents
    std::vector<Read> reads;
    std::vector<Queue> queues;
    std::uint32_t read_count = 0;
    std::uint32_t left = 0; ///< reads
    std::span<const Extent> extents;
    std::span<std::int32_t> results;
    Gathered done;
};

/// By member, and there by order and place; then neighbours are joined.
void Gather::Impl::arrange(const Target& target, std::span<const Extent> wanted)
{
    const auto& geometry = target.geometry();
    const auto count = static_cast<std::uint32_t>(wanted.size());
    for (std::uint32_t i = 0; i < count; i++)
        sorted[i] = i;
    std::sort(sorted.begin(), sorted.begin() + count, [&](std::uint32_t a, std::uint32_t b) {
        const auto& one = wanted[a];
        const auto& other = wanted[b];
        if (one.order != other.order)
            return one.order < other.order;
        return one.offset < other.offset;
    });
    read_count = 0;
    for (std::uint32_t i = 0; i < count; i++) {
        const auto& extent = wanted[sorted[i]];
        auto* last = read_count ? &reads[read_count - 1] : nullptr;
        const auto* before = i ? &wanted[sorted[i - 1]] : nullptr;
        const auto member = member_of(geometry, extent.offset);
        if (last && last->order == extent.order && last->member == member && before->length &&
            before->length % geometry.block_size == 0 && before->offset + before->length == extent.offset &&
            before->memory_offset + before->length == extent.memory_offset &&
            std::uint64_t{last->length} + extent.length <= options.largest) {
            last->count++;
            last->length += extent.length;
        } else {
            reads[read_count++] = {i, 1, extent.length, extent.order, member};
        }
    }
    // Not a stable sort, which would allocate: what came first decides.
    std::sort(reads.begin(), reads.begin() + read_count, [](const Read& one, const Read& other) {
        return one.member != other.member ? one.member < other.member : one.first < other.first;
    });
    for (auto& queue : queues)
        queue = {};
    for (std::uint32_t i = 0; i < read_count; i++) {
        auto& queue = queues[reads[i].member];
        if (!queue.end)
            queue.next = i;
        queue.end = i + 1;
    }
}

/// Each member in turn gets one, as long as its share of the depth is not in flight.
void Gather::Impl::refill(const Target& target, const Registration& memory) noexcept
{
    const auto share = std::max<std::uint32_t>(1, options.depth / static_cast<std::uint32_t>(queues.size()));
    for (bool any = true; any;) {
        any = false;
        for (auto& queue : queues) {
            if (queue.next == queue.end || queue.in_flight >= share)
                continue;
            const auto& read = reads[queue.next];
            const auto& extent = extents[sorted[read.first]];
            if (!engine.read(target, memory, {extent.offset, extent.memory_offset, read.length}, queue.next,
                             this))
                return;
            queue.next++;
            queue.in_flight++;
            any = true;
        }
    }
}

void Gather::Impl::complete(std::uint64_t token, const Completion& completion) noexcept
{
    const auto& read = reads[token];
    auto bytes = completion.result;
    queues[read.member].in_flight--;
    left--;
    for (std::uint32_t i = 0; i < read.count; i++) {
        const auto index = sorted[read.first + i];
        if (completion.result < 0) {
            results[index] = static_cast<std::int32_t>(completion.result);
            done.failed++;
            continue;
        }
        const auto mine = std::min<std::int64_t>(bytes, extents[index].length);
        results[index] = static_cast<std::int32_t>(mine);
        bytes -= mine;
        done.bytes += static_cast<std::uint64_t>(mine);
    }
}

Gather::Gather(std::unique_ptr<Impl> impl) noexcept : impl_(std::move(impl)) {}
Gather::Gather(Gather&& other) noexcept = default;
Gather& Gather::operator=(Gather&& other) noexcept = default;
Gather::~Gather() = default;

Result<Gather> Gather::create(Engine& engine, const GatherOptions& options)
{
    if (!options.capacity || !options.depth || !options.largest)
        return failure(EINVAL, "a gather has room for one extent and one read at least");
    auto impl = std::make_unique<Impl>(engine, options);
    constexpr std::size_t most_members = 256;
    impl->queues.reserve(most_members);
    return Gather(std::move(impl));
}

Result<Gathered> Gather::run(const Target& target, const Registration& memory,
                             std::span<const Extent> extents, std::span<std::int32_t> results) noexcept
{
    auto& impl = *impl_;
    if (extents.size() > impl.options.capacity)
        return failure(E2BIG, std::to_string(extents.size()) + " extents are more than this gather's " +
                                  std::to_string(impl.options.capacity));
    if (results.size() < extents.size())
        return failure(EINVAL, "there is no room for the result of each extent");
    impl.extents = extents;
    impl.results = results;
    impl.done = {.route = memory.route()};
    impl.queues.resize(target.geometry().member_count);
    impl.arrange(target, extents);
    impl.left = impl.read_count;
    impl.done.reads = impl.read_count;
    while (impl.left) {
        impl.refill(target, memory);
        if (auto waited = wait_beside(impl.engine); !waited)
            return std::unexpected(std::move(waited.error()));
    }
    return impl.done;
}

} // namespace weft
