// SPDX-License-Identifier: LGPL-2.1-or-later
#include "forks.hpp"

#include <atomic>
#include <mutex>
#include <pthread.h>
#include <vector>

namespace weft::cufile
{

namespace
{

struct Held {
    void (*lock)(void*);
    void (*unlock)(void*);
    void (*renew)(void*);
    void* mutex;
};

struct All {
    std::mutex lock; ///< of what follows; a fork holds it, too
    std::vector<Held> held;
    std::vector<void (*)() noexcept> renewals;
    std::atomic<unsigned> forks = 0;
};

All& all()
{
    static auto* const once = [] {
        auto* const made = new All; // NOLINT(cppcoreguidelines-owning-memory): never destroyed, as the locks
        ::pthread_atfork(
            [] {
                all().lock.lock();
                for (const auto& one : all().held)
                    one.lock(one.mutex);
            },
            [] {
                for (const auto& one : all().held)
                    one.unlock(one.mutex);
                all().lock.unlock();
            },
            [] {
                for (const auto& one : all().held)
                    one.renew(one.mutex);
                all().forks++;
                renew(all().lock);
                for (const auto renew_all : all().renewals)
                    renew_all();
            });
        return made;
    }();
    return *once;
}

} // namespace

unsigned forks() noexcept
{
    return all().forks.load(std::memory_order_relaxed);
}

void hold_at_forks(void (*lock)(void*), void (*unlock)(void*), void (*renew)(void*), void* mutex)
{
    const std::lock_guard held(all().lock);
    all().held.push_back({lock, unlock, renew, mutex});
}

void renew_in_children(void (*renew_all)() noexcept)
{
    const std::lock_guard held(all().lock);
    all().renewals.push_back(renew_all);
}

} // namespace weft::cufile
