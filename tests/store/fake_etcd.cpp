#include "tests/store/fake_etcd.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <iterator>
#include <utility>

#include "base/decimal.hpp"
#include "tests/loopback.hpp"

namespace verbena::cluster {

FakeEtcd::FakeEtcd(Answer answer)
    : listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)),
      answer_(std::move(answer)) {
  sockaddr_in place = verbena::testing::loopback(0);
  socklen_t length = sizeof place;
  EXPECT_EQ(::bind(listener_.get(), reinterpret_cast<const sockaddr*>(&place), sizeof place), 0);
  EXPECT_EQ(::listen(listener_.get(), 64), 0);
  EXPECT_EQ(::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&place), &length), 0);
  endpoint_ = fmt::format("http://127.0.0.1:{}", ntohs(place.sin_port));
}

std::size_t FakeEtcd::count(std::string_view path) const {
  return static_cast<std::size_t>(
      std::count_if(posts_.begin(), posts_.end(), [&](const Post& each) { return each.path == path; }));
}

void FakeEtcd::say(std::string_view bytes) {
  for (Connection& each : connections_) each.unsent += bytes;
}

void FakeEtcd::close() {
  listener_.reset();
  connections_.clear();
}

void FakeEtcd::add_descriptors(std::vector<pollfd>& wanted) const {
  if (listener_.valid()) wanted.push_back({listener_.get(), POLLIN, 0});
  for (const Connection& each : connections_)
    wanted.push_back(
        {each.socket.get(), static_cast<short>(each.unsent.empty() ? POLLIN : POLLIN | POLLOUT), 0});
}

void FakeEtcd::poll(TimePoint /*now*/) {
  for (;;) {
    base::FileDescriptor socket(
        listener_.valid() ? ::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK) : -1);
    if (!socket.valid()) break;
    connections_.emplace_back().socket = std::move(socket);
  }
  for (auto each = connections_.begin(); each != connections_.end();)
    each = serve(*each) ? std::next(each) : connections_.erase(each);
}

bool FakeEtcd::serve(Connection& connection) {
  static constexpr std::string_view kLength = "content-length: ";
  std::array<char, 65536> block{};
  ssize_t got = 0;
  while ((got = ::recv(connection.socket.get(), block.data(), block.size(), 0)) > 0)
    connection.heard.append(block.data(), static_cast<std::size_t>(got));
  if (got == 0 || (got < 0 && errno != EAGAIN)) return false;
  for (std::size_t end = 0; (end = connection.heard.find("\r\n\r\n")) != std::string::npos;) {
    std::string header = connection.heard.substr(0, end);
    std::string small = header;
    std::transform(small.begin(), small.end(), small.begin(),
                   [](unsigned char c) { return std::tolower(c); });
    const std::size_t at = small.find(kLength);
    EXPECT_NE(at, std::string::npos);
    const std::size_t from = at + kLength.size();
    const auto length =
        base::parse_decimal<std::size_t>(std::string_view(small).substr(from, small.find('\r', from) - from));
    EXPECT_TRUE(length.has_value());
    if (connection.heard.size() < end + 4 + length.value_or(0)) break;
    const std::size_t space = header.find(' ');
    posts_.push_back({.path = header.substr(space + 1, header.find(' ', space + 1) - space - 1),
                      .header = header,
                      .body = connection.heard.substr(end + 4, length.value_or(0))});
    connection.heard.erase(0, end + 4 + length.value_or(0));
    const Reply reply = answer_(posts_.back());
    connection.unsent += reply.bytes;
    connection.closes = connection.closes || reply.closes;
  }
  while (connection.sent < connection.unsent.size()) {
    const ssize_t sent = ::send(connection.socket.get(), connection.unsent.data() + connection.sent,
                                connection.unsent.size() - connection.sent, MSG_NOSIGNAL);
    if (sent < 0) return errno == EAGAIN;
    connection.sent += static_cast<std::size_t>(sent);
  }
  connection.unsent.clear();
  connection.sent = 0;
  return !connection.closes;
}

FakeEtcd::Reply FakeEtcd::whole(int status, std::string_view body) {
  return {fmt::format("HTTP/1.1 {} X\r\nContent-Length: {}\r\n\r\n{}", status, body.size(), body)};
}

std::string FakeEtcd::chunks(std::string_view first) {
  return "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk(first);
}

std::string FakeEtcd::chunk(std::string_view bytes) {
  return fmt::format("{:x}\r\n{}\r\n", bytes.size(), bytes);
}

}  // namespace verbena::cluster
