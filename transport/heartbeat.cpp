#include "transport/heartbeat.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <utility>

#include "base/return_if_error.hpp"
#include "base/word_copy.hpp"
#include "transport/request_id.hpp"

namespace verbena::transport {

namespace {

constexpr std::size_t kWords = Heartbeat::kBytes / sizeof(std::uint64_t);

std::uint64_t& word(const MemoryRegion& region, std::size_t index) {
  return reinterpret_cast<std::uint64_t*>(region.bytes().data())[index];
}

/// An answer that takes so long is late. Transports that find out by themselves that a host does not answer
/// say so first, which says more.
constexpr Duration kUsualAnswer = 2 * kBeatInterval;

double seconds(Duration duration) {
  return std::chrono::duration<double>(duration).count();
}

}  // namespace

absl::Status check_silence_timeout(std::uint32_t timeout_ms) {
  if (timeout_ms == 0 || timeout_ms >= kMinSilenceTimeoutMs) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format("a silence of {} ms: expected at least {}, or 0 for any",
                                                timeout_ms, kMinSilenceTimeoutMs));
}

std::chrono::milliseconds mending_time(std::uint32_t silence_timeout_ms) {
  constexpr std::chrono::milliseconds kWithoutTimeout = std::chrono::seconds(5);
  return silence_timeout_ms == 0 ? kWithoutTimeout : std::chrono::milliseconds(silence_timeout_ms);
}

absl::StatusOr<std::unique_ptr<Heartbeat>> Heartbeat::create(Transport& transport) {
  auto region = transport.allocate_region(kBytes, Access::kRemoteRead);
  if (!region.ok()) return region.status();
  std::unique_ptr<Heartbeat> heartbeat(new Heartbeat(std::move(*region)));
  // Relaxed, like all accesses here: each count is a separate number, and orders nothing else.
  const auto beat = [&beats = word(*heartbeat->region_, 0)] {
    std::atomic_ref(beats).fetch_add(1, std::memory_order_relaxed);
  };
  auto ticker = transport.start_ticker(kBeatInterval, beat);
  if (!ticker.ok()) return ticker.status();
  heartbeat->ticker_ = std::move(*ticker);
  return heartbeat;
}

absl::StatusOr<RemoteDescriptor> Heartbeat::grant(Connection& connection) const {
  auto descriptor = connection.grant(*region_);
  if (!descriptor.ok()) return descriptor;
  return descriptor->slice(0, kBytes);
}

void Heartbeat::count_turn() {
  std::atomic_ref(word(*region_, 1)).store(++turns_, std::memory_order_relaxed);
}

absl::Status HeartbeatWatch::watch(Connection& connection, const RemoteDescriptor& counts) {
  if (counts.length_bytes < Heartbeat::kBytes || counts.address % sizeof(std::uint64_t) != 0) {
    return absl::InvalidArgumentError(
        fmt::format("a heartbeat of {} bytes at address {:#x}: expected {} at a "
                    "multiple of 8",
                    counts.length_bytes, counts.address, Heartbeat::kBytes));
  }
  counts_ = counts.slice(0, Heartbeat::kBytes);
  mapped_ = connection.mapped(counts_);
  // The address that a peer sends may be invalid.
  if (reinterpret_cast<std::uintptr_t>(mapped_) % sizeof(std::uint64_t) != 0) mapped_ = nullptr;
  return absl::OkStatus();
}

absl::Status HeartbeatWatch::look(Connection& connection, TimePoint now) {
  if (now >= next_look_ && counts_.length_bytes > 0) {
    if (is_reading_) {
      wait_for_answer(now);
    } else {
      RETURN_IF_ERROR(see(connection, now));
    }
  }
  if (bounds_.silence > Duration::zero() && silent_ >= bounds_.silence) {
    return absl::UnavailableError(
        fmt::format("{} has shown no sign of life for {:.1f} s: it is stopped, or its host hangs",
                    connection.peer_name(), seconds(silent_)));
  }
  if (bounds_.hanging > Duration::zero() && hanging_ >= bounds_.hanging) {
    return absl::UnavailableError(
        fmt::format("{} runs, but has not looked at its connections for {:.1f} s: it hangs",
                    connection.peer_name(), seconds(hanging_)));
  }
  return absl::OkStatus();
}

absl::Status HeartbeatWatch::see(Connection& connection, TimePoint now) {
  if (mapped_ != nullptr) {
    std::array<std::uint64_t, kWords> counts{};
    base::copy_words(counts.data(), reinterpret_cast<const std::uint64_t*>(mapped_), kWords);
    take(counts.data(), now);
    next_look_ = now + kBeatInterval;
    return absl::OkStatus();
  }
  if (landing_ == nullptr) {
    auto landing = transport_.allocate_region(Heartbeat::kBytes, Access::kLocal);
    if (!landing.ok()) return landing.status();
    landing_ = std::move(*landing);
  }
  const WorkRequest request{.opcode = Opcode::kRead,
                            .signaled = true,
                            .id = RequestId(RequestId::Of::kHeartbeat, 0).bits(),
                            .local = landing_->bytes().first(Heartbeat::kBytes),
                            .region = landing_.get(),
                            .remote = counts_};
  // A connection that takes nothing now is full of other requests, or has failed, which an event reports.
  if (connection.post({&request, 1}) == 0) return absl::OkStatus();
  is_reading_ = true;
  posted_at_ = now;
  waited_at_ = now + kUsualAnswer;
  next_look_ = now + kBeatInterval;
  return absl::OkStatus();
}

/// Where it is not an adapter that answers, one whose process is stopped does not.
void HeartbeatWatch::wait_for_answer(TimePoint now) {
  silent_ += std::clamp<Duration>(now - waited_at_, Duration::zero(), 2 * kBeatInterval);
  waited_at_ = std::max(waited_at_, now);
  next_look_ = now + kBeatInterval;
}

bool HeartbeatWatch::on_completion(const Event& event) {
  if (RequestId(event.id).of() != RequestId::Of::kHeartbeat) return false;
  is_reading_ = false;
  if (event.result == OperationResult::kOk) take(&word(*landing_, 0), posted_at_);
  return true;
}

void HeartbeatWatch::take(const std::uint64_t* counts, TimePoint seen_at) {
  const Duration since = std::min<Duration>(seen_at - seen_at_, 2 * kBeatInterval);
  const auto add = [&](std::uint64_t& known, std::uint64_t seen, Duration& idle) {
    idle = has_seen_ && known == seen ? idle + since : Duration::zero();
    known = seen;
  };
  add(beats_, counts[0], silent_);
  add(turns_, counts[1], hanging_);
  has_seen_ = true;
  seen_at_ = seen_at;
}

}  // namespace verbena::transport
