// What a peer that has been let in sends over TCP.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <new>
#include <optional>
#include <span>
#include <string_view>

#include "tests/fuzz/target.hpp"
#include "transport/tcp/frame_reader.hpp"

namespace verbena::fuzz {
namespace {

namespace tcp = transport::tcp;

constexpr std::size_t kMostMessageBytes = 64;
constexpr std::size_t kReceivedAtOnce = 96;  // so that payloads come in pieces

/// Checks what frame_reader.hpp promises to those who use frames.
class CheckingUser final : public tcp::FrameUser {
 public:
  explicit CheckingUser(tcp::FrameReader& reader) : reader_(reader) {}

  absl::Status begin(const tcp::Frame& frame) override {
    require(!frame_, "a frame within a frame");
    require(!reader_.is_paused(), "a frame during a pause");
    require(tcp::obstacle(frame, kMostMessageBytes).empty(), "an impossible frame");
    require(frame.sequence == next_sequence_++, "a frame out of its turn");
    frame_ = frame;
    taken_ = 0;
    return absl::OkStatus();
  }
  absl::Status take(const tcp::Frame& frame, std::uint64_t offset,
                    std::span<const std::byte> bytes) override {
    require(frame_.has_value() && !bytes.empty(), "a payload of nothing");
    require(offset == taken_, "a gap in a payload");
    taken_ += bytes.size();
    require(taken_ <= frame.length, "more than the payload");
    const std::uint64_t first = frame.address + offset;
    const std::uint64_t last = first + bytes.size();
    require(reinterpret_cast<std::uintptr_t>(bytes.data()) % tcp::kWordBytes == first % tcp::kWordBytes,
            "another place in a word");
    require(first % tcp::kWordBytes == 0 || offset == 0, "a word that is split at its beginning");
    require(last % tcp::kWordBytes == 0 || taken_ == frame.length, "a word that is split at its end");
    for (const std::byte each : bytes) sum_ += std::to_integer<unsigned>(each);  // all of it can be read
    return absl::OkStatus();
  }
  absl::Status end(const tcp::Frame& frame) override {
    require(frame_.has_value(), "an end without a beginning");
    require(!tcp::has_payload(frame) || taken_ == frame.length, "less than the payload");
    frame_.reset();
    if (frame.is_elsewhere != 0) reader_.pause();
    return absl::OkStatus();
  }
  [[nodiscard]] unsigned sum() const { return sum_; }

 private:
  tcp::FrameReader& reader_;
  std::optional<tcp::Frame> frame_;
  std::uint16_t next_sequence_ = 0;
  std::uint64_t taken_ = 0;
  unsigned sum_ = 0;
};

}  // namespace

void tcp_frames(std::string_view bytes) {
  alignas(tcp::FrameReader::kBufferAlignment) std::array<std::byte, kReceivedAtOnce> buffer{};
  tcp::FrameReader reader(kMostMessageBytes);
  CheckingUser user(reader);
  // The length of each piece is the byte before it.
  while (!bytes.empty()) {
    const std::size_t wanted = static_cast<unsigned char>(bytes.front());
    bytes.remove_prefix(1);
    // Every second piece is no longer than what is missing of a frame.
    const std::span<std::byte> room = wanted % 2 == 0 ? reader.room(buffer) : reader.room_for_one(buffer);
    const std::size_t count = std::min({wanted, room.size(), bytes.size()});
    std::memcpy(room.data(), bytes.data(), count);
    bytes.remove_prefix(count);
    if (!reader.received(count, user).ok()) return;
    while (reader.is_paused()) {
      if (!reader.resume(user).ok()) return;
    }
  }
}

}  // namespace verbena::fuzz
