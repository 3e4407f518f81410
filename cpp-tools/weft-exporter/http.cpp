// SPDX-License-Identifier: GPL-2.0-only
#include "http.hpp"

#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstring>
#include <exception>
#include <fd.hpp>
#include <microhttpd.h>
#include <netdb.h>
#include <pthread.h>
#include <sys/socket.h>

namespace weft
{

namespace
{

/// A watcher asks each few seconds, on one connection.
constexpr unsigned int connections_most = 64;
constexpr unsigned int connections_of_one = 16;
constexpr unsigned int idle_seconds = 30;
constexpr std::size_t request_most = 16 << 10;

using response = std::unique_ptr<MHD_Response, void (*)(MHD_Response*)>;
using addresses = std::unique_ptr<addrinfo, void (*)(addrinfo*)>;

response make_response(const http_answer& answer)
{
    response made(MHD_create_response_from_buffer(answer.body.size(), const_cast<char*>(answer.body.data()),
                                                  MHD_RESPMEM_MUST_COPY),
                  MHD_destroy_response);
    if (!made)
        return made;
    MHD_add_response_header(made.get(), "Content-Type", answer.type.c_str());
    MHD_add_response_header(made.get(), "Cache-Control", "no-store");
    // The page has a script and a style of its own, and nothing from elsewhere.
    MHD_add_response_header(
        made.get(), "Content-Security-Policy",
        "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'");
    MHD_add_response_header(made.get(), "X-Content-Type-Options", "nosniff");
    if (answer.status == MHD_HTTP_METHOD_NOT_ALLOWED)
        MHD_add_response_header(made.get(), "Allow", "GET, HEAD");
    return made;
}

result<addresses> resolve(const std::string& text)
{
    const auto colon = text.rfind(':');
    auto host = text.substr(0, colon);
    const bool bracketed = host.size() > 2 && host.starts_with('[') && host.ends_with(']');
    if (bracketed)
        host = host.substr(1, host.size() - 2);
    unsigned int port = 0;
    const char *first = text.data() + colon + 1, *last = text.data() + text.size();
    if (colon == text.npos || host.empty() || (!bracketed && host.find(':') != host.npos) ||
        std::from_chars(first, last, port).ptr != last || port < 1 || port > 65535)
        return fail(exit_code::usage,
                    "'{}' is not of the form HOST:PORT or [ADDRESS]:PORT, with a port from 1 to 65535", text);
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
    addrinfo* found = nullptr;
    if (const int problem = ::getaddrinfo(host.c_str(), first, &hints, &found))
        return fail(exit_code::usage, "'{}' is not an address of this host: {}", text,
                    ::gai_strerror(problem));
    return addresses(found, ::freeaddrinfo);
}

/// The first of the addresses that works. Not by libmicrohttpd, with which a second server could listen on
/// the same port (SO_REUSEPORT).
result<OwnedFd> listen_on(const std::string& text)
{
    const auto all = resolve(text);
    if (!all)
        return std::unexpected(all.error());
    int problem = EADDRNOTAVAIL;
    for (const auto* at = all->get(); at; at = at->ai_next) {
        OwnedFd fd(::socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
        const int on = 1;
        if (fd && !::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) &&
            !::bind(fd.get(), at->ai_addr, at->ai_addrlen) && !::listen(fd.get(), connections_most))
            return fd;
        problem = errno;
    }
    return fail(exit_code_of(problem), "cannot listen on {}: {}", text, std::strerror(problem));
}

/// While it exists, threads that are started take no signal that ends the program: the main thread waits for
/// it.
class signals_blocked
{
public:
    signals_blocked()
    {
        sigset_t ending;
        sigemptyset(&ending);
        sigaddset(&ending, SIGINT);
        sigaddset(&ending, SIGTERM);
        pthread_sigmask(SIG_BLOCK, &ending, &before_);
    }
    signals_blocked(const signals_blocked&) = delete;
    signals_blocked& operator=(const signals_blocked&) = delete;
    ~signals_blocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

private:
    sigset_t before_;
};

} // namespace

struct http_server::callbacks {
    static http_answer answer(const http_server& server, const std::string& method, const char* path)
    {
        if (method != MHD_HTTP_METHOD_GET && method != MHD_HTTP_METHOD_HEAD)
            return {MHD_HTTP_METHOD_NOT_ALLOWED, "text/plain; charset=utf-8", "use GET or HEAD\n"};
        try {
            return server.answers_(path);
        } catch (const std::exception& problem) {
            return {MHD_HTTP_INTERNAL_SERVER_ERROR, "text/plain; charset=utf-8",
                    std::string(problem.what()) + '\n'};
        }
    }

    static MHD_Result on_request(void* self, MHD_Connection* connection, const char* path, const char* method,
                                 const char*, const char*, std::size_t*, void**)
    {
        const auto of = answer(*static_cast<http_server*>(self), method, path);
        const auto made = make_response(of);
        // MHD_NO closes the connection.
        return made ? MHD_queue_response(connection, of.status, made.get()) : MHD_NO;
    }
};

void http_server::stopper::operator()(MHD_Daemon* daemon) const
{
    MHD_stop_daemon(daemon);
}

result<std::unique_ptr<http_server>> http_server::start(const std::string& address, handler answers)
{
    auto fd = listen_on(address);
    if (!fd)
        return std::unexpected(fd.error());
    std::unique_ptr<http_server> server(new http_server(std::move(answers)));
    const signals_blocked blocked;
    server->daemon_.reset(MHD_start_daemon(
        MHD_USE_AUTO | MHD_USE_INTERNAL_POLLING_THREAD, 0, nullptr, nullptr, callbacks::on_request,
        server.get(), MHD_OPTION_LISTEN_SOCKET, fd->get(), MHD_OPTION_CONNECTION_LIMIT, connections_most,
        MHD_OPTION_PER_IP_CONNECTION_LIMIT, connections_of_one, MHD_OPTION_CONNECTION_TIMEOUT, idle_seconds,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, request_most, MHD_OPTION_END));
    if (!server->daemon_)
        return fail(exit_code::failure, "the server for {} cannot be started", address);
    static_cast<void>(fd->release()); // the daemon closes it
    return server;
}

} // namespace weft
