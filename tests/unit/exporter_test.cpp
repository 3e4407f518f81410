// SPDX-License-Identifier: GPL-2.0-only
#include "history.hpp"
#include "http.hpp"
#include "page.hpp"

#include <arpa/inet.h>
#include <fd.hpp>
#include <gtest/gtest.h>
#include <stdexcept>
#include <sys/socket.h>

namespace
{

using namespace weft;

/// A port of this host that is free now.
std::uint16_t free_port()
{
    const OwnedFd fd(::socket(AF_INET, SOCK_STREAM, 0));
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = ::htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(at);
    EXPECT_EQ(0, ::bind(fd.get(), reinterpret_cast<sockaddr*>(&at), size));
    EXPECT_EQ(0, ::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&at), &size));
    return ::ntohs(at.sin_port);
}

/// What is answered until the connection ends.
std::string ask(std::uint16_t port, const std::string& request)
{
    const OwnedFd fd(::socket(AF_INET, SOCK_STREAM, 0));
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = ::htonl(INADDR_LOOPBACK);
    at.sin_port = ::htons(port);
    std::string text;
    EXPECT_EQ(0, ::connect(fd.get(), reinterpret_cast<sockaddr*>(&at), sizeof(at)));
    EXPECT_EQ(static_cast<ssize_t>(request.size()),
              ::send(fd.get(), request.data(), request.size(), MSG_NOSIGNAL));
    char some[4096];
    for (ssize_t got; (got = ::recv(fd.get(), some, sizeof(some), 0)) > 0;)
        text.append(some, static_cast<std::size_t>(got));
    return text;
}

std::string head(const std::string& line)
{
    return line + " HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n";
}

TEST(Http, AnswersGetAndHead)
{
    const auto port = free_port();
    const auto server =
        http_server::start(fmt::format("127.0.0.1:{}", port), [](const std::string& path) -> http_answer {
            if (path == "/bad")
                throw std::runtime_error("it went wrong");
            return {200, "text/plain", "this is " + path};
        });
    ASSERT_TRUE(server) << server.error().text;
    const auto got = ask(port, head("GET /a?b=c"));
    EXPECT_TRUE(got.starts_with("HTTP/1.1 200 ")) << got;
    EXPECT_TRUE(got.ends_with("\r\n\r\nthis is /a")) << got;
    EXPECT_TRUE(ask(port, head("HEAD /a")).ends_with("\r\n\r\n"));
    EXPECT_TRUE(ask(port, head("GET /bad")).starts_with("HTTP/1.1 500 "));
    EXPECT_TRUE(ask(port, head("GET /bad")).ends_with("\r\n\r\nit went wrong\n"));
    EXPECT_TRUE(ask(port, head("DELETE /a")).starts_with("HTTP/1.1 405 "));
    EXPECT_FALSE(ask(port, "nonsense\r\n\r\n").starts_with("HTTP/1.1 200"));
    const auto again = http_server::start(fmt::format("127.0.0.1:{}", port), {});
    ASSERT_FALSE(again);
    EXPECT_TRUE(again.error().text.contains("Address already in use")) << again.error().text;
}

TEST(Http, RefusesWhatIsNoAddress)
{
    for (const char* text :
         {"", ":", ":80", "9919", "::1:80", "[::1]", "127.0.0.1:", "127.0.0.1:http", "1.2.3.4.5:80",
          "127.0.0.1:0", "127.0.0.1:70000", "127.0.0.1: 80", "127.0.0.1:+80", "127.0.0.1:80x"})
        EXPECT_FALSE(http_server::start(text, {})) << text;
}

TEST(History, HasTheVolumesOfNow)
{
    history past;
    load_sample one;
    one.volume.name = "data\xff";
    one.volume.members.resize(2);
    const auto document = past.document({{"data", one}}, "1.2");
    EXPECT_EQ("1.2", document["version"]);
    EXPECT_EQ(2U, document["volumes"][0]["members"].size());
    EXPECT_TRUE(document["volumes"][0]["history"].is_array());
    EXPECT_FALSE(document["volumes"][0]["qos"]["on"]);
    EXPECT_TRUE(dump(document, -1).contains("data\xef\xbf\xbd"));
}

TEST(History, IsOfTheLastHourAndOfOneVolume)
{
    history past;
    load_sample one;
    one.volume.name = "data";
    one.volume.uuid = "1";
    one.volume.members.resize(1);
    const auto slots = [&] { return past.document({{"data", one}}, "1.2")["volumes"][0]["history"].size(); };
    for (std::int64_t i = 0; i < 400; i++)
        past.add({{"data", one}}, i);
    EXPECT_EQ(history::slots, slots());
    EXPECT_EQ(399, past.document({{"data", one}}, "1.2")["volumes"][0]["history"].back()["end"]);
    one.volume.uuid = "2";
    past.add({{"data", one}}, 400);
    EXPECT_EQ(0U, slots());
    past.add({{"data", one}}, 401);
    EXPECT_EQ(1U, slots());
    past.add(load_samples{}, 402);
    EXPECT_EQ(0U, slots());
    for (unsigned int i = 0; i < history::events_most + 1; i++) {
        event_report event;
        event.text = std::to_string(i);
        past.add(event);
    }
    const auto events = past.document({}, "1.2")["events"];
    EXPECT_EQ(history::events_most, events.size());
    EXPECT_EQ("1", events[0]["text"]);
}

TEST(Cdi, AReaderMayRead)
{
    volume_status writer, reader;
    writer.name = "data";
    reader.name = "set";
    reader.read_only = true;
    const auto specification = cdi_specification({writer, reader});
    const auto& nodes = specification["devices"][0]["containerEdits"]["deviceNodes"];
    EXPECT_EQ("/dev/weft/data", nodes[0]["path"]);
    EXPECT_EQ("b", nodes[0]["type"]);
    EXPECT_EQ("rw", nodes[1]["permissions"]);
    const auto& readers = specification["devices"][1]["containerEdits"]["deviceNodes"];
    EXPECT_EQ("r", readers[0]["permissions"]);
    EXPECT_EQ("rw", readers[1]["permissions"]);
    EXPECT_EQ("weft/volume", specification["kind"]);
}

TEST(Page, HasItsFiles)
{
    for (const auto& file : page_files)
        EXPECT_GT(file.text.size(), 100U) << file.path;
}

} // namespace
