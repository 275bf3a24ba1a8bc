#include "apps/bench/client.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>

#include "base/return_if_error.hpp"

namespace verbena::apps::bench {

using transport::Access;
using transport::Event;
using transport::Opcode;
using transport::WorkRequest;

absl::StatusOr<Memory> Memory::allocate(transport::Transport& transport, std::size_t bytes) {
  Memory memory;
  for (const auto& [region, access] :
       {std::pair{&memory.readable, Access::kRemoteRead}, std::pair{&memory.writable, Access::kRemoteWrite},
        std::pair{&memory.local, Access::kLocal}}) {
    auto made = transport.allocate_region(bytes, access);
    if (!made.ok()) return made.status();
    *region = std::move(*made);
    // No page fault must occur in it while something is timed.
    std::fill((*region)->bytes().begin(), (*region)->bytes().end(), std::byte{0});
  }
  return memory;
}

struct Client::Link {
  std::unique_ptr<transport::Connection> connection;
  transport::RemoteDescriptor readable;
  transport::RemoteDescriptor writable;
  std::uint64_t completions = 0;
  std::uint64_t notifications = 0;
  std::optional<Message> answer;
};

Client::Client(std::string address) : address_(std::move(address)) {}

Client::~Client() {
  // Connections must go before regions and the transport.
  links_.clear();
}

absl::StatusOr<std::unique_ptr<Client>> Client::connect(const Backend& backend, const std::string& address,
                                                        std::size_t connections, std::size_t bytes) {
  std::unique_ptr<Client> client(new Client(address));
  RETURN_IF_ERROR(client->open(backend, connections, bytes));
  return client;
}

absl::Status Client::open(const Backend& backend, std::size_t connections, std::size_t bytes) {
  auto transport = backend.make_transport();
  if (!transport.ok()) return transport.status();
  transport_ = std::move(*transport);
  auto memory = Memory::allocate(*transport_, bytes);
  if (!memory.ok()) return memory.status();
  memory_ = std::move(*memory);
  for (std::size_t i = 0; i < connections; ++i) {
    auto connection = transport_->connect(address_, transport_->now() + kConnectPatience);
    if (!connection.ok()) return connection.status();
    Link& link = *links_.emplace_back(std::make_unique<Link>());
    link.connection = std::move(*connection);
    link.connection->user_data = i;
    RETURN_IF_ERROR(introduce(link, bytes));
  }
  return absl::OkStatus();
}

absl::Status Client::introduce(Link& link, std::size_t bytes) {
  Message message{.kind = Message::Kind::kMemory, .value = bytes};
  for (const auto& [region, descriptor] : {std::pair{memory_.readable.get(), &message.readable},
                                           std::pair{memory_.writable.get(), &message.writable}}) {
    auto granted = link.connection->grant(*region);
    if (!granted.ok()) return granted.status();
    *descriptor = *granted;
  }
  auto answer = request(link, message, kPatience);
  if (!answer.ok()) return answer.status();
  link.readable = answer->readable;
  link.writable = answer->writable;
  if (link.readable.length_bytes < bytes || link.writable.length_bytes < bytes) {
    return absl::FailedPreconditionError(
        fmt::format("{}: it opens less memory than was asked for", address_));
  }
  return absl::OkStatus();
}

// ---- events

void Client::poll() {
  const std::size_t count = transport_->poll(events_);
  for (const Event& event : std::span(events_).first(count)) {
    if (event.connection == nullptr || event.connection->user_data >= links_.size()) continue;
    Link& link = *links_[event.connection->user_data];
    switch (event.kind) {
      case Event::Kind::kCompletion:
        if (event.result == transport::OperationResult::kOk) {
          ++link.completions;
        } else if (status_.ok()) {
          status_ = event.connection->status();
        }
        break;
      case Event::Kind::kNotification:
        ++link.notifications;
        break;
      case Event::Kind::kMessage:
        link.answer = read_message(event.message);
        break;
      case Event::Kind::kDisconnected:
        if (status_.ok()) status_ = event.connection->status();
        if (status_.ok()) status_ = absl::UnavailableError(fmt::format("{}: it is gone", address_));
        break;
      case Event::Kind::kAccepted:
        break;
    }
  }
}

absl::Status Client::silent(std::chrono::seconds patience) const {
  return absl::DeadlineExceededError(
      fmt::format("{}: the other side has not answered for {} s", address_, patience.count()));
}

template <class Condition>
absl::Status Client::poll_until(const Condition& condition, std::chrono::seconds patience) {
  constexpr std::uint32_t kPollsEachLook = 1 << 12;
  std::uint32_t polls = 0;
  transport::TimePoint end = transport::TimePoint::max();
  while (!condition()) {
    poll();
    if (!status_.ok()) return status_;
    if (++polls % kPollsEachLook != 0) continue;
    if (end == transport::TimePoint::max()) end = transport_->now() + patience;
    if (transport_->now() >= end) return silent(patience);
  }
  return absl::OkStatus();
}

// ---- orders

absl::Status Client::post(Link& link, const WorkRequest& request) {
  if (link.connection->post({&request, 1}) == 1) return absl::OkStatus();
  return poll_until([&] { return link.connection->post({&request, 1}) == 1; });
}

absl::StatusOr<Message> Client::request(Link& link, const Message& message, std::chrono::seconds patience) {
  link.answer.reset();
  Message copy = message;
  const WorkRequest send{.opcode = Opcode::kSend, .local = std::as_writable_bytes(std::span(&copy, 1))};
  RETURN_IF_ERROR(post(link, send));
  const transport::TimePoint end = transport_->now() + patience;
  while (!link.answer) {
    poll();
    if (!status_.ok()) return status_;
    if (link.answer) break;
    if (transport_->now() >= end) return silent(patience);
    transport_->wait(std::min(end, transport_->now() + std::chrono::milliseconds(100)));
  }
  if (link.answer->kind == Message::Kind::kFailed) {
    return absl::FailedPreconditionError(fmt::format("the other side: {}", link.answer->text()));
  }
  if (link.answer->kind != message.kind) {
    return absl::FailedPreconditionError(fmt::format("{}: it is not of this program's version", address_));
  }
  return *link.answer;
}

absl::StatusOr<Message> Client::request(const Message& message, std::chrono::seconds patience) {
  return request(*links_.front(), message, patience);
}

absl::Status Client::set_echo(Echo echo, std::size_t bytes) {
  sequence_ = 0;
  if (bytes > 0) last_word(memory_.writable->bytes(), bytes) = 0;
  return request({.kind = Message::Kind::kEcho, .number = static_cast<std::uint32_t>(echo), .value = bytes})
      .status();
}

absl::StatusOr<std::string> Client::start_server(std::uint32_t workers, std::uint32_t rank,
                                                 std::uint32_t servers) {
  auto answer =
      request({.kind = Message::Kind::kStartServer, .number = workers, .servers = servers, .value = rank});
  if (!answer.ok()) return answer.status();
  return with_host(answer->text(), std::string(transport::host_of(address_)));
}

absl::StatusOr<std::string> Client::start_server_with_copies(std::uint32_t workers, std::uint32_t copies,
                                                             bool shares_cores) {
  auto answer = request({.kind = Message::Kind::kStartServer,
                         .number = workers,
                         .servers = 1,
                         .copies = copies,
                         .shares_cores = shares_cores ? 1U : 0U});
  if (!answer.ok()) return answer.status();
  return with_host(answer->text(), std::string(transport::host_of(address_)));
}

absl::StatusOr<std::uint64_t> Client::stop_servers() {
  auto answer = request({.kind = Message::Kind::kStopServers});
  if (!answer.ok()) return answer.status();
  return answer->value;
}

absl::StatusOr<Samples> Client::pauses() {
  Samples pauses;
  for (std::uint32_t bucket = 0;;) {
    const auto answer = request({.kind = Message::Kind::kPauses, .number = bucket});
    if (!answer.ok()) return answer.status();
    const std::vector<Samples::Bucket> buckets = answer->buckets();
    for (const Samples::Bucket& each : buckets) pauses.add_bucket(each);
    bucket += static_cast<std::uint32_t>(buckets.size());
    if (buckets.empty() || bucket >= answer->number) return pauses;
  }
}

absl::StatusOr<double> Client::processor_nanoseconds() {
  auto answer = request({.kind = Message::Kind::kProcessorTime});
  if (!answer.ok()) return answer.status();
  return static_cast<double>(answer->value);
}

absl::Status Client::let_compute(std::chrono::milliseconds time) {
  return request({.kind = Message::Kind::kCompute, .value = static_cast<std::uint64_t>(time.count())})
      .status();
}

// ---- operations

WorkRequest Client::transfer(const Link& link, Opcode opcode, std::size_t bytes) const {
  return {.opcode = opcode,
          .notification = 1,
          .local = memory_.local->bytes().first(bytes),
          .region = memory_.local.get(),
          .remote = (opcode == Opcode::kRead ? link.readable : link.writable).slice(0, bytes)};
}

absl::Status Client::complete(Opcode opcode, std::size_t bytes) {
  Link& link = *links_.front();
  WorkRequest request = transfer(link, opcode, bytes);
  request.signaled = true;
  const std::uint64_t before = link.completions;
  RETURN_IF_ERROR(post(link, request));
  return poll_until([&] { return link.completions != before; });
}

absl::Status Client::notify_and_back(std::size_t bytes) {
  Link& link = *links_.front();
  const std::uint64_t before = link.notifications;
  RETURN_IF_ERROR(post(link, transfer(link, Opcode::kWriteNotify, bytes)));
  return poll_until([&] { return link.notifications != before; });
}

absl::Status Client::write_and_back(std::size_t bytes) {
  Link& link = *links_.front();
  last_word(memory_.local->bytes(), bytes) = ++sequence_;
  const std::uint64_t before = link.completions;
  WorkRequest request = transfer(link, Opcode::kWrite, bytes);
  request.signaled = true;  // its memory is written again next time
  RETURN_IF_ERROR(post(link, request));
  const std::atomic_ref<std::uint64_t> arrived(last_word(memory_.writable->bytes(), bytes));
  return poll_until(
      [&] { return arrived.load(std::memory_order_acquire) == sequence_ && link.completions != before; });
}

absl::Status Client::read_rows(std::span<const std::uint64_t> keys, std::size_t row_bytes) {
  Link& link = *links_.front();
  std::vector<WorkRequest> requests(keys.size());
  for (std::size_t i = 0; i < keys.size(); ++i) {
    requests[i] = {.opcode = Opcode::kRead,
                   .signaled = i + 1 == keys.size(),
                   .local = memory_.local->bytes().subspan(i * row_bytes, row_bytes),
                   .region = memory_.local.get(),
                   .remote = link.readable.slice(keys[i] * row_bytes, row_bytes)};
  }
  const std::uint64_t before = link.completions;
  std::span<const WorkRequest> rest = requests;
  rest = rest.subspan(link.connection->post(rest));
  return poll_until([&] {
    if (!rest.empty()) rest = rest.subspan(link.connection->post(rest));
    return link.completions != before;
  });
}

absl::StatusOr<Stream> Client::stream(Opcode opcode, std::size_t bytes, std::size_t depth, std::size_t batch,
                                      double seconds) {
  // With a quarter of the depth in each batch the next one is posted long before the last one has ended.
  batch = std::clamp<std::size_t>(depth / 4, 1, batch);
  struct Progress {
    std::uint64_t posted = 0;
    std::uint64_t completions_before = 0;
  };
  std::vector<std::vector<WorkRequest>> requests;
  std::vector<Progress> progress(links_.size());
  for (std::size_t i = 0; i < links_.size(); ++i) {
    requests.emplace_back(batch, transfer(*links_[i], opcode, bytes));
    requests.back().back().signaled = true;
    progress[i].completions_before = links_[i]->completions;
  }
  bool stopping = false;
  const Stopwatch watch;
  const auto completed = [&](std::size_t i) {
    return (links_[i]->completions - progress[i].completions_before) * batch;
  };
  absl::Status status = poll_until(
      [&] {
        stopping = stopping || watch.nanoseconds() >= seconds * 1e9;
        bool ended = stopping;
        for (std::size_t i = 0; i < links_.size(); ++i) {
          std::uint64_t& posted = progress[i].posted;
          const std::size_t begun = posted % batch;
          // A batch that was begun is finished: the completion of its last request covers the others.
          const std::size_t wanted = stopping && begun == 0 ? 0 : batch - begun;
          const std::size_t room = depth - static_cast<std::size_t>(posted - completed(i));
          const std::size_t count = std::min(wanted, room);
          if (count > 0) posted += links_[i]->connection->post(std::span(requests[i]).subspan(begun, count));
          ended = ended && posted == completed(i);
        }
        return ended;
      },
      kPatience + std::chrono::seconds(static_cast<int>(seconds) + 60));
  if (!status.ok()) return status;
  double operations = 0;
  for (const Progress& each : progress) operations += static_cast<double>(each.posted);
  return Stream{.operations_per_second = operations * 1e9 / watch.nanoseconds(),
                .connections = links_.size(),
                .depth = depth,
                .batch = batch};
}

}  // namespace verbena::apps::bench
