#include "server/image.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <variant>

#include "base/return_if_error.hpp"
#include "protocol/messages.hpp"
#include "server/fixed_shard.hpp"
#include "server/image_bytes.hpp"

namespace verbena::server {
namespace {

/// What a server knows of a worker.
struct WorkerImage {
  consistency::Clock clock = 0;
  consistency::Clock ended = -1;
  std::uint64_t messages = 0;
  std::uint32_t tables_opened = 0;
  std::uint32_t incarnation = 0;
  std::uint64_t left = 0;
};
static_assert(sizeof(WorkerImage) == 40);

absl::Status wrong(std::string_view what) {
  return absl::InvalidArgumentError(fmt::format("an image of a server: {}", what));
}

template <class Byte>
std::uint64_t bytes_of(const std::vector<std::span<Byte>>& extents) {
  return std::accumulate(extents.begin(), extents.end(), std::uint64_t{0},
                         [](std::uint64_t sum, std::span<Byte> one) { return sum + one.size(); });
}

absl::Status load_tables(ImageReader& in, Shards& shards) {
  const std::uint64_t tables = in.get_count(sizeof(std::uint64_t));
  for (std::uint64_t table = 0; table < tables; ++table) {
    const std::string_view text = in.get_text();
    const auto message = protocol::decode_control(std::as_bytes(std::span(text)));
    if (!message.ok()) return message.status();
    const auto* const open = std::get_if<protocol::OpenTable>(&*message);
    if (open == nullptr || open->table != table) return wrong("has tables in no order");
    RETURN_IF_ERROR(shards.check(*open));
    const absl::StatusOr<TableShard*> shard = shards.create(*open);
    if (!shard.ok()) return shard.status();
    if ((*shard)->for_lanes() == nullptr) return wrong("has a table whose rows move");
  }
  return absl::OkStatus();
}

void load_workers(ImageReader& in, const Shards& shards, std::span<Peer* const> workers) {
  for (Peer* const worker : workers) {
    const auto known = in.get<WorkerImage>();
    worker->clock = known.clock;
    worker->ended = known.ended;
    worker->messages = known.messages;
    worker->messages_counted = known.messages;
    worker->tables_opened = std::min(known.tables_opened, static_cast<std::uint32_t>(shards.size()));
    worker->incarnation = known.incarnation;
    worker->has_come_back = known.incarnation > 0;
    worker->left = known.left != 0;
  }
}

}  // namespace

Image make_image(const Shards& shards, std::span<Peer* const> workers, const Progress& progress,
                 const LaneImages& lanes) {
  Image image;
  ImageWriter out;
  out.put(progress.left);
  out.put(progress.ended);
  out.put(progress.has_resumed);
  out.put(std::uint64_t{shards.size()});
  for (const std::unique_ptr<TableShard>& shard : shards) out.put_text(protocol::encode(shard->table));
  for (const Peer* const worker : workers) {
    out.put(WorkerImage{.clock = worker->clock,
                        .ended = worker->ended,
                        .messages = worker->messages_counted,
                        .tables_opened = worker->tables_opened,
                        .incarnation = worker->incarnation,
                        .left = worker->left ? 1U : 0U});
  }
  for (const std::unique_ptr<TableShard>& shard : shards) {
    const FixedShard& fixed = *shard->for_lanes();
    fixed.write_key_lists(out);
    for (const LaneImages::OfLane& lane : lanes.lanes()) out.put_text(lane.parts[fixed.table.table]);
    for (const std::span<std::byte> extent : fixed.memory()) image.bulk.emplace_back(extent);
  }
  for (const LaneImages::OfLane& lane : lanes.lanes()) out.put_text(lane.state);
  image.head = out.take();
  return image;
}

absl::StatusOr<LoadedHead> load_head(std::string_view head, Shards& shards, std::span<Peer* const> workers,
                                     std::uint32_t lanes) {
  LoadedHead loaded;
  ImageReader in(head);
  loaded.progress.left = in.get<std::uint32_t>();
  loaded.progress.ended = in.get<consistency::Clock>();
  loaded.progress.has_resumed = in.get<bool>();
  RETURN_IF_ERROR(load_tables(in, shards));
  load_workers(in, shards, workers);
  for (std::uint32_t table = 0; table < shards.size(); ++table) {
    FixedShard& shard = static_cast<FixedShard&>(shards[table]);  // load_tables() has looked
    RETURN_IF_ERROR(shard.read_key_lists(in));
    for (std::uint32_t lane = 0; lane < lanes; ++lane) {
      const std::string_view part = in.get_text();
      if (!in.is_good()) return wrong("ends too soon");
      RETURN_IF_ERROR(shard.read_part(lane, part));
    }
    for (const std::span<std::byte> extent : shard.memory()) loaded.bulk.push_back(extent);
  }
  for (std::uint32_t lane = 0; lane < lanes; ++lane)
    loaded.lanes.push_back(std::make_shared<const std::string>(in.get_text()));
  if (!in.ends_well()) return wrong("its head has another length");
  return loaded;
}

ImageSender::ImageSender(Image image, std::uint64_t records)
    : image_(std::move(image)),
      start_{.head_bytes = image_.head.size(), .bulk_bytes = bytes_of(image_.bulk), .records = records},
      left_bytes_(start_.head_bytes + start_.bulk_bytes) {}

bool ImageSender::send(LogSender& to) {
  bool sent = false;
  while (left_bytes_ > 0) {
    const std::size_t start_bytes = pieces_ == 0 ? sizeof start_ : 0;
    const std::size_t bytes = std::min<std::uint64_t>(left_bytes_, protocol::kMostImagePieceBytes);
    const protocol::LogHeader header{.kind = protocol::LogHeader::Kind::kImage, .number = pieces_ + 1};
    const std::span<std::byte> place = to.place(sizeof header + start_bytes + bytes);
    if (place.empty()) break;
    std::memcpy(place.data(), &header, sizeof header);
    if (start_bytes > 0) std::memcpy(place.data() + sizeof header, &start_, sizeof start_);
    // There is room in the ring, but the connection's queue may be full: then it is this piece's turn again.
    const auto [extent, offset] = std::pair(extent_, offset_);
    take(place.subspan(sizeof header + start_bytes));
    if (!to.send(place)) {
      extent_ = extent;
      offset_ = offset;
      break;
    }
    left_bytes_ -= bytes;
    ++pieces_;
    sent = true;
  }
  return sent;
}

void ImageSender::take(std::span<std::byte> to) {
  while (!to.empty()) {
    const std::span<const std::byte> extent =
        extent_ == 0 ? std::as_bytes(std::span(image_.head)) : image_.bulk[extent_ - 1];
    const std::size_t bytes = std::min(to.size(), extent.size() - offset_);
    if (bytes > 0) std::memcpy(to.data(), extent.data() + offset_, bytes);
    to = to.subspan(bytes);
    offset_ += bytes;
    if (offset_ < extent.size()) continue;
    offset_ = 0;
    ++extent_;
  }
}

absl::Status ImageReceiver::take(const protocol::LogRecord& piece, LoadHead load) {
  if (piece.header.number != pieces_ + 1)
    return wrong(fmt::format("piece {} after piece {}", piece.header.number, pieces_));
  std::span<const std::byte> bytes = piece.message;
  if (pieces_ == 0) RETURN_IF_ERROR(begin(bytes));
  ++pieces_;
  if (bytes.size() > left_bytes_) return wrong("has more bytes than it says");
  left_bytes_ -= bytes.size();
  const std::size_t of_head = std::min<std::uint64_t>(bytes.size(), start_.head_bytes - head_.size());
  head_.append(reinterpret_cast<const char*>(bytes.data()), of_head);
  bytes = bytes.subspan(of_head);
  if (of_head > 0 && head_.size() == start_.head_bytes) RETURN_IF_ERROR(load_bulk(load));
  while (!bytes.empty()) {
    std::span<std::byte>& to = bulk_[extent_];
    const std::size_t size = std::min(bytes.size(), to.size());
    if (size > 0) std::memcpy(to.data(), bytes.data(), size);
    bytes = bytes.subspan(size);
    to = to.subspan(size);
    if (to.empty()) ++extent_;
  }
  return absl::OkStatus();
}

absl::Status ImageReceiver::begin(std::span<const std::byte>& bytes) {
  if (bytes.size() < sizeof start_) return wrong("has no beginning");
  std::memcpy(&start_, bytes.data(), sizeof start_);
  bytes = bytes.subspan(sizeof start_);
  if (start_.head_bytes == 0) return wrong("has no head");
  left_bytes_ = start_.head_bytes + start_.bulk_bytes;
  return absl::OkStatus();
}

absl::Status ImageReceiver::load_bulk(LoadHead load) {
  absl::StatusOr<std::vector<std::span<std::byte>>> bulk = load(head_);
  if (!bulk.ok()) return bulk.status();
  bulk_ = *std::move(bulk);
  if (bytes_of(bulk_) != start_.bulk_bytes) {
    return wrong(
        fmt::format("has {} bytes of rows, and its head tells of {}", start_.bulk_bytes, bytes_of(bulk_)));
  }
  return absl::OkStatus();
}

}  // namespace verbena::server
