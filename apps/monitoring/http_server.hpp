// Answers GET and HEAD by HTTP, for few clients that ask seldom: Prometheus, and a browser or two. Each
// connection is for one request.
//
// Whoever is on the other side may be anyone. Only finish() waits for a client, and not long: one that is
// slow is let go after some seconds, there are few at a time, and the oldest makes room for the next. What
// takes memory that is not there costs an answer only.
#pragma once

#include <poll.h>

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "base/file_descriptor.hpp"

namespace verbena::apps {

struct HttpRequest {
  bool wants_body = true;  ///< GET, not HEAD
  std::string path;        ///< "/metrics", without what comes behind a "?"
  std::string host;        ///< that the client believes to talk to, without the port; empty: not said
};

/// What parse_http_request() has found.
struct HttpParse {
  enum class Outcome : std::uint8_t { kIncomplete, kRequest, kRefused };
  Outcome outcome = Outcome::kIncomplete;
  HttpRequest request = {};  ///< if it is one
  int refusal = 0;           ///< otherwise: the status to answer with
};
/// `text`: all that has come so far.
HttpParse parse_http_request(std::string_view text);

struct HttpAnswer {
  int status = 200;
  std::string type = "text/plain; charset=utf-8";
  std::string body;
};

/// Thread safety: belongs to one thread at a time. It has no thread of its own.
class HttpServer {
 public:
  using Clock = std::chrono::steady_clock;
  using Handler = absl::FunctionRef<HttpAnswer(std::string_view path)>;
  /// Connections at a time.
  static constexpr std::size_t kMostConnections = 32;
  /// From the connection to the end of the answer.
  static constexpr auto kPatience = std::chrono::seconds(10);
  /// How long a request may be.
  static constexpr std::size_t kMostRequestBytes = 8192;

  /// `address`: of an interface of this host, IPv4 or IPv6, as numbers. `port` 0: any that is free.
  /// INVALID_ARGUMENT if nobody can listen there, with what is expected instead.
  static absl::StatusOr<std::unique_ptr<HttpServer>> listen(const std::string& address, std::uint16_t port,
                                                            Clock::duration patience = kPatience);
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  /// "http://127.0.0.1:9464/"; if it listens at all interfaces, with the host's name.
  [[nodiscard]] const std::string& url() const { return url_; }

  /// What to wait for before the next poll(). Wait no longer than some seconds: slow clients are let go then.
  void add_descriptors(std::vector<pollfd>& wanted) const;
  /// Does what can be done at once. `handle`: answers a request.
  void poll(Handler handle);
  /// Nobody will call poll() again: answers those who have asked, for at most this long, and lets all go.
  /// From the beginning of it on nobody else is listened to.
  void finish(Handler handle, std::chrono::milliseconds patience);

 private:
  struct Peer {
    base::FileDescriptor socket;
    Clock::time_point deadline;
    std::string said = {};
    std::string answer = {};     ///< empty: it has not asked yet
    std::size_t sent_bytes = 0;  ///< of the answer
    bool is_answered = false;
    std::size_t ignored_bytes = 0;  ///< that it has said since

    [[nodiscard]] pollfd wanted() const {
      return {socket.get(), static_cast<short>(answer.empty() || is_answered ? POLLIN : POLLOUT), 0};
    }
  };

  HttpServer(base::FileDescriptor listener, std::string url, std::vector<std::string> own_names,
             Clock::duration patience)
      : listener_(std::move(listener)),
        url_(std::move(url)),
        own_names_(std::move(own_names)),
        patience_(patience) {}

  void accept();
  /// Each of these is false if it is to be let go.
  [[nodiscard]] bool serve(Peer& peer, Handler handle) const;
  [[nodiscard]] bool go_on(Peer& peer, Handler handle) const;
  [[nodiscard]] bool hear(Peer& peer, Handler handle) const;
  [[nodiscard]] static bool say_goodbye(Peer& peer);
  [[nodiscard]] static bool ignore_rest(Peer& peer);
  [[nodiscard]] HttpAnswer answer_to(const HttpParse& parsed, Handler handle) const;

  base::FileDescriptor listener_;  ///< none after finish()
  const std::string url_;
  const std::vector<std::string> own_names_;
  const Clock::duration patience_;
  std::deque<Peer> peers_;                                         ///< the oldest first
  Clock::time_point accepts_again_at_ = Clock::time_point::min();  ///< it has run out of descriptors
};

}  // namespace verbena::apps
