// SPDX-License-Identifier: GPL-2.0-only
#include "process.hpp"

#include <fd.hpp>

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>

extern char** environ;

namespace weft
{

process_result run_process(const std::vector<std::string>& arguments)
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
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, writing.get(), STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, writing.get(), STDERR_FILENO);
    pid_t child = 0;
    const int problem = ::posix_spawnp(&child, argv[0], &actions, nullptr, argv.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    if (problem)
        return done;
    writing = OwnedFd();

    char buffer[4096];
    for (ssize_t got = 0; (got = ::read(reading.get(), buffer, sizeof(buffer))) > 0;)
        done.output.append(buffer, static_cast<std::size_t>(got));
    int status = 0;
    while (::waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    done.status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    return done;
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
