// SPDX-License-Identifier: GPL-2.0-only
#include "process.hpp"

#include <fd.hpp>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>

extern char** environ;

namespace weft
{

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
    pid_t child = 0;
    const int problem = ::posix_spawnp(&child, argv[0], &actions, nullptr, argv.data(), environment.data());
    posix_spawn_file_actions_destroy(&actions);
    if (problem)
        return done;
    writing = OwnedFd();

    char buffer[4096];
    for (ssize_t got = 1; got > 0 || (got < 0 && errno == EINTR);) {
        got = ::read(reading.get(), buffer, sizeof(buffer));
        if (got > 0)
            done.output.append(buffer, static_cast<std::size_t>(got));
    }
    int status = 0;
    while (::waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    done.status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    return done;
}

namespace
{

volatile std::sig_atomic_t signalled = 0;

} // namespace

bool a_signal_came() noexcept
{
    return signalled;
}

void end_waits_at_signals()
{
    // No SA_RESTART.
    struct sigaction action {
    };
    action.sa_handler = [](int) { signalled = 1; };
    sigaction(SIGINT, &action, nullptr);
    sigaction(SIGTERM, &action, nullptr);
}

result<void> load_module(const std::string& name)
{
    auto done = run_process({"/sbin/modprobe", name});
    if (!done.status)
        return {};
    done.output.erase(done.output.find_last_not_of('\n') + 1);
    std::replace(done.output.begin(), done.output.end(), '\n', ' ');
    return fail(exit_code::missing, "the kernel module {} cannot be loaded: {}", name,
                done.output.empty() ? "modprobe is not there" : done.output);
}

} // namespace weft
