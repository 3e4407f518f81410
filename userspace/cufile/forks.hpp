// SPDX-License-Identifier: LGPL-2.1-or-later
/// What becomes of locks, rings and threads in a child of fork().
#pragma once

#include <memory>

namespace weft::cufile
{

/// Differs between a child of fork() and its parent: rings, threads and registrations are the parent's.
[[nodiscard]] unsigned forks() noexcept;

/// Takes a lock before each fork, releases it in the parent, and makes it anew in the child, whose thread has
/// another id.
void hold_at_forks(void (*lock)(void*), void (*unlock)(void*), void (*renew)(void*), void* mutex);
/// Is called in each child, which has no other thread: makes anew what another thread may have held.
void renew_in_children(void (*renew_all)() noexcept);

/// A lock whose holder a child does not have.
template <typename Mutex>
void renew(Mutex& mutex) noexcept
{
    std::construct_at(&mutex);
}

/// A lock of the whole process. The thread that forks holds it during the fork: a child finds it free, and
/// what it protects whole. It is held for short sections, which take no other lock. Never destroyed.
template <typename Mutex>
class ProcessLock
{
public:
    ProcessLock()
    {
        hold_at_forks([](void* mutex) { static_cast<Mutex*>(mutex)->lock(); },
                      [](void* mutex) { static_cast<Mutex*>(mutex)->unlock(); },
                      [](void* mutex) { renew(*static_cast<Mutex*>(mutex)); }, &mutex_);
    }
    ProcessLock(const ProcessLock&) = delete;
    ProcessLock& operator=(const ProcessLock&) = delete;
    void lock() { mutex_.lock(); }
    void unlock() { mutex_.unlock(); }
    void lock_shared() { mutex_.lock_shared(); }
    void unlock_shared() { mutex_.unlock_shared(); }

private:
    Mutex mutex_;
};

} // namespace weft::cufile
