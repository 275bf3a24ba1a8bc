#include "apps/bench/responder.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "apps/bench/fixed_configuration.hpp"
#include "apps/bench/messages.hpp"
#include "apps/bench/perftest.hpp"
#include "apps/bench/samples.hpp"
#include "apps/thrown.hpp"
#include "base/return_if_error.hpp"
#include "server/driver.hpp"
#include "server/server.hpp"

namespace verbena::apps::bench {

namespace {

using transport::Event;
using transport::Opcode;
using transport::WorkRequest;

constexpr std::size_t kMostRegionBytes = std::size_t{1} << 30;
constexpr std::uint32_t kMostWorkers = 1024;
constexpr std::uint32_t kMostCopies = 8;
constexpr std::chrono::milliseconds kLongestComputing = std::chrono::hours(1);

/// A server with a thread and a transport of its own.
class ServerJob {
 public:
  /// `configuration`: says later which copies the server has; nullptr: it has none.
  static absl::StatusOr<std::unique_ptr<ServerJob>> start(
      const Backend& backend, const Message& order,
      std::shared_ptr<FixedConfiguration> configuration = nullptr) {
    auto job = std::unique_ptr<ServerJob>(new ServerJob());
    auto transport = order.shares_cores > 0 ? backend.make_sharing_transport() : backend.make_transport();
    if (!transport.ok()) return transport.status();
    job->transport_ = std::move(*transport);
    const std::string asked = backend.fresh_address();
    auto server = server::Server::create(*job->transport_, {.address = asked,
                                                            .rank = static_cast<std::uint32_t>(order.value),
                                                            .servers = order.servers,
                                                            .workers = order.number,
                                                            .configuration = std::move(configuration)});
    if (!server.ok()) return server.status();
    job->server_ = std::move(*server);
    job->server_->set_growth_watch([&job = *job](std::chrono::nanoseconds time) { job.add_pause(time); });
    job->address_ = job->transport_->listening_address();
    job->thread_ = std::thread([&job = *job] {
      const absl::Status ended =
          run_caught([&] { return server::drive(*job.server_, *job.transport_, job.stop_); });
      if (!ended.ok() && !absl::IsCancelled(ended)) spdlog::warn("{}", std::string(ended.message()));
    });
    return job;
  }
  ~ServerJob() { stop(); }
  ServerJob(const ServerJob&) = delete;
  ServerJob& operator=(const ServerJob&) = delete;

  [[nodiscard]] const std::string& address() const { return address_; }
  /// Returns how many bytes it has sent to the copy after it.
  std::uint64_t end() {
    stop();
    return server_->bytes_to_copies();
  }
  /// How long each time that its sparse tables grew took since the last call.
  [[nodiscard]] Samples take_pauses() {
    const std::lock_guard lock(pauses_mutex_);
    return std::exchange(pauses_, {});
  }

 private:
  ServerJob() = default;
  void stop() {
    stop_ = true;
    if (transport_ != nullptr) transport_->interrupt();
    if (thread_.joinable()) thread_.join();
  }
  void add_pause(std::chrono::nanoseconds time) {
    const std::lock_guard lock(pauses_mutex_);
    pauses_.add(static_cast<double>(time.count()));
  }

  std::unique_ptr<transport::Transport> transport_;
  std::unique_ptr<server::Server> server_;
  std::string address_;
  std::atomic<bool> stop_ = false;
  std::mutex pauses_mutex_;
  Samples pauses_;
  std::thread thread_;
};

double process_cpu_ns() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto ns = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) * 1e9 + static_cast<double>(time.tv_usec) * 1e3;
  };
  return ns(usage.ru_utime) + ns(usage.ru_stime);
}

/// One connection of the measuring side.
struct Peer {
  std::unique_ptr<transport::Connection> connection;
  transport::RemoteDescriptor writable;
  Echo echo = Echo::kNone;
  std::size_t bytes = 0;
  std::uint64_t owed = 0;      ///< notifications to be answered
  std::uint64_t sequence = 1;  ///< of the next write to answer
  bool unposted = false;       ///< the answer to a write was not taken yet
  std::vector<std::unique_ptr<ServerJob>> servers;
  std::vector<Samples::Bucket> pauses;  ///< of the servers, as they were when they were last asked for
  std::unique_ptr<PerftestServer> perftest;
};

class ResponderImpl final : public Responder {
 public:
  ResponderImpl(const Backend& backend, std::unique_ptr<transport::Transport> transport, std::string address)
      : backend_(backend), transport_(std::move(transport)), address_(std::move(address)) {}
  ~ResponderImpl() override { peers_.clear(); }

  [[nodiscard]] const std::string& address() const override { return address_; }
  void interrupt() override { transport_->interrupt(); }

  absl::Status run(const std::atomic<bool>& stop) override {
    while (!stop) {
      const bool busy = poll();
      compute(stop);
      if (answer_all() || busy) continue;
      transport_->wait(transport_->now() + std::chrono::milliseconds(200));
    }
    return absl::OkStatus();
  }

 private:
  bool poll() {
    const std::size_t count = transport_->poll(events_);
    for (const Event& event : std::span(events_).first(count)) {
      if (event.kind == Event::Kind::kAccepted) {
        if (auto connection = transport_->take_accepted()) {
          transport::Connection* key = connection.get();
          peers_[key].connection = std::move(connection);
        }
        continue;
      }
      const auto found = peers_.find(event.connection);
      if (found == peers_.end()) continue;
      if (event.kind == Event::Kind::kMessage) on_message(found->second, event.message);
      if (event.kind == Event::Kind::kNotification) {
        if (found->second.echo == Echo::kNotification) ++found->second.owed;
      }
      if (event.kind == Event::Kind::kDisconnected) gone_.push_back(event.connection);
    }
    for (transport::Connection* connection : gone_) peers_.erase(connection);
    gone_.clear();
    return count > 0;
  }

  /// As a thread does that has something else to do than to look at its transport.
  void compute(const std::atomic<bool>& stop) {
    if (to_compute_.count() == 0) return;  // as nearly always: the clock is not read
    const auto end = std::chrono::steady_clock::now() + std::exchange(to_compute_, {});
    while (!stop && std::chrono::steady_clock::now() < end) {
    }
  }

  /// Returns whether any peer must be answered at once, so that this thread must not sleep.
  bool answer_all() {
    bool awake = false;
    for (auto& [connection, peer] : peers_) {
      if (peer.echo == Echo::kNone) continue;
      awake = true;
      if (peer.echo == Echo::kMemory) {
        answer_writes(peer);
      } else if (peer.owed > 0) {
        peer.owed -= post(peer, Opcode::kWriteNotify);
      }
    }
    return awake;
  }

  void answer_writes(Peer& peer) {
    // A look at the memory is far cheaper than a poll of the transport, and the measuring side waits for the
    // answer.
    constexpr int kLooks = 64;
    const std::atomic_ref<std::uint64_t> arrived(last_word(memory_.writable->bytes(), peer.bytes));
    for (int look = 0; look < kLooks; ++look) {
      if (!peer.unposted && arrived.load(std::memory_order_acquire) != peer.sequence) continue;
      last_word(memory_.local->bytes(), peer.bytes) = peer.sequence;
      peer.unposted = post(peer, Opcode::kWrite) == 0;
      if (peer.unposted) return;
      ++peer.sequence;
      return;
    }
  }

  std::size_t post(Peer& peer, Opcode opcode) {
    const WorkRequest request{.opcode = opcode,
                              .notification = 1,
                              .local = memory_.local->bytes().first(peer.bytes),
                              .region = memory_.local.get(),
                              .remote = peer.writable.slice(0, peer.bytes)};
    return peer.connection->post({&request, 1});
  }

  // ---- orders

  void on_message(Peer& peer, std::span<const std::byte> bytes) {
    const std::optional<Message> order = read_message(bytes);
    Message answer;
    if (order) {
      answer.kind = order->kind;
      const absl::Status status = carry_out(peer, *order, answer);
      if (status.ok()) return reply(peer, answer);
      answer.kind = Message::Kind::kFailed;
      answer.set_text(std::string(status.message()));
    } else {
      answer.set_text("it does not understand: is it the same version of this program?");
    }
    reply(peer, answer);
  }

  absl::Status carry_out(Peer& peer, const Message& order, Message& answer) {
    switch (order.kind) {
      case Message::Kind::kMemory:
        return open_memory(peer, order, answer);
      case Message::Kind::kEcho:
        return set_echo(peer, order);
      case Message::Kind::kStartServer:
        return start_server(peer, order, answer);
      case Message::Kind::kStopServers:
        for (const auto& server : peer.servers) answer.value += server->end();
        peer.servers.clear();
        return absl::OkStatus();
      case Message::Kind::kPauses:
        return tell_pauses(peer, order, answer);
      case Message::Kind::kProcessorTime:
        answer.value = static_cast<std::uint64_t>(process_cpu_ns());
        return absl::OkStatus();
      case Message::Kind::kStartPerftest:
        return start_perftest(peer, order, answer);
      case Message::Kind::kEndPerftest:
        return end_perftest(peer);
      case Message::Kind::kCompute:
        if (order.value > kLongestComputing.count()) {
          return absl::InvalidArgumentError(fmt::format("it does not compute for {} ms", order.value));
        }
        to_compute_ = std::chrono::milliseconds(order.value);
        return absl::OkStatus();
      case Message::Kind::kFailed:
        break;
    }
    return absl::InvalidArgumentError("it was ordered what it does not know");
  }

  absl::Status open_memory(Peer& peer, const Message& order, Message& answer) {
    if (order.value < kWordBytes || order.value > kMostRegionBytes) {
      return absl::InvalidArgumentError(fmt::format("it opens no {} bytes of memory", order.value));
    }
    peer.echo = Echo::kNone;  // it referred to the memory that the peer had opened before
    if (memory_.bytes() < order.value) {
      if (peers_.size() == 1) {
        old_memory_.clear();
        memory_ = {};
      }
      // If this fails, other peers are still answered in the old memory.
      auto memory = Memory::allocate(*transport_, order.value);
      if (!memory.ok()) return memory.status();
      // Regions that were granted to other peers before stay until those peers are gone.
      if (memory_.local != nullptr) old_memory_.push_back(std::move(memory_));
      memory_ = std::move(*memory);
    }
    for (const auto& [region, descriptor] : {std::pair{memory_.readable.get(), &answer.readable},
                                             std::pair{memory_.writable.get(), &answer.writable}}) {
      auto granted = peer.connection->grant(*region);
      if (!granted.ok()) return granted.status();
      *descriptor = *granted;
    }
    peer.writable = order.writable;
    return absl::OkStatus();
  }

  absl::Status set_echo(Peer& peer, const Message& order) {
    const bool known = order.number <= static_cast<std::uint32_t>(Echo::kMemory);
    const auto echo = static_cast<Echo>(order.number);
    const bool fits = order.value >= kWordBytes && order.value % kWordBytes == 0 &&
                      order.value <= std::min<std::uint64_t>(memory_.bytes(), peer.writable.length_bytes);
    if (!known || ((echo == Echo::kNotification || echo == Echo::kMemory) && !fits)) {
      return absl::InvalidArgumentError("it was ordered to answer as it cannot");
    }
    peer.echo = echo;
    peer.bytes = order.value;
    peer.owed = 0;
    peer.sequence = 1;
    peer.unposted = false;
    if (echo == Echo::kMemory) last_word(memory_.writable->bytes(), peer.bytes) = 0;
    return absl::OkStatus();
  }

  absl::Status start_server(Peer& peer, const Message& order, Message& answer) {
    if (order.number == 0 || order.number > kMostWorkers || order.value >= order.servers) {
      return absl::InvalidArgumentError(fmt::format("server {} of {} for {} workers was ordered", order.value,
                                                    order.servers, order.number));
    }
    if (order.copies > 0) return start_copies(peer, order, answer);
    auto server = ServerJob::start(backend_, order);
    if (!server.ok()) return server.status();
    answer.set_text((*server)->address());
    peer.servers.push_back(std::move(*server));
    return absl::OkStatus();
  }

  /// Of the job's only server.
  absl::Status start_copies(Peer& peer, const Message& order, Message& answer) {
    if (order.servers != 1 || order.copies > kMostCopies) {
      return absl::InvalidArgumentError(
          fmt::format("{} copies of each of {} servers were ordered", order.copies, order.servers));
    }
    std::vector<std::string> chain;
    std::vector<std::shared_ptr<FixedConfiguration>> configurations;
    for (std::uint32_t copy = 0; copy <= order.copies; ++copy) {
      configurations.push_back(std::make_shared<FixedConfiguration>());
      auto server = ServerJob::start(backend_, order, configurations.back());
      if (!server.ok()) return server.status();
      chain.push_back((*server)->address());
      peer.servers.push_back(std::move(*server));
    }
    for (const auto& configuration : configurations) configuration->decide(chain);
    answer.set_text(chain.front());
    return absl::OkStatus();
  }

  static absl::Status tell_pauses(Peer& peer, const Message& order, Message& answer) {
    if (order.number == 0) {
      Samples pauses;
      for (const auto& server : peer.servers) pauses.merge(server->take_pauses());
      peer.pauses = pauses.histogram();
    }
    if (order.number > peer.pauses.size()) return absl::InvalidArgumentError("it has not so many buckets");
    answer.number = static_cast<std::uint32_t>(peer.pauses.size());
    answer.set_buckets(std::span(peer.pauses).subspan(order.number));
    return absl::OkStatus();
  }

  absl::Status start_perftest(Peer& peer, const Message& order, Message& answer) {
    const std::optional<PerftestRun> run = decode_perftest(order.text());
    if (!run || backend_.device.name.empty()) {
      return absl::InvalidArgumentError("it was ordered to run what it does not know");
    }
    peer.perftest.reset();
    auto server = PerftestServer::start(*run, backend_.device);
    if (!server.ok()) return server.status();
    answer.number = (*server)->port();
    peer.perftest = std::move(*server);
    return absl::OkStatus();
  }

  static absl::Status end_perftest(Peer& peer) {
    if (peer.perftest == nullptr) return absl::OkStatus();
    const auto server = std::move(peer.perftest);
    return server->end();
  }

  void reply(Peer& peer, const Message& answer) {
    Message copy = answer;
    const WorkRequest send{.opcode = Opcode::kSend, .local = std::as_writable_bytes(std::span(&copy, 1))};
    // Orders come one at a time, so there is room for the answer unless the connection has failed.
    if (peer.connection->post({&send, 1}) == 0 && peer.connection->status().ok()) {
      spdlog::warn("{}: an answer found no room", peer.connection->peer_name());
    }
  }

  const Backend backend_;
  std::unique_ptr<transport::Transport> transport_;
  const std::string address_;
  Memory memory_;
  std::vector<Memory> old_memory_;
  std::map<transport::Connection*, Peer> peers_;
  std::vector<transport::Connection*> gone_;
  std::chrono::milliseconds to_compute_{};  ///< after this round's answers
  std::array<Event, 32> events_;            ///< of one poll(); making them anew would cost more than the poll
};

}  // namespace

absl::StatusOr<std::unique_ptr<Responder>> Responder::create(const Backend& backend,
                                                             const std::string& address) {
  auto transport = backend.make_transport();
  if (!transport.ok()) return transport.status();
  RETURN_IF_ERROR((*transport)->listen(address));
  std::string place = (*transport)->listening_address();
  return std::make_unique<ResponderImpl>(backend, std::move(*transport), std::move(place));
}

}  // namespace verbena::apps::bench
