// SPDX-License-Identifier: GPL-2.0-only
#include "process.hpp"

#include <fd.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char** environ;

namespace weft
{

namespace
{

/// Reads until the program has ended or closed its output. A process that it left in the background may keep
/// the pipe open.
void read_until_end(const OwnedFd& reading, pid_t child, std::string& output)
{
    const OwnedFd ending(static_cast<int>(::syscall(SYS_pidfd_open, child, 0)));
    std::array<pollfd, 2> events{pollfd{reading.get(), POLLIN, 0}, pollfd{ending.get(), POLLIN, 0}};
    for (;;) {
        if (::poll(events.data(), events.size(), -1) < 0) {
            if (errno == EINTR)
                continue;
            return;
        }
        char buffer[4096];
        if (events[0].revents) {
            const auto got = ::read(reading.get(), buffer, sizeof(buffer));
            if (got <= 0 && !(got < 0 && errno == EINTR))
                return;
            output.append(buffer, static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
        } else if (events[1].revents) {
            return; // it has ended, and the pipe is empty
        }
    }
}

} // namespace

process_result run_process(const std::vector<std::string>& arguments, const std::vector<std::string>& more)
{
    process_result done;
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC))
        return done;
    const OwnedFd reading(ends[0]);
    OwnedFd writing(ends[1]);

    std::vector<char*> argv;
    for (const auto& argument : arguments)
        argv.push_back(const_cast<char*>(argument.c_str()));
    argv.push_back(nullptr);
    std::vector<char*> environment;
    for (char** one = environ; *one; one++)
        environment.push_back(*one);
    for (const auto& one : more)
        environment.push_back(const_cast<char*>(one.c_str()));
    environment.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, writing.get(), STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, writing.get(), STDERR_FILENO);
    // A thread of a service may have signals blocked that end the child.
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    sigset_t none;
    sigemptyset(&none);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
    pid_t child = 0;
    const int problem =
        ::posix_spawnp(&child, argv[0], &actions, &attributes, argv.data(), environment.data());
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    if (problem)
        return done;
    writing = OwnedFd();

    read_until_end(reading, child, done.output);
    int status = 0;
    while (::waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    done.status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    return done;
}

namespace
{

volatile std::sig_atomic_t signalled = 0; ///< its number
std::atomic<bool> interrupted = false;    ///< a verb failed because of it

} // namespace

bool a_signal_came() noexcept
{
    return signalled;
}

namespace
{

timespec timespec_of(std::chrono::milliseconds time) noexcept
{
    return {static_cast<std::time_t>(time.count() / 1000), time.count() % 1000 * 1000000};
}

/// ppoll(2), which a signal ends also where it comes just before. Returns false then.
bool poll_unless_signalled(pollfd* events, nfds_t count, const timespec* timeout) noexcept
{
    sigset_t ending, before;
    sigemptyset(&ending);
    sigaddset(&ending, SIGINT);
    sigaddset(&ending, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &ending, &before);
    const bool undisturbed = !a_signal_came() && ::ppoll(events, count, timeout, &before) >= 0;
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return undisturbed;
}

} // namespace

bool wait_for(std::chrono::milliseconds time) noexcept
{
    const auto until = timespec_of(time);
    return poll_unless_signalled(nullptr, 0, &until);
}

bool wait_readable_in_thread(int fd) noexcept
{
    // A signal wakes one of the threads, and the others have to look.
    const timespec look{0, 200 * 1000000};
    pollfd event{fd, POLLIN, 0};
    while (!event.revents)
        if (!poll_unless_signalled(&event, 1, &look) && a_signal_came())
            return false;
    return true;
}

bool wait_readable(int fd, std::optional<std::chrono::milliseconds> time) noexcept
{
    pollfd event{fd, POLLIN, 0};
    const auto until = timespec_of(time.value_or(std::chrono::milliseconds(0)));
    return poll_unless_signalled(&event, 1, time ? &until : nullptr) && event.revents;
}

void end_waits_at_signals()
{
    // No SA_RESTART.
    struct sigaction action {
    };
    action.sa_handler = [](int number) { signalled = number; };
    action.sa_flags = static_cast<int>(SA_RESETHAND); // a second one ends the program at once
    sigaction(SIGINT, &action, nullptr);
    sigaction(SIGTERM, &action, nullptr);
}

error interruption()
{
    interrupted = true;
    return {exit_code::failure, "interrupted"};
}

void end_as_signalled()
{
    if (!interrupted || !a_signal_came())
        return;
    std::signal(signalled, SIG_DFL);
    std::raise(signalled);
}

} // namespace weft
