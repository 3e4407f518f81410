// SPDX-License-Identifier: GPL-2.0-only
/// Answers GET requests by libmicrohttpd, in a thread of its own.
#pragma once

#include <result.hpp>

#include <functional>
#include <memory>
#include <string>

struct MHD_Daemon;

namespace weft
{

/// What a request is answered with.
struct http_answer {
    unsigned int status = 200;
    std::string type; ///< its media type
    std::string body;
};

class http_server
{
public:
    /// Called for the path of each GET, in the server's thread, one at a time.
    using handler = std::function<http_answer(const std::string& path)>;

    /// Listens on "HOST:PORT", or "[ADDRESS]:PORT" for IPv6, until it is destroyed. Its thread takes no
    /// signals.
    [[nodiscard]] static result<std::unique_ptr<http_server>> start(const std::string& address,
                                                                    handler answers);

private:
    explicit http_server(handler answers) : answers_(std::move(answers)) {}
    struct stopper {
        void operator()(MHD_Daemon* daemon) const;
    };
    struct callbacks;

    handler answers_;
    std::unique_ptr<MHD_Daemon, stopper> daemon_;
};

} // namespace weft
