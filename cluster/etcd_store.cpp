#include "cluster/etcd_store.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/printable.hpp"
#include "base/return_if_error.hpp"
#include "cluster/curl_api.hpp"
#include "cluster/etcd_json.hpp"

namespace verbena::cluster {
namespace {

/// More than any store of a job holds: who says more is not listened to.
constexpr std::size_t kMostAnswerBytes = 32 << 20;
constexpr std::uint64_t kLogin = 0;  // its place among transfers; no request or watch has this number

long milliseconds_of(Duration duration) {
  const auto ms = std::chrono::ceil<std::chrono::milliseconds>(duration).count();
  return static_cast<long>(std::max<std::int64_t>(ms, 1));
}

absl::Status check(const EtcdOptions& options) {
  if (options.endpoints.empty())
    return absl::InvalidArgumentError("etcd has no endpoint; expected http://HOST:PORT");
  for (const std::string& each : options.endpoints) {
    // libcurl looks at the rest when it connects.
    const bool has_scheme = each.starts_with("http://") || each.starts_with("https://");
    if (!has_scheme || each.ends_with('/') || base::printable(each) != each) {
      return absl::InvalidArgumentError(fmt::format(
          "etcd's endpoint \"{}\": expected http://HOST:PORT or https://HOST:PORT", base::printable(each)));
    }
  }
  return absl::OkStatus();
}

}  // namespace

/// One POST under way.
struct EtcdStore::Transfer {
  enum class Of : std::uint8_t { kRequest, kWatch, kLogin };

  explicit Transfer(EtcdStore& its_owner) : owner(its_owner) {}
  ~Transfer() {
    if (easy != nullptr) owner.api_.easy_cleanup(easy);
    owner.api_.slist_free_all(headers);
  }
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;

  /// Whether anything may have got to etcd.
  [[nodiscard]] bool is_sent() const {
    long bytes = 0;
    owner.api_.easy_info(easy, CURLINFO_REQUEST_SIZE, &bytes);
    return bytes > 0;
  }
  [[nodiscard]] long http_status() const {
    long status = 0;
    owner.api_.easy_info(easy, CURLINFO_RESPONSE_CODE, &status);
    return status;
  }

  EtcdStore& owner;
  Of of = Of::kRequest;
  std::uint64_t id = 0;
  std::size_t endpoint = 0;
  CURL* easy = nullptr;
  curl_slist* headers = nullptr;
  std::string received;
  std::size_t searched = 0;  ///< of it, for the end of a line
  bool has_begun = false;    ///< kWatch: a line has come
  TimePoint begin_deadline;
};

/// libcurl's transfers, and what they wait for.
class EtcdStore::Multi {
 public:
  explicit Multi(const CurlApi& api) : api_(api), multi_(api.multi_init()) {
    if (multi_ == nullptr) return;
    api_.multi_set(multi_, CURLMOPT_SOCKETFUNCTION, &Multi::on_socket);
    api_.multi_set(multi_, CURLMOPT_SOCKETDATA, this);
    api_.multi_set(multi_, CURLMOPT_MAXCONNECTS, 8L);  // kept for later requests
  }
  ~Multi() {
    if (multi_ != nullptr) api_.multi_cleanup(multi_);
  }
  Multi(const Multi&) = delete;
  Multi& operator=(const Multi&) = delete;

  [[nodiscard]] bool is_made() const { return multi_ != nullptr; }
  bool add(CURL* easy) { return api_.multi_add(multi_, easy) == CURLM_OK; }
  void remove(CURL* easy) { api_.multi_remove(multi_, easy); }

  void add_descriptors(std::vector<pollfd>& wanted) const {
    for (const auto& [socket, events] : sockets_) wanted.push_back({socket, events, 0});
  }
  [[nodiscard]] TimePoint due() const { return due_; }

  /// Moves what can be moved, and calls done(easy, code) for each transfer that has ended.
  template <class Done>
  void drive(TimePoint now, const Done& done) {
    std::vector<pollfd> ready;
    add_descriptors(ready);
    if (!ready.empty()) ::poll(ready.data(), ready.size(), 0);
    int running = 0;
    for (const pollfd& each : ready) {
      const int in = (each.revents & (POLLIN | POLLHUP)) != 0 ? CURL_CSELECT_IN : 0;
      const int out = (each.revents & POLLOUT) != 0 ? CURL_CSELECT_OUT : 0;
      const int error = (each.revents & (POLLERR | POLLNVAL)) != 0 ? CURL_CSELECT_ERR : 0;
      if ((in | out | error) != 0) api_.multi_socket_action(multi_, each.fd, in | out | error, &running);
    }
    api_.multi_socket_action(multi_, CURL_SOCKET_TIMEOUT, 0, &running);
    std::vector<std::pair<CURL*, CURLcode>> ended;
    int left = 0;
    while (const CURLMsg* message = api_.multi_info_read(multi_, &left)) {
      if (message->msg == CURLMSG_DONE) ended.emplace_back(message->easy_handle, message->data.result);
    }
    for (const auto& [easy, code] : ended) done(easy, code);
    remember_timeout(now);
  }
  /// As drive() does at its end, for transfers that were added since.
  void remember_timeout(TimePoint now) {
    long ms = -1;
    api_.multi_timeout(multi_, &ms);
    due_ = ms < 0 ? TimePoint::max() : now + std::chrono::milliseconds(ms);
  }

 private:
  static int on_socket(CURL* /*easy*/, curl_socket_t socket, int what, void* self, void* /*of_socket*/) {
    auto& sockets = static_cast<Multi*>(self)->sockets_;
    if (what == CURL_POLL_REMOVE) {
      sockets.erase(socket);
    } else {
      const int in = (what & CURL_POLL_IN) != 0 ? POLLIN : 0;
      const int out = (what & CURL_POLL_OUT) != 0 ? POLLOUT : 0;
      sockets[socket] = static_cast<short>(in | out);
    }
    return 0;
  }

  const CurlApi& api_;
  CURLM* const multi_;
  std::map<curl_socket_t, short> sockets_;
  TimePoint due_ = TimePoint::max();
};

absl::StatusOr<std::unique_ptr<EtcdStore>> EtcdStore::create(EtcdOptions options) {
  RETURN_IF_ERROR(check(options));
  const absl::StatusOr<const CurlApi*> api = curl_api();
  if (!api.ok()) return api.status();
  auto multi = std::make_unique<Multi>(**api);
  if (!multi->is_made()) return absl::ResourceExhaustedError("libcurl has no memory");
  return std::unique_ptr<EtcdStore>(new EtcdStore(std::move(options), **api, std::move(multi)));
}

EtcdStore::EtcdStore(EtcdOptions options, const CurlApi& api, std::unique_ptr<Multi> multi)
    : options_(std::move(options)), api_(api), multi_(std::move(multi)) {}

EtcdStore::~EtcdStore() {
  for (const auto& [id, transfer] : transfers_) multi_->remove(transfer->easy);
}

void EtcdStore::add_descriptors(std::vector<pollfd>& wanted) const {
  multi_->add_descriptors(wanted);
}

bool EtcdStore::has_something_to_begin() const {
  const auto waits = [&](const auto& each) { return !transfers_.contains(each.first); };
  const bool work = std::any_of(pending().begin(), pending().end(), waits) ||
                    std::any_of(watches().begin(), watches().end(), waits);
  return work && !(needs_login() && transfers_.contains(kLogin));
}

TimePoint EtcdStore::next_step() const {
  TimePoint next = multi_->due();
  if (has_something_to_begin()) next = std::min(next, rounds_.next());
  for (const auto& [id, transfer] : transfers_) {
    if (transfer->of == Transfer::Of::kWatch && !transfer->has_begun)
      next = std::min(next, transfer->begin_deadline);
  }
  return next;
}

void EtcdStore::step(TimePoint now) {
  now_ = now;
  begin_all(now);
  multi_->drive(now, [&](CURL* easy, CURLcode code) {
    const auto found = std::find_if(transfers_.begin(), transfers_.end(),
                                    [&](const auto& each) { return each.second->easy == easy; });
    if (found == transfers_.end()) return;  // ended with another one, of the same member
    const std::unique_ptr<Transfer> transfer = std::move(found->second);
    transfers_.erase(found);
    multi_->remove(easy);
    on_done(*transfer, code, now);
  });
  end_watches_that_do_not_begin(now);
}

void EtcdStore::begin_all(TimePoint now) {
  if (now < rounds_.next() || !has_something_to_begin()) return;
  if (needs_login()) {
    auto login = std::make_unique<Transfer>(*this);
    login->of = Transfer::Of::kLogin;
    login->id = kLogin;
    return begin(std::move(login), now, TimePoint::max());
  }
  for (auto& [number, each] : pending()) {
    if (transfers_.contains(number) || each.deadline <= now) continue;
    each.is_asked = true;
    auto transfer = std::make_unique<Transfer>(*this);
    transfer->id = number;
    begin(std::move(transfer), now, each.deadline);
  }
  for (auto& [id, watch] : watches()) {
    if (transfers_.contains(id)) continue;
    watch.is_asked = true;
    auto transfer = std::make_unique<Transfer>(*this);
    transfer->of = Transfer::Of::kWatch;
    transfer->id = id;
    begin(std::move(transfer), now, TimePoint::max());
  }
  multi_->remember_timeout(now);
}

void EtcdStore::begin(std::unique_ptr<Transfer> transfer, TimePoint now, TimePoint deadline) {
  transfer->easy = api_.easy_init();
  if (transfer->easy == nullptr) {
    rounds_.fail(now);  // no memory; the deadline is the request's end
    return;
  }
  transfer->endpoint = endpoint_;
  const bool is_transaction =
      transfer->of == Transfer::Of::kRequest && !may_repeat(pending().at(transfer->id).request);
  const EtcdPost post =
      transfer->of == Transfer::Of::kRequest ? etcd_post(pending().at(transfer->id).request)
      : transfer->of == Transfer::Of::kWatch
          ? etcd_watch_post(watches().at(transfer->id).prefix, watches().at(transfer->id).next)
          : etcd_login_post(options_.user, options_.password);
  const Duration limit = deadline == TimePoint::max() ? options_.attempt_limit
                                                      : std::min(options_.attempt_limit, deadline - now);
  transfer->begin_deadline = now + limit;
  const auto set = [&](CURLoption option, auto value) { api_.easy_set(transfer->easy, option, value); };
  const auto set_text = [&](CURLoption option, const std::string& value) {
    if (!value.empty()) set(option, value.c_str());
  };
  set(CURLOPT_URL, (options_.endpoints[endpoint_] + post.path).c_str());
  set(CURLOPT_POSTFIELDSIZE, static_cast<long>(post.body.size()));
  set(CURLOPT_COPYPOSTFIELDS, post.body.c_str());
  set(CURLOPT_WRITEFUNCTION, &EtcdStore::on_bytes);
  set(CURLOPT_WRITEDATA, transfer.get());
  set(CURLOPT_NOSIGNAL, 1L);
  set(CURLOPT_PROTOCOLS_STR, "http,https");
  set(CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
  set(CURLOPT_PROXY, "");  // not what the environment says
  set(CURLOPT_CONNECTTIMEOUT_MS, milliseconds_of(std::min(options_.connect_limit, limit)));
  if (transfer->of == Transfer::Of::kWatch) {
    set(CURLOPT_TCP_KEEPALIVE, 1L);
    set(CURLOPT_TCP_KEEPIDLE, 5L);
    set(CURLOPT_TCP_KEEPINTVL, 2L);
  } else if (limit == options_.attempt_limit) {
    set(CURLOPT_TIMEOUT_MS, milliseconds_of(limit));
  }  // else the request's deadline ends it
  if (is_transaction) set(CURLOPT_FRESH_CONNECT, 1L);
  set_text(CURLOPT_CAINFO, options_.ca_file);
  set_text(CURLOPT_SSLCERT, options_.certificate_file);
  set_text(CURLOPT_SSLKEY, options_.key_file);
  // No "Expect: 100-continue", which costs a second with servers that do not know it.
  for (const std::string& header :
       {std::string("Content-Type: application/json"), std::string("Expect:"),
        token_.empty() ? std::string() : fmt::format("Authorization: {}", token_)}) {
    if (!header.empty()) transfer->headers = api_.slist_append(transfer->headers, header.c_str());
  }
  set(CURLOPT_HTTPHEADER, transfer->headers);
  if (!multi_->add(transfer->easy)) {
    rounds_.fail(now);
    return;
  }
  transfers_.emplace(transfer->id, std::move(transfer));
}

std::size_t EtcdStore::on_bytes(char* bytes, std::size_t size, std::size_t count, void* transfer) {
  auto& to = *static_cast<Transfer*>(transfer);
  to.received.append(bytes, size * count);
  const bool goes_on =
      to.of != Transfer::Of::kWatch || to.http_status() != kHttpOk || to.owner.hear_lines(to);
  return goes_on && to.received.size() <= kMostAnswerBytes ? size * count : 0;
}

bool EtcdStore::hear_lines(Transfer& transfer) {
  std::size_t begin = 0;
  for (std::size_t end = transfer.received.find('\n', transfer.searched); end != std::string::npos;
       end = transfer.received.find('\n', begin)) {
    absl::StatusOr<std::vector<Event>> events =
        decode_etcd_watch_line(std::string_view(transfer.received).substr(begin, end - begin));
    begin = end + 1;
    transfer.has_begun = true;
    const auto watch = watches().find(transfer.id);
    if (watch == watches().end()) return false;
    if (events.ok() && !events->empty() && events->front().entry.modified < watch->second.next)
      events = absl::UnavailableError("etcd tells of changes that it has told before");
    const bool goes_on = events.ok();
    tell(transfer.id, std::move(events));
    if (!goes_on) return false;
  }
  transfer.received.erase(0, begin);
  transfer.searched = transfer.received.size();
  return true;
}

void EtcdStore::on_done(Transfer& transfer, int code, TimePoint now) {
  if (code != CURLE_OK) {
    std::string why = fmt::format("{}: {}", options_.endpoints[transfer.endpoint],
                                  api_.easy_strerror(static_cast<CURLcode>(code)));
    const bool is_sent = transfer.is_sent();
    if (transfer.of == Transfer::Of::kRequest) {
      if (const auto asked = pending().find(transfer.id); asked != pending().end())
        asked->second.is_asked = is_sent;
      lose_answer(transfer.id, why);
    } else if (transfer.of == Transfer::Of::kWatch) {
      const auto watch = watches().find(transfer.id);
      // Its end may have been told, which has ended the transfer: no fault of the member's.
      if (watch == watches().end()) return;
      if (is_sent) {
        on_watch_end(transfer, why);
      } else {
        watch->second.is_asked = false;
      }
    }
    return leave(transfer.endpoint, now, std::move(why));
  }
  if (transfer.of == Transfer::Of::kLogin) return on_login(transfer, now);
  if (transfer.of == Transfer::Of::kRequest) return on_answer(transfer, now);
  if (transfer.http_status() == kHttpOk)
    return on_watch_end(transfer, fmt::format("{} has ended it", options_.endpoints[transfer.endpoint]));
  const absl::StatusOr<std::vector<Event>> refusal = decode_etcd_watch_line(transfer.received);
  if (absl::IsUnauthenticated(refusal.status())) token_.clear();
  on_watch_end(transfer, std::string(refusal.status().message()));
  if (!absl::IsUnauthenticated(refusal.status()))
    leave(transfer.endpoint, now, std::string(refusal.status().message()));
}

void EtcdStore::on_watch_end(const Transfer& transfer, std::string_view why) {
  tell(transfer.id, absl::UnavailableError(fmt::format("the watch was cut: {}", why)));
}

void EtcdStore::on_login(const Transfer& transfer, TimePoint now) {
  absl::StatusOr<std::string> token = decode_etcd_login(transfer.http_status(), transfer.received);
  if (token.ok()) {
    token_ = *std::move(token);
    return;
  }
  if (absl::IsUnavailable(token.status()))
    return leave(transfer.endpoint, now, std::string(token.status().message()));
  const absl::Status refused = absl::UnauthenticatedError(fmt::format(
      "etcd does not take the user {}: {}", options_.user, std::string(token.status().message())));
  for (auto each = pending().begin(); each != pending().end();) finish((each++)->first, refused);
  for (auto each = watches().begin(); each != watches().end();) tell((each++)->first, refused);
}

void EtcdStore::on_answer(const Transfer& transfer, TimePoint now) {
  const auto asked = pending().find(transfer.id);
  if (asked == pending().end()) return;
  absl::StatusOr<Answer> answer =
      decode_etcd_answer(asked->second.request, transfer.http_status(), transfer.received);
  if (absl::IsUnavailable(answer.status())) {
    std::string why =
        fmt::format("{}: {}", options_.endpoints[transfer.endpoint], std::string(answer.status().message()));
    lose_answer(transfer.id, why);
    return leave(transfer.endpoint, now, std::move(why));
  }
  if (absl::IsUnauthenticated(answer.status()) && !token_.empty()) {
    // The token is too old. That was found before anything happened.
    asked->second.is_asked = false;
    token_.clear();
    rounds_.fail(now);
    return;
  }
  failures_ = 0;
  rounds_.succeed();
  set_trouble("");
  finish(transfer.id, std::move(answer));
}

void EtcdStore::leave(std::size_t endpoint, TimePoint now, std::string why) {
  set_trouble(std::move(why));
  if (endpoint != endpoint_) return;  // left already
  endpoint_ = (endpoint_ + 1) % options_.endpoints.size();
  if (++failures_ >= options_.endpoints.size()) {
    failures_ = 0;
    rounds_.fail(now);
  }
  // A member that has stopped goes on holding its connections: watches there would never hear of it.
  end_watches(endpoint, trouble());
}

void EtcdStore::end_watches(std::size_t endpoint, std::string_view why) {
  for (auto each = transfers_.begin(); each != transfers_.end();) {
    const auto transfer = each++;
    if (transfer->second->of != Transfer::Of::kWatch || transfer->second->endpoint != endpoint) continue;
    multi_->remove(transfer->second->easy);
    on_watch_end(*transfer->second, why);
    transfers_.erase(transfer);
  }
}

void EtcdStore::end_watches_that_do_not_begin(TimePoint now) {
  const auto late = std::find_if(transfers_.begin(), transfers_.end(), [&](const auto& each) {
    const Transfer& transfer = *each.second;
    return transfer.of == Transfer::Of::kWatch && !transfer.has_begun && now >= transfer.begin_deadline;
  });
  if (late == transfers_.end()) return;
  const std::size_t endpoint = late->second->endpoint;
  std::string why = fmt::format("{} does not begin to watch", options_.endpoints[endpoint]);
  end_watches(endpoint, why);
  leave(endpoint, now, std::move(why));
}

void EtcdStore::on_given_up(std::uint64_t request) {
  const auto found = transfers_.find(request);
  if (found == transfers_.end()) return;
  const std::unique_ptr<Transfer> transfer = std::move(found->second);
  transfers_.erase(found);
  pending().at(request).is_asked = transfer->is_sent();
  multi_->remove(transfer->easy);
  // Whoever asks with short deadlines must get away from a member that does not answer, too.
  leave(transfer->endpoint, now_, fmt::format("{} has not answered", options_.endpoints[transfer->endpoint]));
}

void EtcdStore::on_unwatched(WatchId watch) {
  const auto found = transfers_.find(watch);
  if (found == transfers_.end()) return;
  multi_->remove(found->second->easy);
  transfers_.erase(found);
}

}  // namespace verbena::cluster
