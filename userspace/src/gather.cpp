// SPDX-License-Identifier: LGPL-2.1-or-later
#include "room.hpp"

#include <weft/gather.hpp>

#include <algorithm>
#include <cerrno>
#include <span>
#include <vector>

namespace weft
{

namespace
{

/// One read of one extent, or of several that are adjacent on the target and in memory.
struct Read {
    std::uint32_t first = 0; ///< index in the sorted extents
    std::uint32_t count = 0;
    std::uint32_t length = 0;
    std::uint32_t order = 0;
    std::uint32_t member = 0;
};

/// The reads of a member that are not sent: [next, end) of all reads.
struct Queue {
    std::uint32_t next = 0;
    std::uint32_t end = 0;
    std::uint32_t in_flight = 0;
};

/// Tokens of extents that are read alone after a joined read failed.
constexpr std::uint64_t alone_mark = std::uint64_t{1} << 32;

std::uint32_t member_of(const Geometry& geometry, std::uint64_t offset)
{
    return geometry.chunk_size
               ? static_cast<std::uint32_t>(offset / geometry.chunk_size % geometry.member_count)
               : 0;
}

} // namespace

struct Gather::Impl final : Sink {
    Impl(std::shared_ptr<Engine::Impl> engine_in, const GatherOptions& options_in)
        : engine(std::move(engine_in)), options(options_in), sorted(options_in.capacity),
          reads(options_in.capacity)
    {
        alone.reserve(options_in.capacity);
    }

    void arrange(const Target& target, std::span<const Extent> wanted);
    void refill(const Target& target, const Registration& memory) noexcept;
    bool refill_alone(const Target& target, const Registration& memory) noexcept;
    void settle(std::uint32_t index, std::int64_t result) noexcept;
    void complete(std::uint64_t token, const Completion& completion) noexcept override;

    std::shared_ptr<Engine::Impl> engine;
    GatherOptions options;
    std::vector<std::uint32_t> sorted; ///< indices of extents
    std::vector<Read> reads;
    std::vector<Queue> queues;
    std::uint32_t read_count = 0;
    std::uint32_t left = 0;           ///< reads
    std::vector<std::uint32_t> alone; ///< extents of joined reads that failed, to be read one by one
    std::uint32_t alone_in_flight = 0;
    bool running = false;
    std::vector<Extent> own; ///< of the records of this run
    std::span<const Extent> extents;
    std::span<std::int32_t> results;
    Gathered done;
};

/// Sorts the extents by order and offset, joins adjacent ones, and sorts the reads by member.
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
            extent.length && before->length % geometry.block_size == 0 &&
            before->offset + before->length == extent.offset &&
            before->memory_offset + before->length == extent.memory_offset &&
            std::uint64_t{last->length} + extent.length <= options.largest) {
            last->count++;
            last->length += extent.length;
        } else {
            reads[read_count++] = {i, 1, extent.length, extent.order, member};
        }
    }
    // A stable sort would allocate. `first` keeps the order of reads on one member.
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

/// Sends one read to each member in turn, up to each member's share of the depth.
void Gather::Impl::refill(const Target& target, const Registration& memory) noexcept
{
    if (!refill_alone(target, memory))
        return;
    const auto share = std::max<std::uint32_t>(1, options.depth / static_cast<std::uint32_t>(queues.size()));
    for (bool any = true; any;) {
        any = false;
        for (auto& queue : queues) {
            if (queue.next == queue.end || queue.in_flight >= share)
                continue;
            const auto& read = reads[queue.next];
            const auto& extent = extents[sorted[read.first]];
            if (!engine->begin(Kind::read, target, &memory,
                               {extent.offset, extent.memory_offset, read.length}, queue.next, this))
                return;
            queue.next++;
            queue.in_flight++;
            any = true;
        }
    }
}

/// Reads the extents of failed joined reads one by one; false if the engine has no room.
bool Gather::Impl::refill_alone(const Target& target, const Registration& memory) noexcept
{
    while (!alone.empty() && alone_in_flight < options.depth) {
        const auto index = alone.back();
        const auto& extent = extents[index];
        if (!engine->begin(Kind::read, target, &memory, {extent.offset, extent.memory_offset, extent.length},
                           alone_mark | index, this))
            return false;
        alone.pop_back();
        alone_in_flight++;
        done.reads++;
    }
    return true;
}

void Gather::Impl::settle(std::uint32_t index, std::int64_t result) noexcept
{
    results[index] = static_cast<std::int32_t>(result);
    if (result < 0)
        done.failed++;
    else
        done.bytes += static_cast<std::uint64_t>(result);
}

void Gather::Impl::complete(std::uint64_t token, const Completion& completion) noexcept
{
    done.route = std::max(done.route, completion.route);
    left--;
    if (token & alone_mark) {
        alone_in_flight--;
        settle(static_cast<std::uint32_t>(token), completion.result);
        return;
    }
    const auto& read = reads[token];
    auto bytes = completion.result;
    queues[read.member].in_flight--;
    for (std::uint32_t i = 0; i < read.count; i++) {
        const auto index = sorted[read.first + i];
        const auto& extent = extents[index];
        if (completion.result < 0 && read.count > 1) {
            // One extent caused the error; read each of them alone.
            alone.push_back(index);
            left++;
        } else if (completion.result < 0) {
            settle(index, completion.result);
        } else {
            const auto mine = std::min<std::int64_t>(bytes, extent.length);
            bytes -= mine;
            // A read of this extent alone says that it begins behind the end.
            settle(index, mine || !extent.length ? mine : -ERANGE);
        }
    }
}

Gather::Gather(std::unique_ptr<Impl> impl) noexcept : impl_(std::move(impl)) {}
Gather::Gather(Gather&& other) noexcept = default;
Gather& Gather::operator=(Gather&& other) noexcept = default;
Gather::~Gather() = default;

Result<Gather> Gather::create(Engine& engine, const GatherOptions& options)
{
    if (!options.capacity || !options.depth || !options.largest)
        return failure(EINVAL, "capacity, depth and largest of a gather must be 1 or more");
    auto impl = std::make_unique<Impl>(engine.impl_, options);
    constexpr std::size_t most_members = 256;
    impl->queues.reserve(most_members);
    return Gather(std::move(impl));
}

Result<Gathered> Gather::run(const Target& target, const Registration& memory, Span<const Extent> extents,
                             Span<std::int32_t> results) noexcept
{
    auto& impl = *impl_;
    if (impl.running)
        return failure(EBUSY, "this gather is running already");
    if (extents.size() > impl.options.capacity)
        return failure(E2BIG, std::to_string(extents.size()) + " extents exceed this gather's capacity of " +
                                  std::to_string(impl.options.capacity));
    if (results.size() < extents.size())
        return failure(EINVAL, "results must have room for the result of each extent");
    for (const auto& extent : extents)
        if (extent.length > INT32_MAX)
            return failure(EINVAL, "an extent of " + std::to_string(extent.length) +
                                       " bytes is too long: a result holds less than 2 GiB");
    impl.alone.clear();
    impl.extents = extents;
    impl.results = results;
    impl.done = {.route = memory.route()};
    impl.queues.resize(target.geometry().member_count);
    impl.arrange(target, extents);
    impl.left = impl.read_count;
    impl.done.reads = impl.read_count;
    impl.running = true;
    Result<void> waited;
    while (impl.left && waited) {
        impl.refill(target, memory);
        waited = wait_beside(*impl.engine);
    }
    impl.running = false;
    if (!waited)
        return std::unexpected(std::move(waited.error()));
    return impl.done;
}

Result<Gathered> Gather::run(const Target& target, const Registration& memory, const Records& records,
                             Span<const std::int64_t> numbers, std::uint64_t memory_offset,
                             Span<std::int32_t> results)
{
    auto& impl = *impl_;
    if (impl.running)
        return failure(EBUSY, "this gather is running already");
    const auto count = numbers.size();
    if (count > impl.options.capacity)
        return failure(E2BIG, std::to_string(count) + " records exceed this gather's capacity of " +
                                  std::to_string(impl.options.capacity) + " extents");
    const auto most = records.length ? UINT64_MAX / records.length : UINT64_MAX;
    if (records.count > most || records.count * records.length > UINT64_MAX - records.offset ||
        count > most || count * records.length > UINT64_MAX - memory_offset)
        return failure(EOVERFLOW,
                       "records of " + std::to_string(records.length) + " bytes end beyond 2^64 bytes");
    if (impl.own.size() < count)
        impl.own.resize(impl.options.capacity);
    for (std::size_t i = 0; i < count; i++) {
        const auto number = static_cast<std::uint64_t>(numbers[i]);
        if (number >= records.count)
            return failure(ERANGE, "the target has no record " + std::to_string(numbers[i]) +
                                       ": the first is 0, and there are " + std::to_string(records.count));
        impl.own[i] = {records.offset + number * records.length,
                       memory_offset + i * std::uint64_t{records.length}, records.length, 0};
    }
    return run(target, memory, {impl.own.data(), count}, results);
}

} // namespace weft
