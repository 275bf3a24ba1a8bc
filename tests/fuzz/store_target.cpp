// What others say to a store and to those who use one: clients with and without the job's secret, messages of
// either side, and what is taken for an etcd.
#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string>
#include <variant>
#include <vector>

#include "apps/report/drain_request.hpp"
#include "cluster/account.hpp"
#include "cluster/configuration.hpp"
#include "cluster/etcd_json.hpp"
#include "cluster/order.hpp"
#include "cluster/store_messages.hpp"
#include "cluster/store_server.hpp"
#include "cluster/store_state.hpp"
#include "cluster/unix_socket.hpp"
#include "cluster/word.hpp"
#include "tests/fuzz/target.hpp"

namespace verbena::fuzz {
namespace {

constexpr std::size_t kMostSaid = 4096;  // fits into an empty socket

std::string framed(std::string_view frame) {
  std::string bytes;
  for (unsigned i = 0; i < 4; ++i) bytes += static_cast<char>(frame.size() >> 8 * i & 0xff);
  return bytes.append(frame);
}

/// All frames that have come.
std::vector<std::string> hear(int socket, std::string& unread) {
  std::array<char, 4096> block{};
  for (ssize_t got = 0; (got = ::recv(socket, block.data(), block.size(), MSG_DONTWAIT)) > 0;)
    unread.append(block.data(), static_cast<std::size_t>(got));
  std::vector<std::string> frames;
  for (;;) {
    std::size_t length = 0;
    for (std::size_t i = 4; i-- > 0 && unread.size() >= 4;)
      length = length << 8 | static_cast<unsigned char>(unread[i]);
    if (unread.size() < 4 || unread.size() - 4 < length) return frames;
    frames.push_back(unread.substr(4, length));
    unread.erase(0, 4 + length);
  }
}

void check_entries(const cluster::KeyRange& range, const cluster::Snapshot& snapshot) {
  for (const cluster::Entry& each : snapshot.entries) {
    require(range.holds(each.key), "a key of another range");
    require(each.created > 0 && each.created <= each.modified && each.modified <= snapshot.revision,
            "impossible revisions");
  }
}

}  // namespace

void store_client(std::string_view bytes) {
  static const std::string kName = fmt::format("fuzz-{}", ::getpid());
  Input input(bytes);
  const bool proves = input.below(4) != 0;
  cluster::StoreState state({.most_bytes = 1 << 16, .most_leases = 8, .most_history_bytes = 1 << 12});
  auto server = cluster::StoreServer::listen(kName, known_secret(), state);
  require(server.ok(), "no store");
  const auto socket = cluster::connect_to_name(kName);
  require(socket.ok(), "the store does not listen");
  const auto say = [&](std::string_view text) {
    static_cast<void>(::send(socket->get(), text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT));
  };
  cluster::TimePoint now = cluster::TimePoint(std::chrono::seconds(1));
  std::string unread;
  if (proves) {
    const cluster::Greeting greeting{};
    say(framed(encode(greeting)));
    (*server)->poll(now);
    const std::vector<std::string> frames = hear(socket->get(), unread);
    const auto challenge = frames.size() == 1 ? cluster::decode_challenge(frames[0]) : std::nullopt;
    require(challenge.has_value(), "no challenge");
    say(framed(cluster::encode(transport::prove(known_secret().get(), cluster::kStoreClientRole,
                                                {greeting.nonce, challenge->nonce}))));
  }
  // Frames, and what is none.
  for (std::size_t said = 0; !input.empty() && said < kMostSaid;) {
    const bool is_frame = input.below(8) != 0;
    const std::string_view text = input.take_bytes(input.take<std::uint8_t>());
    say(is_frame ? framed(text) : std::string(text));
    said += text.size() + 4;
    now += std::chrono::milliseconds(input.take<std::uint8_t>());
    (*server)->poll(now);
  }
  for (int round = 0; round < 4; ++round) (*server)->poll(now);
  for (const std::string& frame : hear(socket->get(), unread)) {
    if (!proves) {
      require(cluster::decode_challenge(frame).has_value(), "a stranger hears more than the challenge");
      continue;
    }
    const auto message = cluster::decode_server_message(frame);
    require(message.has_value(), "the store says what no store says");
    require(encode(*message) == frame, "a message means something else");
  }
  require((*server)->connections() <= 1, "more than one has come");
}

void store_message(std::string_view bytes) {
  if (const auto message = cluster::decode_client_message(bytes)) {
    require(encode(*message) == bytes, "a message means something else");
    if (const auto* ask = std::get_if<cluster::Ask>(&*message); ask != nullptr && check(ask->what).ok()) {
      cluster::StoreState state({.most_bytes = 1 << 16, .most_leases = 8, .most_history_bytes = 1 << 12});
      const auto answer = state.execute(ask->what, cluster::TimePoint(std::chrono::seconds(1)));
      require(!answer.ok() || cluster::answers(ask->what, *answer), "an answer to something else");
    }
  }
  if (const auto message = cluster::decode_server_message(bytes)) {
    // Texts of errors are made printable.
    const std::string again = encode(*message);
    const auto same = cluster::decode_server_message(again);
    require(same.has_value() && encode(*same) == again, "a message means something else");
  }
  static_cast<void>(cluster::decode_greeting(bytes));
  static_cast<void>(cluster::decode_challenge(bytes));
  static_cast<void>(cluster::decode_proof(bytes));
}

void configuration(std::string_view bytes) {
  const auto read = cluster::decode_configuration(bytes);
  if (!read.ok()) return require_refusal(read.status(), "a configuration of a job");
  require(read->number > 0 && !read->servers.empty(), "nothing is in it");
  const auto again = cluster::decode_configuration(encode(*read));
  require(again.ok() && *again == *read, "a configuration means something else");
}

void drain_request(std::string_view bytes) {
  if (const auto read = apps::decode_drain_request(bytes); read.ok()) {
    const auto again = apps::decode_drain_request(encode(*read));
    require(again.ok() && *again == *read, "a request to step aside means something else");
  } else {
    require_refusal(read.status(), "a request to step aside");
  }
  const auto answer = apps::decode_drain_answer(bytes);
  if (!answer.ok()) return;
  const auto again = apps::decode_drain_answer(apps::encode_drain_answer(answer));
  require(again.ok() && *again == *answer, "an answer means something else");
}

void word(std::string_view bytes) {
  if (const auto order = cluster::decode_order(bytes); order.ok()) {
    const auto again = cluster::decode_order(encode(*order));
    require(again.ok() && *again == *order, "an order means something else");
  } else {
    require_refusal(order.status(), "an order of rank 0");
  }
  if (const auto account = cluster::decode_account(bytes); account.ok()) {
    const auto again = cluster::decode_account(encode(*account));
    require(again.ok() && *again == *account, "an account means something else");
  } else {
    require_refusal(account.status(), "what a process says of itself");
  }
  const auto read = cluster::decode_word(bytes);
  if (!read.ok()) return require_refusal(read.status(), "a word about configurations");
  const auto again = cluster::decode_word(encode(*read));
  require(again.ok() && *again == *read, "a word means something else");
}

void etcd_answer(std::string_view bytes) {
  static const std::vector<cluster::Request> kRequests = {
      cluster::KeyRange{.key = "a", .is_prefix = true}, cluster::Transaction{.puts = {{"a", "b"}}},
      cluster::GrantLease{std::chrono::seconds(1)}, cluster::KeepLease{7}, cluster::RevokeLease{7}};
  static constexpr std::array<long, 4> kStatus = {cluster::kHttpOk, 404, 503, 0};
  Input input(bytes);
  const cluster::Request& request = kRequests[input.below(static_cast<std::uint32_t>(kRequests.size()))];
  const long status = kStatus[input.below(kStatus.size())];
  const std::string_view body = bytes.substr(std::min<std::size_t>(bytes.size(), 2));
  const auto answer = cluster::decode_etcd_answer(request, status, body);
  if (answer.ok()) {
    require(cluster::answers(request, *answer), "an answer to something else");
    if (const auto* snapshot = std::get_if<cluster::Snapshot>(&*answer))
      check_entries(std::get<cluster::KeyRange>(request), *snapshot);
    const auto* lease = std::get_if<cluster::Lease>(&*answer);
    require(lease == nullptr || (lease->id != 0 && lease->ttl > cluster::Duration::zero()), "no lease");
  } else {
    require(!cluster::outcome_unknown(answer.status()), "etcd does not say that it does not know");
    require(answer.status().message().find('\n') == absl::string_view::npos, "more than a line");
  }
  if (const auto events = cluster::decode_etcd_watch_line(body); events.ok()) {
    cluster::Revision before = 0;
    for (const cluster::Event& each : *events) {
      require(!each.entry.key.empty() && each.entry.modified >= before, "back in time");
      before = each.entry.modified;
    }
  }
  if (const auto token = cluster::decode_etcd_login(status, body); token.ok())
    require(token->find_first_of("\r\n") == std::string::npos, "a header of its own");
}

}  // namespace verbena::fuzz
