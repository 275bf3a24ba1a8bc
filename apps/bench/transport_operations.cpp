#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <numeric>
#include <random>
#include <thread>

#include "apps/bench/operations.hpp"
#include "apps/bench/yardsticks.hpp"

namespace verbena::apps::bench {

namespace {

using transport::Access;
using transport::Event;
using transport::Opcode;
using transport::RemoteDescriptor;
using transport::WorkRequest;

constexpr std::size_t kRowBytes = 400;  // the design's row, of 100 floats
constexpr std::uint64_t kRows = 1 << 16;
constexpr std::size_t kBatch = 64;
constexpr auto kPatience = std::chrono::seconds(10);

/// What each side tells the other first: memory to read from and to write to.
struct Introduction {
  RemoteDescriptor readable;
  RemoteDescriptor writable;
};

/// One side of a connection: memory of its own, and the peer's.
class Side {
 public:
  Side(transport::Transport& transport, std::size_t bytes) : transport_(transport), bytes_(bytes) {}

  absl::Status introduce(std::unique_ptr<transport::Connection> connection) {
    connection_ = std::move(connection);
    Introduction own;
    for (const auto& [region, access, descriptor] :
         {std::tuple{&readable_, Access::kRemoteRead, &own.readable},
          std::tuple{&writable_, Access::kRemoteWrite, &own.writable}}) {
      auto made = transport_.allocate_region(bytes_, access);
      if (!made.ok()) return made.status();
      *region = std::move(*made);
      auto granted = connection_->grant(**region);
      if (!granted.ok()) return granted.status();
      *descriptor = *granted;
    }
    auto local = transport_.allocate_region(bytes_, Access::kLocal);
    if (!local.ok()) return local.status();
    local_ = std::move(*local);
    const WorkRequest request{.opcode = Opcode::kSend, .local = std::as_writable_bytes(std::span(&own, 1))};
    return connection_->post({&request, 1}) == 1 ? absl::OkStatus() : connection_->status();
  }

  /// Polls until `ready`, blocking in between if `block`; hands every event to on_event first.
  absl::Status poll_until(const std::function<bool()>& ready, bool block) {
    while (!ready()) {
      if (absl::Status status = poll(block); !status.ok()) return status;
    }
    return absl::OkStatus();
  }

  absl::Status poll(bool block) {
    std::array<Event, 16> events;
    const std::size_t count = transport_.poll(events);
    for (const Event& event : std::span(events).first(count)) {
      switch (event.kind) {
        case Event::Kind::kMessage:
          if (event.message.size() == sizeof peer_) std::memcpy(&peer_, event.message.data(), sizeof peer_);
          break;
        case Event::Kind::kCompletion:
          if (event.result != transport::OperationResult::kOk)
            return absl::InternalError(std::string(to_string(event.result)));
          ++completions_;
          break;
        case Event::Kind::kNotification:
          ++notifications_;
          break;
        case Event::Kind::kDisconnected:
          gone_ = true;
          break;
        case Event::Kind::kAccepted:
          if (absl::Status status = introduce(transport_.take_accepted()); !status.ok()) return status;
          break;
      }
    }
    if (gone_) return absl::UnavailableError("the peer is gone");
    if (count == 0 && block) transport_.wait(transport_.now() + std::chrono::milliseconds(100));
    return absl::OkStatus();
  }

  [[nodiscard]] bool introduced() const { return connection_ != nullptr && peer_.readable.key != 0; }
  [[nodiscard]] std::uint64_t notifications() const { return notifications_; }

  /// One-sided reads of the rows `keys`, posted together, the last one's completion awaited.
  absl::Status read_rows(std::span<const std::uint64_t> keys) {
    std::array<WorkRequest, kBatch> requests;
    for (std::size_t i = 0; i < keys.size(); ++i) {
      requests[i] = {.opcode = Opcode::kRead,
                     .signaled = i + 1 == keys.size(),
                     .local = local_->bytes().subspan(i * kRowBytes, kRowBytes),
                     .region = local_.get(),
                     .remote = peer_.readable.slice(keys[i] * kRowBytes, kRowBytes)};
    }
    const std::uint64_t before = completions_;
    std::span<const WorkRequest> rest(requests.data(), keys.size());
    while (completions_ == before) {
      rest = rest.subspan(connection_->post(rest));
      if (!connection_->status().ok()) return connection_->status();
      if (absl::Status status = poll(false); !status.ok()) return status;
    }
    return absl::OkStatus();
  }

  absl::Status run(Opcode opcode, std::size_t bytes) {
    const WorkRequest request{
        .opcode = opcode,
        .signaled = opcode != Opcode::kWriteNotify,
        .notification = 1,
        .local = local_->bytes().first(bytes),
        .region = local_.get(),
        .remote = (opcode == Opcode::kRead ? peer_.readable : peer_.writable).slice(0, bytes)};
    while (connection_->post({&request, 1}) == 0) {
      if (!connection_->status().ok()) return connection_->status();
      if (absl::Status status = poll(false); !status.ok()) return status;
    }
    if (!request.signaled) return absl::OkStatus();
    const std::uint64_t before = completions_;
    while (completions_ == before) {
      if (absl::Status status = poll(false); !status.ok()) return status;
    }
    return absl::OkStatus();
  }

 private:
  transport::Transport& transport_;
  const std::size_t bytes_;
  std::unique_ptr<transport::MemoryRegion> readable_;
  std::unique_ptr<transport::MemoryRegion> writable_;
  std::unique_ptr<transport::MemoryRegion> local_;
  std::unique_ptr<transport::Connection> connection_;
  Introduction peer_;
  std::uint64_t completions_ = 0;
  std::uint64_t notifications_ = 0;
  bool gone_ = false;
};

/// The passive side: answers each notification with one of the same size.
class Echo {
 public:
  Echo(transport::Transport& transport, std::size_t bytes)
      : transport_(transport), side_(transport, bytes), thread_([this] { run(); }) {}
  ~Echo() {
    stop_ = true;
    transport_.interrupt();
    thread_.join();
  }
  Echo(const Echo&) = delete;
  Echo& operator=(const Echo&) = delete;

  /// Size of the answers from now on, and whether to spin for the next request.
  void set(std::size_t bytes, bool spin) {
    bytes_ = bytes;
    spin_ = spin;
    transport_.interrupt();
  }

 private:
  void run() {
    std::uint64_t answered = 0;
    while (!stop_) {
      if (!side_.poll(!spin_).ok()) return;
      while (answered < side_.notifications()) {
        if (!side_.run(Opcode::kWriteNotify, bytes_).ok()) return;
        ++answered;
      }
    }
  }

  transport::Transport& transport_;
  Side side_;
  std::atomic<std::size_t> bytes_ = 8;
  std::atomic<bool> spin_ = false;
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

struct Measured {
  std::string_view name;
  std::string_view what;
  Opcode opcode;
};
constexpr std::array kOneSided{
    Measured{"read", "one-sided read of the peer's memory, posted until completed", Opcode::kRead},
    Measured{"write", "one-sided write into the peer's memory, posted until completed", Opcode::kWrite}};

absl::Status measure_read_batch(const BenchOptions& options, Side& side, std::vector<Result>& results) {
  options.progress("read-batch");
  std::vector<std::uint64_t> keys(kRows);
  std::iota(keys.begin(), keys.end(), std::uint64_t{0});
  std::shuffle(keys.begin(), keys.end(), std::mt19937_64(1));
  Result result{
      .operation = "read-batch",
      .what = "64 one-sided reads of rows of 400 bytes all over 26 MB, posted together until all completed",
      .bytes = kBatch * kRowBytes,
      .keys = kBatch};
  std::size_t next = 0;
  absl::Status status = time_operation(
      options.timing,
      [&] {
        absl::Status read = side.read_rows(std::span(keys).subspan(next, kBatch));
        next = (next + kBatch) % kRows;
        return read;
      },
      result.samples);
  if (!status.ok()) return status;
  result.yardstick =
      Yardstick{.name = "memcpy of the same rows",
                .nanoseconds = time_row_copies(options.timing, keys, kBatch, kRowBytes).percentile(0.5),
                .budget = 2};
  results.push_back(std::move(result));
  return absl::OkStatus();
}

}  // namespace

absl::Status measure_transport(const BenchOptions& options, std::vector<Result>& results) {
  const std::size_t largest = std::max<std::size_t>(
      *std::max_element(options.sizes_bytes.begin(), options.sizes_bytes.end()), kRows * kRowBytes);
  auto passive = options.make_transport();
  if (!passive.ok()) return passive.status();
  auto active = options.make_transport();
  if (!active.ok()) return active.status();
  const std::string address = fmt::format("shm:bench-{}", ::getpid());
  if (absl::Status status = (*passive)->listen(address); !status.ok()) return status;
  Side side(**active, largest);
  Echo echo(**passive, largest);
  auto connection = (*active)->connect(address, (*active)->now() + kPatience);
  if (!connection.ok()) return connection.status();
  if (absl::Status status = side.introduce(std::move(*connection)); !status.ok()) return status;
  absl::Status status = side.poll_until([&] { return side.introduced(); }, true);

  for (const Measured& measured : kOneSided) {
    for (const std::size_t bytes : options.sizes_bytes) {
      if (!status.ok() || !options.wants(measured.name)) continue;
      options.progress(fmt::format("{} of {} bytes", measured.name, bytes));
      Result result{
          .operation = std::string(measured.name), .what = std::string(measured.what), .bytes = bytes};
      status = time_operation(
          options.timing, [&] { return side.run(measured.opcode, bytes); }, result.samples);
      const double copy_ns = time_memcpy(options.timing, bytes).percentile(0.5);
      result.yardstick = Yardstick{.name = "memcpy", .nanoseconds = copy_ns};
      if (status.ok()) results.push_back(std::move(result));
    }
  }
  if (status.ok() && options.wants("read-batch")) status = measure_read_batch(options, side, results);
  if (!status.ok() || !options.wants("write-notify")) return status;
  const double hop_ns = time_core_round_trip(options.timing).percentile(0.5) / 2;
  for (const std::size_t bytes : options.sizes_bytes) {
    options.progress(fmt::format("write-notify of {} bytes", bytes));
    echo.set(bytes, true);
    Result result{.operation = "write-notify",
                  .what = "write with notification until the peer has seen it: half a round trip",
                  .bytes = bytes,
                  .timed_share = 0.5};
    TimingOptions single = options.timing;
    single.batch_nanoseconds = 0;
    status = time_operation(
        single,
        [&] {
          const std::uint64_t before = side.notifications();
          if (absl::Status posted = side.run(Opcode::kWriteNotify, bytes); !posted.ok()) return posted;
          return side.poll_until([&] { return side.notifications() > before; }, false);
        },
        result.samples);
    if (!status.ok()) return status;
    result.yardstick = Yardstick{.name = "half a core round trip", .nanoseconds = hop_ns};
    results.push_back(std::move(result));
  }
  echo.set(8, false);
  return absl::OkStatus();
}

}  // namespace verbena::apps::bench
