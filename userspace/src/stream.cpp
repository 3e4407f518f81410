// SPDX-License-Identifier: LGPL-2.1-or-later
#include "piece.hpp"
#include "room.hpp"

#include <weft/stream.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

namespace weft
{

namespace
{

/// The pieces of a stream, which end at stripe boundaries, and the ring of places in the memory for them.
class Plan
{
public:
    static Result<Plan> make(const Target& target, const Registration& memory, const StreamOptions& options)
    {
        const auto& geometry = target.geometry();
        Plan plan;
        const auto size = target.size_now();
        if (options.offset > size || options.offset % geometry.block_size)
            return failure(EINVAL, "a stream cannot begin at byte " + std::to_string(options.offset) +
                                       " of " + target.path());
        const auto rest = size - options.offset;
        if (options.length > rest)
            return failure(EINVAL, std::to_string(options.length) + " bytes from " +
                                       std::to_string(options.offset) + " on end beyond " + target.path());
        plan.at_ = options.offset;
        plan.end_ = options.offset + (options.length ? options.length : rest);
        plan.block_ = geometry.block_size;
        plan.piece_ = options.piece ? options.piece : usual_piece(geometry);
        if (plan.piece_ % geometry.block_size || plan.piece_ > INT32_MAX)
            return failure(EINVAL, "pieces of " + std::to_string(plan.piece_) +
                                       " bytes must be whole blocks, and below 2 GiB");
        const auto places = memory.memory().size() / plan.piece_;
        if (!places || !options.window)
            return failure(ENOSPC, "the memory has " + std::to_string(memory.memory().size()) +
                                       " bytes, fewer than one piece of " + std::to_string(plan.piece_));
        plan.places_ = static_cast<std::uint32_t>(std::min<std::uint64_t>(places, options.window));
        return plan;
    }
    [[nodiscard]] std::uint32_t places() const { return places_; }
    /// The next piece; length 0 at the end. Its read may extend to the end of a block.
    Piece next()
    {
        const auto until = std::min(end_, (at_ / piece_ + 1) * piece_);
        const Piece piece{at_, number_ % places_ * piece_, static_cast<std::uint32_t>(until - at_)};
        at_ = until;
        number_++;
        return piece;
    }
    [[nodiscard]] std::uint32_t whole(std::uint32_t length) const
    {
        return (length + block_ - 1) / block_ * block_;
    }

private:
    std::uint64_t at_ = 0;
    std::uint64_t end_ = 0;
    std::uint64_t piece_ = 0;
    std::uint32_t block_ = 1;
    std::uint32_t places_ = 0;
    std::uint64_t number_ = 0;
};

/// A place in the memory and its piece.
struct Place {
    Piece piece;
    std::int64_t result = 0;
    bool in_flight = false;
};

/// The state of a stream: its target, memory, pieces and places.
struct Window {
    Window(std::shared_ptr<Engine::Impl> engine_in, const Target& target_in, const Registration& memory_in,
           const Plan& plan_in)
        : engine(std::move(engine_in)), target(target_in), memory(memory_in), plan(plan_in),
          places(plan_in.places())
    {
    }
    /// Waits for the I/O in flight.
    Result<void> drain()
    {
        Result<void> waited;
        while (flying && waited)
            waited = wait_beside(*engine);
        return waited;
    }
    /// The same before its sink ends. The I/O of another thread's engine ends when that thread polls; if the
    /// thread has ended, no sink gets its completions.
    void end() noexcept
    {
        while (flying) {
            if (engine->reachable() != -EEXIST)
                static_cast<void>(engine->wait({}));
            else if (engine->has_user())
                std::this_thread::sleep_for(std::chrono::microseconds(100));
            else
                break;
        }
    }

    std::shared_ptr<Engine::Impl> engine;
    const Target& target;
    const Registration& memory;
    Plan plan;
    std::vector<Place> places;
    std::atomic<std::uint32_t> flying = 0; ///< I/O in flight; end() may read it in another thread
};

} // namespace

struct ReadStream::Impl final : Window, Sink {
    using Window::Window;
    ~Impl() { end(); }
    void complete(std::uint64_t token, const Completion& completion) noexcept override
    {
        places[token].result = completion.result;
        places[token].in_flight = false;
        flying--; // it may be gone after this
    }
    /// Reads ahead into all places except the caller's.
    bool ahead() noexcept
    {
        while (begun - taken < places.size() && !ended) {
            if (!pending.length)
                pending = plan.next();
            if (!pending.length) {
                ended = true;
                break;
            }
            const auto index = begun % places.size();
            auto& place = places[index];
            if (!engine->begin(Kind::read, target, &memory,
                               {pending.offset, pending.memory_offset, plan.whole(pending.length)}, index,
                               this))
                return flying != 0 || begun != taken;
            place = {pending, 0, true};
            pending = {};
            begun++;
            flying++;
        }
        return true;
    }

    Piece pending;
    std::uint64_t begun = 0; ///< pieces
    std::uint64_t taken = 0; ///< pieces that the caller has finished
    bool given = false;      ///< the caller has a piece
    bool ended = false;
};

ReadStream::ReadStream(std::unique_ptr<Impl> impl) noexcept : impl_(std::move(impl)) {}
ReadStream::ReadStream(ReadStream&& other) noexcept = default;
ReadStream& ReadStream::operator=(ReadStream&& other) noexcept = default;
ReadStream::~ReadStream() = default;

Result<ReadStream> ReadStream::create(Engine& engine, const Target& target, const Registration& memory,
                                      const StreamOptions& options)
{
    auto plan = Plan::make(target, memory, options);
    if (!plan)
        return std::unexpected(std::move(plan.error()));
    auto impl = std::make_unique<Impl>(engine.impl_, target, memory, *plan);
    impl->ahead();
    engine.submit();
    return ReadStream(std::move(impl));
}

Result<Piece> ReadStream::next()
{
    auto& impl = *impl_;
    if (impl.given) {
        impl.taken++;
        impl.given = false;
    }
    while (!impl.ahead())
        if (auto waited = wait_beside(*impl.engine); !waited)
            return std::unexpected(std::move(waited.error()));
    impl.engine->submit();
    if (impl.taken == impl.begun)
        return Piece{};
    auto& place = impl.places[impl.taken % impl.places.size()];
    while (place.in_flight)
        if (auto waited = wait_beside(*impl.engine); !waited)
            return std::unexpected(std::move(waited.error()));
    if (place.result >= place.piece.length) {
        impl.given = true;
        return place.piece;
    }
    // It stays the next piece, so each further call fails as well: a caller that goes on skips nothing.
    impl.ended = true;
    auto code = place.result < 0 ? static_cast<int>(-place.result) : EIO;
    // EBUSY says that the engine is full, and that the stream goes on.
    if (code == EBUSY)
        code = EAGAIN;
    return failure_of(std::to_string(place.piece.length) + " bytes at " + std::to_string(place.piece.offset) +
                          " of " + impl.target.path() + " cannot be read",
                      code);
}

struct WriteStream::Impl final : Window, Sink {
    using Window::Window;
    ~Impl() { end(); }
    void complete(std::uint64_t token, const Completion& completion) noexcept override
    {
        if (token == flush_token)
            flushed = completion.result;
        else
            written(places[token], completion.result);
        flying--; // it may be gone after this
    }
    void written(Place& place, std::int64_t result) noexcept
    {
        place.in_flight = false;
        if (result != place.result && !error) {
            error = result < 0 ? static_cast<int>(-result) : EIO;
            failed = place.piece;
        }
    }
    [[nodiscard]] std::unexpected<Error> why() const
    {
        return failure_of(std::to_string(failed.length) + " bytes at " + std::to_string(failed.offset) +
                              " of " + target.path() + " cannot be written",
                          error);
    }

    static constexpr std::uint64_t flush_token = ~std::uint64_t{0};
    std::uint64_t number = 0; ///< number of the piece that is being filled
    Piece given;
    std::int64_t flushed = 0;
    int error = 0;
    Piece failed;
    bool ended = false;
};

WriteStream::WriteStream(std::unique_ptr<Impl> impl) noexcept : impl_(std::move(impl)) {}
WriteStream::WriteStream(WriteStream&& other) noexcept = default;
WriteStream& WriteStream::operator=(WriteStream&& other) noexcept = default;
WriteStream::~WriteStream() = default;

Result<WriteStream> WriteStream::create(Engine& engine, const Target& target, const Registration& memory,
                                        const StreamOptions& options)
{
    auto plan = Plan::make(target, memory, options);
    if (!plan)
        return std::unexpected(std::move(plan.error()));
    return WriteStream(std::make_unique<Impl>(engine.impl_, target, memory, *plan));
}

Result<Piece> WriteStream::next()
{
    auto& impl = *impl_;
    if (impl.ended)
        return Piece{};
    if (!impl.given.length) {
        auto& place = impl.places[impl.number % impl.places.size()];
        while (place.in_flight)
            if (auto waited = wait_beside(*impl.engine); !waited)
                return std::unexpected(std::move(waited.error()));
        if (impl.error)
            return impl.why();
        impl.given = impl.plan.next();
    }
    return impl.given;
}

Result<void> WriteStream::put(std::uint32_t length)
{
    auto& impl = *impl_;
    if (!length || length > impl.given.length || length % impl.target.geometry().block_size)
        return failure(EINVAL, std::to_string(length) + " bytes are not whole blocks of a piece of " +
                                   std::to_string(impl.given.length));
    const auto index = impl.number % impl.places.size();
    auto& place = impl.places[index];
    place = {impl.given, length, true};
    while (!impl.engine->begin(Kind::write, impl.target, &impl.memory,
                               {impl.given.offset, impl.given.memory_offset, length}, index, &impl)) {
        if (auto waited = wait_beside(*impl.engine); !waited) {
            place.in_flight = false;
            return waited;
        }
    }
    // Not before: if it has not begun, the piece is put again.
    impl.ended = length < impl.given.length;
    impl.flying++;
    impl.number++;
    impl.given = {};
    impl.engine->submit();
    return {};
}

Result<void> WriteStream::finish()
{
    auto& impl = *impl_;
    if (auto drained = impl.drain(); !drained)
        return drained;
    impl.ended = true;
    if (impl.error)
        return impl.why();
    while (!impl.engine->begin(Kind::flush, impl.target, nullptr, {}, Impl::flush_token, &impl))
        if (auto waited = wait_beside(*impl.engine); !waited)
            return waited;
    impl.flying++;
    if (auto drained = impl.drain(); !drained)
        return drained;
    if (impl.flushed < 0)
        return failure_of(impl.target.path() + " cannot be flushed", static_cast<int>(-impl.flushed));
    return {};
}

} // namespace weft
