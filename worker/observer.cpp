#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <deque>
#include <optional>
#include <utility>
#include <variant>

#include "base/printable.hpp"
#include "base/return_if_error.hpp"
#include "consistency/vector_clock.hpp"
#include "protocol/messages.hpp"
#include "protocol/server_function.hpp"
#include "protocol/update_rule.hpp"
#include "transport/backends.hpp"
#include "transport/message_outbox.hpp"
#include "transport/transport.hpp"
#include "worker/options.hpp"
#include <verbena/observer.hpp>

namespace verbena {
namespace {

using protocol::ControlMessage;

/// As a session's: what one turn of a waiting loop counts at most, if this process itself was stopped.
constexpr auto kLongestTurn = std::chrono::seconds(1);
constexpr auto kWaitSlice = std::chrono::milliseconds(100);
constexpr std::uint32_t kMostTables = 65'536;
/// Of an answer, if each but the last is full.
constexpr std::size_t kMostPieces = protocol::kMaxAnswerWords / protocol::kMaxInspectedWords + 1;

}  // namespace

class Observer::Core {
 public:
  explicit Core(const ObserverOptions& options) : options_(options), transport_(options.transport) {}

  absl::Status connect() {
    if (options_.servers.empty()) return absl::InvalidArgumentError("an observer needs at least one server");
    if (transport_ == nullptr) {
      auto opened = transport::open(options_.servers.front(), options_.network);
      if (!opened.ok()) return opened.status();
      transport_ = *std::move(opened);
    }
    const transport::TimePoint deadline = transport_->now() + std::chrono::milliseconds(options_.timeout_ms);
    for (const std::string& address : options_.servers) {
      auto connection = transport_->connect(address, deadline);
      if (!connection.ok()) return connection.status();
      Link& link = links_.emplace_back();
      link.connection = *std::move(connection);
      link.connection->set_peer_name(address);
      link.connection->user_data = links_.size() - 1;
      RETURN_IF_ERROR(observe(link));
      const bool is_known = std::any_of(links_.begin(), links_.end() - 1, [&](const Link& other) {
        return other.observed.server == link.observed.server;
      });
      if (is_known) links_.pop_back();  // another copy of it
    }
    return sort_links();
  }

  absl::StatusOr<ObservedJob> job() {
    ObservedJob job{.servers = static_cast<std::uint32_t>(links_.size())};
    // Workers tell their clocks to servers whose tables need them, so that some know less than others.
    consistency::Clock clock = 0;
    for (Link& link : links_) {
      RETURN_IF_ERROR(observe(link));
      job.workers = link.observed.workers;
      job.workers_left = std::max(job.workers_left, link.observed.left);
      clock = std::max<consistency::Clock>(clock, link.observed.clock);
    }
    job.clock = clock == consistency::VectorClock::kLeft ? std::nullopt : std::optional(clock);
    return job;
  }

  absl::StatusOr<std::vector<ObservedTable>> tables() {
    std::uint32_t on_all = UINT32_MAX;
    for (Link& link : links_) {
      RETURN_IF_ERROR(observe(link));
      on_all = std::min(on_all, link.observed.tables);
    }
    if (on_all > kMostTables) {
      return fail(links_.front(), absl::InvalidArgumentError(fmt::format("has {} tables, expected at most {}",
                                                                         on_all, kMostTables)));
    }
    std::vector<ObservedTable> tables;
    for (std::uint32_t number = 0; number < on_all; ++number) {
      absl::StatusOr<protocol::OpenTable> open =
          ask<protocol::OpenTable>(links_.front(), protocol::Describe{number});
      if (!open.ok()) return open.status();
      absl::StatusOr<TableOptions> options = worker::from_wire(*open);
      if (!options.ok()) return fail(links_.front(), options.status());
      if (open->table != number)
        return fail(links_.front(), absl::InvalidArgumentError("described another table"));
      tables.push_back({.number = number, .options = *std::move(options), .type = open->value_type});
    }
    return tables;
  }

  absl::StatusOr<FunctionResult> call(const ObservedTable& table, std::string_view function,
                                      const Keys& keys) {
    const absl::StatusOr<protocol::BoundFunction> bound = find(table, function);
    if (!bound.ok()) return bound.status();
    protocol::Inspect inspect{.table = table.number, .text = std::string(function)};
    std::optional<FunctionResult> all;
    std::size_t next = 0;
    const bool has_list = !keys.is_range() || keys.range() != kAllKeys;
    do {
      inspect.keys.clear();
      for (; has_list && next < keys.size() && inspect.keys.size() < protocol::kMaxInspectedKeys; ++next)
        inspect.keys.push_back(keys[next]);
      if (has_list && inspect.keys.empty()) break;  // a call without keys would be of all
      RETURN_IF_ERROR(for_each_lane([&](Link& link, std::uint32_t lane) -> absl::Status {
        inspect.lane = lane;
        const absl::StatusOr<Answer> answer = this->inspect(link, inspect);
        if (!answer.ok()) return answer.status();
        // A function's merge() is given the result of the first part to begin with.
        if (all) bound->merge(*all, answer->result);
        if (!all) all = answer->result;
        return absl::OkStatus();
      }));
    } while (has_list && next < keys.size());
    return all ? *std::move(all) : bound->make()->result();
  }

  absl::Status scan(const ObservedTable& table,
                    absl::FunctionRef<absl::Status(Key, std::span<const double>)> use) {
    const std::uint32_t width = table.options.width;
    RETURN_IF_ERROR(find(table, "values").status());
    const std::uint64_t at_a_time = std::max<std::uint64_t>(kMaxFunctionResults / width, 1);
    return for_each_lane([&](Link& link, std::uint32_t lane) -> absl::Status {
      protocol::Inspect inspect{
          .table = table.number, .lane = lane, .most_rows = at_a_time, .text = "values"};
      std::uint64_t rows = 0;
      do {
        const absl::StatusOr<Answer> answer = this->inspect(link, inspect);
        if (!answer.ok()) return answer.status();
        if (answer->result.numbers.size() != answer->result.keys.size() * width)
          return fail(link, absl::InvalidArgumentError("sent rows of another width"));
        for (std::size_t i = 0; i < answer->result.keys.size(); ++i) {
          RETURN_IF_ERROR(
              use(answer->result.keys[i], std::span(answer->result.numbers).subspan(i * width, width)));
        }
        rows = answer->rows;
        inspect.first_row += at_a_time;
      } while (inspect.first_row < rows);
      return absl::OkStatus();
    });
  }

 private:
  /// By rank.
  absl::Status sort_links() {
    std::sort(links_.begin(), links_.end(),
              [](const Link& a, const Link& b) { return a.observed.server < b.observed.server; });
    for (std::size_t rank = 0; rank < links_.size(); ++rank) {
      Link& link = links_[rank];
      link.connection->user_data = rank;
      if (link.observed.server == rank && link.observed.servers == links_.size()) continue;
      return absl::InvalidArgumentError(fmt::format(
          "{} is server {} of {}, and {} servers were named: all of them are to be",
          link.connection->peer_name(), link.observed.server, link.observed.servers, links_.size()));
    }
    return absl::OkStatus();
  }

  struct Link {
    std::unique_ptr<transport::Connection> connection;
    transport::MessageOutbox control;
    std::deque<ControlMessage> heard;  ///< and not taken yet
    protocol::Observed observed;       ///< the newest
  };
  /// Of a lane, to Inspect.
  struct Answer {
    std::uint64_t rows = 0;
    FunctionResult result;
  };

  /// Addition stands for a rule that is not known here: a function that only looks hardly asks.
  static absl::StatusOr<protocol::BoundFunction> find(const ObservedTable& table, std::string_view function) {
    const TableOptions& options = table.options;
    const absl::StatusOr<protocol::UpdateRule> rule =
        protocol::UpdateRule::find(options.rule, table.type, options.width);
    return protocol::BoundFunction::find(
        function, rule.ok() ? *rule : protocol::UpdateRule(table.type, options.width), 0);
  }

  template <class Use>
  absl::Status for_each_lane(const Use& use) {
    for (Link& link : links_) {
      for (std::uint32_t lane = 0; lane < link.observed.lanes; ++lane) RETURN_IF_ERROR(use(link, lane));
    }
    return absl::OkStatus();
  }

  absl::Status observe(Link& link) {
    absl::StatusOr<protocol::Observed> observed = ask<protocol::Observed>(link, protocol::Observe{});
    if (observed.ok()) link.observed = *observed;
    return observed.status();
  }

  absl::StatusOr<Answer> inspect(Link& link, const protocol::Inspect& inspect) {
    std::vector<std::uint64_t> words;
    absl::StatusOr<protocol::Inspected> piece = ask<protocol::Inspected>(link, inspect);
    while (piece.ok()) {
      words.insert(words.end(), piece->words.begin(), piece->words.end());
      if (piece->words_left == 0) break;
      if (piece->words.empty() || words.size() > protocol::kMaxAnswerWords)
        return fail(link, absl::InvalidArgumentError("sends an answer without an end"));
      piece = next<protocol::Inspected>(link);
    }
    if (!piece.ok()) return piece.status();
    absl::StatusOr<protocol::CallAnswer> answer = protocol::decode_answer(words);
    if (!answer.ok()) return fail(link, answer.status());
    if (!answer->status.ok()) return base::printable(answer->status);
    return Answer{piece->rows, std::move(answer->result)};
  }

  template <class Reply>
  absl::StatusOr<Reply> ask(Link& link, const ControlMessage& message) {
    if (!status_.ok()) return status_;
    if (!link.control.send(*link.connection, protocol::encode(message)))
      return fail(link, absl::UnavailableError("takes no messages"));
    return next<Reply>(link);
  }

  /// The next message of the server.
  template <class Reply>
  absl::StatusOr<Reply> next(Link& link) {
    transport::TimePoint now = transport_->now();
    transport::Duration left = std::chrono::milliseconds(options_.timeout_ms);
    while (status_.ok() && link.heard.empty()) {
      if (left <= transport::Duration::zero()) {
        return fail(link, absl::DeadlineExceededError(
                              fmt::format("has not answered for {:.1f} s", options_.timeout_ms / 1000.0)));
      }
      if (!poll()) transport_->wait(now + std::min<transport::Duration>(left, kWaitSlice));
      const transport::TimePoint before = std::exchange(now, transport_->now());
      left -= std::min<transport::Duration>(now - before, kLongestTurn);
    }
    if (!status_.ok()) return status_;
    const ControlMessage message = std::move(link.heard.front());
    link.heard.pop_front();
    if (const auto* const reply = std::get_if<Reply>(&message)) return *reply;
    return fail(link, absl::InvalidArgumentError("answered another question"));
  }

  bool poll() {
    std::array<transport::Event, 16> events;
    const std::size_t count = transport_->poll(events);
    for (const transport::Event& event : std::span(events).first(count)) {
      if (event.connection == nullptr || event.connection->user_data >= links_.size()) continue;
      Link& link = links_[event.connection->user_data];
      if (event.kind == transport::Event::Kind::kMessage) hear(link, event.message);
      if (event.kind == transport::Event::Kind::kDisconnected) {
        fail(link, absl::UnavailableError(
                       fmt::format("is gone: {}", std::string(link.connection->status().message()))))
            .IgnoreError();
      }
    }
    for (Link& link : links_) link.control.flush(*link.connection);
    return count > 0;
  }

  void hear(Link& link, std::span<const std::byte> bytes) {
    absl::StatusOr<ControlMessage> message = protocol::decode_control(bytes);
    if (!message.ok()) {
      fail(link, message.status()).IgnoreError();
    } else if (const auto* const failed = std::get_if<protocol::Failed>(&*message)) {
      fail(link, absl::Status(static_cast<absl::StatusCode>(failed->code), failed->reason)).IgnoreError();
    } else if (link.heard.size() < kMostPieces) {
      link.heard.push_back(*std::move(message));
    } else {
      fail(link, absl::InvalidArgumentError("sends more than it was asked for")).IgnoreError();
    }
  }

  /// The first error counts, for all later calls, too.
  absl::Status fail(Link& link, const absl::Status& why) {
    if (status_.ok()) {
      status_ = base::printable(absl::Status(
          why.code(), fmt::format("{}: {}", link.connection->peer_name(), std::string(why.message()))));
    }
    return status_;
  }

  const ObserverOptions options_;
  std::shared_ptr<transport::Transport> transport_;
  std::deque<Link> links_;  ///< by the servers' ranks
  absl::Status status_;
};

Observer::Observer(std::unique_ptr<Core> core) : core_(std::move(core)) {}

Observer::~Observer() = default;

absl::StatusOr<std::unique_ptr<Observer>> Observer::connect(const ObserverOptions& options) {
  auto core = std::make_unique<Core>(options);
  RETURN_IF_ERROR(core->connect());
  return std::unique_ptr<Observer>(new Observer(std::move(core)));
}

absl::StatusOr<ObservedJob> Observer::job() {
  return core_->job();
}

absl::StatusOr<std::vector<ObservedTable>> Observer::tables() {
  return core_->tables();
}

absl::StatusOr<FunctionResult> Observer::call(const ObservedTable& table, std::string_view function,
                                              Keys keys) {
  return core_->call(table, function, keys);
}

absl::StatusOr<TableMemory> Observer::memory(const ObservedTable& table) {
  const absl::StatusOr<FunctionResult> result = call(table, "memory", kAllKeys);
  if (!result.ok()) return result.status();
  return TableMemory::of(*result);
}

absl::Status Observer::scan(const ObservedTable& table,
                            absl::FunctionRef<absl::Status(Key, std::span<const double>)> use) {
  return core_->scan(table, use);
}

}  // namespace verbena
