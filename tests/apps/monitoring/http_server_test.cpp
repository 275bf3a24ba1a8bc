#include "apps/monitoring/http_server.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <new>
#include <string>
#include <vector>

#include "tests/http_client.hpp"

namespace verbena::apps {
namespace {

using ::testing::AllOf;
using testing::connect_to;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using testing::read_all;
using ::testing::StartsWith;

using Outcome = HttpParse::Outcome;

HttpParse::Outcome outcome_of(const std::string& text) {
  return parse_http_request(text).outcome;
}
int refusal_of(const std::string& text) {
  return parse_http_request(text).refusal;
}

TEST(HttpRequestTest, SaysWhatIsWanted) {
  const HttpParse parsed =
      parse_http_request("GET /metrics?name=x HTTP/1.1\r\nAccept: */*\r\nhOST: [::1]:9464 \r\n\r\n");
  ASSERT_EQ(parsed.outcome, Outcome::kRequest);
  EXPECT_EQ(parsed.request.path, "/metrics");
  EXPECT_EQ(parsed.request.host, "[::1]");
  EXPECT_TRUE(parsed.request.wants_body);
  const HttpParse head = parse_http_request("HEAD / HTTP/1.0\r\n\r\n");
  ASSERT_EQ(head.outcome, Outcome::kRequest);
  EXPECT_EQ(head.request.host, "");
  EXPECT_FALSE(head.request.wants_body);
}

TEST(HttpRequestTest, IsWaitedForUntilItIsWhole) {
  const std::string whole = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
  for (std::size_t bytes = 0; bytes < whole.size(); ++bytes)
    EXPECT_EQ(outcome_of(whole.substr(0, bytes)), Outcome::kIncomplete) << bytes;
  EXPECT_EQ(outcome_of(whole), Outcome::kRequest);
}

TEST(HttpRequestTest, WhatIsNoneIsRefusedAtOnce) {
  EXPECT_EQ(refusal_of("POST / HTTP/1.1\r\n\r\n"), 405);
  EXPECT_EQ(refusal_of("GET / HTTP/2.0\r\n\r\n"), 505);
  EXPECT_EQ(refusal_of("GET http://elsewhere/ HTTP/1.1\r\n\r\n"), 400);
  EXPECT_EQ(refusal_of("GET /\r\n\r\n"), 400);
  EXPECT_EQ(refusal_of("GET /\rx HTTP/1.1\r\n\r\n"), 400);
  EXPECT_EQ(refusal_of("\r\n\r\n"), 400);
  EXPECT_EQ(refusal_of(std::string("\x16\x03\x01\x00", 4)), 400) << "TLS";
  EXPECT_EQ(refusal_of("GET / HTTP/1.1\n\n"), 400) << "the end of the head would never come";
  EXPECT_EQ(refusal_of("GET / HTTP/1.1\r\nHost: a\nX: b\r\n\r\n"), 400);
  EXPECT_EQ(refusal_of("GET / HTTP/1.1\r\nX: " + std::string(HttpServer::kMostRequestBytes, 'x')), 431);
}

/// Whoever else reads it could take another host for the one that is meant.
TEST(HttpRequestTest, NamesOneHostClearly) {
  const auto with = [](const std::string& fields) {
    return refusal_of("GET / HTTP/1.1\r\n" + fields + "\r\n");
  };
  EXPECT_EQ(with("Host: a\r\n"), 0);
  EXPECT_EQ(with("Host: a\r\nhost: a\r\n"), 400) << "two";
  EXPECT_EQ(with("X: 1\r\n Host: a\r\n"), 400) << "folded";
  EXPECT_EQ(with("Host:\r\n a\r\n"), 400) << "folded";
  EXPECT_EQ(with("Host : a\r\n"), 400);
  EXPECT_EQ(with(": a\r\n"), 400);
  EXPECT_EQ(with("Host\r\n"), 400);
  EXPECT_EQ(with("Host: a\rb\r\n"), 400);
}

HttpAnswer echo(std::string_view path) {
  return {.body = "you asked for " + std::string(path)};
}

/// The answer to what `socket` has sent, from a server that nobody else asks.
std::string answer_on(HttpServer& server, const base::FileDescriptor& socket) {
  for (int turn = 0; turn < 100; ++turn) {
    std::vector<pollfd> wanted;
    server.add_descriptors(wanted);
    ::poll(wanted.data(), wanted.size(), 10);
    server.poll(echo);
    char byte = 0;
    if (::recv(socket.get(), &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0) break;
  }
  return read_all(socket.get());
}

void say(const base::FileDescriptor& socket, std::string_view text) {
  ASSERT_EQ(::send(socket.get(), text.data(), text.size(), MSG_NOSIGNAL), static_cast<ssize_t>(text.size()));
}

std::uint16_t port_of(const HttpServer& server) {
  return static_cast<std::uint16_t>(std::stoi(server.url().substr(server.url().rfind(':') + 1)));
}

std::string own_name() {
  std::array<char, 256> bytes{};
  EXPECT_EQ(::gethostname(bytes.data(), bytes.size() - 1), 0);
  return bytes.data();
}

class HttpServerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto listening = HttpServer::listen("127.0.0.1", 0);
    ASSERT_TRUE(listening.ok()) << listening.status();
    server_ = *std::move(listening);
    port_ = port_of(*server_);
  }
  std::string answer_to(std::string_view request) {
    const base::FileDescriptor socket = connect_to(port_);
    say(socket, request);
    return answer_on(*server_, socket);
  }

  std::uint16_t port_ = 0;
  std::unique_ptr<HttpServer> server_;
};

TEST_F(HttpServerTest, AnswersAndCloses) {
  EXPECT_EQ(server_->url(), "http://127.0.0.1:" + std::to_string(port_) + "/");
  EXPECT_THAT(answer_to("GET /x HTTP/1.1\r\nHost: localhost:1\r\n\r\n"),
              AllOf(StartsWith("HTTP/1.1 200 OK\r\n"), HasSubstr("\r\nContent-Length: 16\r\n"),
                    HasSubstr("\r\nConnection: close\r\n"), EndsWith("\r\n\r\nyou asked for /x")));
  EXPECT_THAT(answer_to("HEAD /x HTTP/1.1\r\n\r\n"),
              AllOf(HasSubstr("\r\nContent-Length: 16\r\n"), EndsWith("\r\n\r\n")));
  EXPECT_THAT(answer_to("nonsense"), StartsWith("HTTP/1.1 400 "));
}

/// A page from elsewhere whose name leads to this host.
TEST_F(HttpServerTest, AnswersOnlyUnderNamesThatNobodyElseCanGive) {
  for (const char* const address : {"127.0.0.1", "0.0.0.0", "::ffff:127.0.0.1", "::"}) {
    auto listening = HttpServer::listen(address, 0);
    ASSERT_TRUE(listening.ok()) << listening.status();
    server_ = *std::move(listening);
    port_ = port_of(*server_);
    const auto answer_to_host = [&](const std::string& host) {
      return answer_to("GET / HTTP/1.1\r\nHost: " + host + "\r\n\r\n");
    };
    for (const char* const host : {"evil.example:9464", "127.evil.example", "127.0.0.1.evil.example",
                                   "[evil]", "[::1", "::1", "localhost.evil.example", "1"}) {
      EXPECT_THAT(answer_to_host(host), StartsWith("HTTP/1.1 403 ")) << address << ' ' << host;
    }
    for (const std::string& host :
         {std::string("localhost"), std::string("LOCALHOST:80"), std::string("127.0.0.1:9464"),
          std::string("[::1]:9464"), std::string("192.0.2.1"), std::string("[2001:db8::1]"),
          own_name() + ":9464"})
      EXPECT_THAT(answer_to_host(host), StartsWith("HTTP/1.1 200 ")) << address << ' ' << host;
  }
}

TEST_F(HttpServerTest, AnswersByIpv6) {
  auto listening = HttpServer::listen("::1", 0);
  ASSERT_TRUE(listening.ok()) << listening.status();
  EXPECT_EQ((*listening)->url(), "http://[::1]:" + std::to_string(port_of(**listening)) + "/");
  const base::FileDescriptor socket(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in6 place{};
  place.sin6_family = AF_INET6;
  place.sin6_port = htons(port_of(**listening));
  place.sin6_addr = in6addr_loopback;
  ASSERT_EQ(::connect(socket.get(), reinterpret_cast<const sockaddr*>(&place), sizeof place), 0);
  say(socket, "GET /x HTTP/1.1\r\nHost: [::1]:1\r\n\r\n");
  EXPECT_THAT(answer_on(**listening, socket), EndsWith("you asked for /x"));
}

TEST_F(HttpServerTest, OfAllInterfacesItsPlaceIsTheHostsName) {
  for (const char* const all : {"0.0.0.0", "::"}) {
    const auto listening = HttpServer::listen(all, 0);
    ASSERT_TRUE(listening.ok()) << listening.status();
    EXPECT_EQ((*listening)->url(), "http://" + own_name() + ":" + std::to_string(port_of(**listening)) + "/");
  }
}

/// What it has sent and nobody has read does not take the answer from it.
TEST_F(HttpServerTest, WhoIsRefusedHearsWhy) {
  const base::FileDescriptor socket = connect_to(port_);
  say(socket, "POST / HTTP/1.1\r\nContent-Length: 100000\r\n\r\n" + std::string(100'000, 'x'));
  std::vector<pollfd> wanted;
  server_->add_descriptors(wanted);
  ASSERT_EQ(::poll(wanted.data(), wanted.size(), 10'000), 1);
  server_->poll(echo);
  std::array<char, 4096> bytes{};
  const ssize_t got = ::recv(socket.get(), bytes.data(), bytes.size(), 0);
  ASSERT_GT(got, 0);
  EXPECT_THAT(std::string(bytes.data(), static_cast<std::size_t>(got)), StartsWith("HTTP/1.1 405 "));
  EXPECT_EQ(::recv(socket.get(), bytes.data(), bytes.size(), 0), 0) << "the connection is not reset";
}

TEST_F(HttpServerTest, WithoutMemoryForAnAnswerItGoesOn) {
  const base::FileDescriptor socket = connect_to(port_);
  say(socket, "GET /x HTTP/1.1\r\n\r\n");
  const auto no_memory = [](std::string_view) -> HttpAnswer { throw std::bad_alloc(); };
  std::vector<pollfd> wanted;
  server_->add_descriptors(wanted);
  ASSERT_EQ(::poll(wanted.data(), wanted.size(), 10'000), 1);
  EXPECT_NO_THROW(server_->poll(no_memory));
  EXPECT_THAT(answer_on(*server_, socket), StartsWith("HTTP/1.1 503 "));
  EXPECT_THAT(answer_to("GET /x HTTP/1.1\r\n\r\n"), EndsWith("you asked for /x"));
}

/// One that has not asked, and one that does not read.
TEST_F(HttpServerTest, WhoIsSlowIsLetGo) {
  auto listening = HttpServer::listen("127.0.0.1", 0, std::chrono::milliseconds(50));
  ASSERT_TRUE(listening.ok()) << listening.status();
  server_ = *std::move(listening);
  const std::string large(std::size_t{8} << 20, 'x');
  const auto answer_large = [&](std::string_view /*path*/) { return HttpAnswer{.body = large}; };
  const base::FileDescriptor silent = connect_to(port_of(*server_));
  const base::FileDescriptor never_reads = connect_to(port_of(*server_));
  say(silent, "GET /x HT");
  say(never_reads, "GET /x HTTP/1.1\r\n\r\n");
  std::size_t most_connected = 0;
  const auto start = std::chrono::steady_clock::now();
  const auto connected = [&] {
    server_->poll(answer_large);
    std::vector<pollfd> wanted;
    server_->add_descriptors(wanted);
    most_connected = std::max(most_connected, wanted.size() - 1);
    return wanted.size() - 1;
  };
  connected();
  while (connected() > 0 && std::chrono::steady_clock::now() < start + std::chrono::seconds(60)) {
    pollfd nothing{};
    ::poll(&nothing, 0, 1);
  }
  EXPECT_EQ(most_connected, 2U);
  EXPECT_EQ(connected(), 0U);
  EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(50));
  EXPECT_EQ(read_all(silent.get()), "");
}

TEST_F(HttpServerTest, OneByteAtATimeIsAnsweredToo) {
  const base::FileDescriptor socket = connect_to(port_);
  for (const char byte : std::string_view("GET /slow HTTP/1.1\r\n\r\n")) {
    say(socket, {&byte, 1});
    server_->poll(echo);
  }
  EXPECT_THAT(answer_on(*server_, socket), EndsWith("you asked for /slow"));
}

TEST_F(HttpServerTest, WhoSaysThatItSaysNoMoreIsAnsweredToo) {
  const base::FileDescriptor socket = connect_to(port_);
  say(socket, "GET /x HTTP/1.1\r\n\r\n");
  ::shutdown(socket.get(), SHUT_WR);
  EXPECT_THAT(answer_on(*server_, socket), EndsWith("you asked for /x"));
}

/// Neither who says nothing nor who reads nothing keeps others from an answer, however many they are.
TEST_F(HttpServerTest, ThoseWhoAreSlowKeepNobodyWaiting) {
  const std::string large(std::size_t{8} << 20, 'x');  // more than sockets hold
  const auto answer_large = [&](std::string_view /*path*/) { return HttpAnswer{.body = large}; };
  std::vector<base::FileDescriptor> slow;
  for (std::size_t i = 0; i < 3 * HttpServer::kMostConnections; ++i) {
    slow.push_back(connect_to(port_));
    ASSERT_TRUE(slow.back().valid());
    if (i % 2 == 0) say(slow.back(), "GET / HTTP/1.1\r\n\r\n");
    server_->poll(answer_large);
  }
  std::vector<pollfd> wanted;
  server_->add_descriptors(wanted);
  EXPECT_EQ(wanted.size(), 1 + HttpServer::kMostConnections) << "the oldest have made room";
  EXPECT_THAT(answer_to("GET /x HTTP/1.1\r\n\r\n"), EndsWith("you asked for /x"));
}

TEST_F(HttpServerTest, WhoHasAskedIsAnsweredAtTheEnd) {
  const base::FileDescriptor silent = connect_to(port_);
  const base::FileDescriptor socket = connect_to(port_);
  say(socket, "GET /last HTTP/1.1\r\n\r\n");
  server_->finish(echo, std::chrono::minutes(10));  // who has an answer is not waited for, though it stays
  EXPECT_THAT(read_all(socket.get()), EndsWith("you asked for /last"));
  EXPECT_EQ(read_all(silent.get()), "");
  EXPECT_FALSE(connect_to(port_).valid()) << "the port is closed";
}

TEST_F(HttpServerTest, AtTheEndNobodyIsWaitedForLong) {
  const std::string large(std::size_t{8} << 20, 'x');
  const base::FileDescriptor never_reads = connect_to(port_);
  say(never_reads, "GET / HTTP/1.1\r\n\r\n");
  const auto before = std::chrono::steady_clock::now();
  server_->finish([&](std::string_view /*path*/) { return HttpAnswer{.body = large}; },
                  std::chrono::milliseconds(50));
  const auto passed = std::chrono::steady_clock::now() - before;
  EXPECT_GE(passed, std::chrono::milliseconds(50));
  EXPECT_LT(passed, HttpServer::kPatience) << "it is not waited for as long as during the run";
}

TEST_F(HttpServerTest, SaysWhyItCannotListen) {
  const auto why = [](const std::string& address, std::uint16_t port) {
    const absl::Status status = HttpServer::listen(address, port).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    return std::string(status.message());
  };
  EXPECT_THAT(why("127.0.0.1", port_),
              AllOf(HasSubstr("port " + std::to_string(port_)), HasSubstr("expected a port that nobody")));
  EXPECT_THAT(why("192.0.2.1", 0), HasSubstr("expected an address of an interface of this host"));
  EXPECT_THAT(why("localhost", 0), HasSubstr("an IPv4 or IPv6 address is expected"));
  EXPECT_THAT(why("fe80::1", 0), HasSubstr("is expected with the interface, as fe80::1%eth0"));
  EXPECT_THAT(why("fe80::1%no-such-interface", 0), HasSubstr("with an interface that is there"));
  EXPECT_THAT(why("fe80::1%lo", 0), HasSubstr("expected an address of an interface of this host"));
}

}  // namespace
}  // namespace verbena::apps
