// SPDX-License-Identifier: GPL-2.0-only
/// Gives weft volumes to containers: a node plugin of the Container Storage Interface.
#include "options.hpp"
#include "service.hpp"

#include <result.hpp>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <grpcpp/grpcpp.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

namespace
{

using namespace weft;

constexpr std::string_view scheme = "unix://";
/// What runs at a signal may end by itself in this time.
constexpr auto patience = std::chrono::seconds(5);

result<std::string> node_name(const csi_options& options)
{
    if (!options.node_id.empty())
        return options.node_id;
    char name[256] = "";
    if (::gethostname(name, sizeof(name) - 1) || !*name)
        return fail(exit_code::failure, "this host has no name; give one with --node-id");
    return name;
}

/// The socket of an endpoint.
result<std::string> socket_of(const csi_options& options)
{
    if (options.endpoint.empty())
        return fmt::format("{}/plugins/{}/csi.sock", options.kubelet, csi_driver_name);
    if (!options.endpoint.starts_with("unix:///"))
        return fail(exit_code::usage, "'{}' is not of the form unix:///PATH", options.endpoint);
    return options.endpoint.substr(scheme.size());
}

result<void> listen_on(grpc::ServerBuilder& builder, const std::string& path, int& port)
{
    std::error_code problem;
    const auto folder = std::filesystem::path(path).parent_path();
    std::filesystem::create_directories(folder, problem);
    if (problem)
        return fail(exit_code::failure, "{} cannot be made: {}", folder.string(), problem.message());
    builder.AddListeningPort(std::string(scheme) + path, grpc::InsecureServerCredentials(), &port);
    return {};
}

result<void> serve(const csi_options& options)
{
    const auto node = node_name(options);
    const auto path = socket_of(options);
    if (!node || !path)
        return std::unexpected((!node ? node : path).error());
    if (::geteuid())
        return fail(exit_code::permission, "weft-csi assembles and mounts volumes: run it as root");
    // The kubelet uses the folders, too.
    ::umask(0027);
    // For the threads of the server, too: the main thread waits for these.
    sigset_t ending;
    sigemptyset(&ending);
    sigaddset(&ending, SIGINT);
    sigaddset(&ending, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &ending, nullptr);

    identity_service identity;
    node_service volumes(*node);
    registration_service registration(*path);
    grpc::ServerBuilder builder;
    // 1 if it is listened on.
    int port = 0, registry = 1;
    if (auto done = listen_on(builder, *path, port); !done)
        return done;
    if (options.endpoint.empty()) {
        const auto at = fmt::format("{}/plugins_registry/{}-reg.sock", options.kubelet, csi_driver_name);
        if (auto done = listen_on(builder, at, registry); !done)
            return done;
        builder.RegisterService(&registration);
    }
    builder.RegisterService(&identity);
    builder.RegisterService(&volumes);
    // A process that can open a socket can mount and stop volumes.
    ::umask(0077);
    const auto server = builder.BuildAndStart();
    if (!server || !port || !registry)
        return fail(exit_code::failure, "cannot listen on {}; the lines above say why", *path);
    // Every user may read the options of mounts, which libmount keeps in /run/mount.
    ::umask(0022);
    int signal = 0;
    sigwait(&ending, &signal);
    server->Shutdown(std::chrono::system_clock::now() + patience);
    return {};
}

} // namespace

int main(int argc, char** argv)
{
    CLI::App app;
    csi_options options;
    add_options(app, options);
    CLI11_PARSE(app, argc, argv);
    const auto done = serve(options);
    if (done)
        return 0;
    complain("weft-csi: {}\n", done.error().text);
    return static_cast<int>(done.error().code);
}
