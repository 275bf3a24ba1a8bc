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
  consistency::Clock former_clock = 0;
  std::uint64_t left = 0;
};
static_assert(sizeof(WorkerImage) == 48);

absl::Status wrong(std::string_view what) {
  return absl::InvalidArgumentError(fmt::format("an image of a server: {}", what));
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
    worker->former_clock = known.former_clock;
    worker->has_come_back = known.incarnation > 0;
    worker->left = known.left != 0;
  }
}

}  // namespace

std::string write_head(const Shards& shards, std::span<Peer* const> workers, const Progress& progress) {
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
                        .former_clock = worker->former_clock,
                        .left = worker->left ? 1U : 0U});
  }
  for (const std::unique_ptr<TableShard>& shard : shards) shard->for_lanes()->write_key_lists(out);
  return out.take();
}

Image make_image(std::string head, std::shared_ptr<LaneImages> lanes) {
  ImageWriter out;
  for (const LaneImages::OfLane& lane : lanes->lanes()) {
    for (const std::string& part : lane.parts) out.put_text(part);
    out.put_text(lane.state);
  }
  head += out.take();
  return {.head = std::move(head), .lanes = std::move(lanes)};
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
  // load_tables() has looked
  const auto shard_of = [&](std::uint32_t table) -> FixedShard& {
    return static_cast<FixedShard&>(shards[table]);
  };
  for (std::uint32_t table = 0; table < shards.size(); ++table)
    RETURN_IF_ERROR(shard_of(table).read_key_lists(in));
  for (std::uint32_t lane = 0; lane < lanes; ++lane) {
    std::vector<std::span<std::byte>>& bulk = loaded.bulk.emplace_back();
    for (std::uint32_t table = 0; table < shards.size(); ++table) {
      const std::string_view part = in.get_text();
      if (!in.is_good()) return wrong("ends too soon");
      RETURN_IF_ERROR(shard_of(table).read_part(lane, part));
      shard_of(table).add_memory(lane, bulk);
    }
    loaded.lanes.push_back(std::make_shared<const std::string>(in.get_text()));
  }
  if (!in.ends_well()) return wrong("its head has another length");
  return loaded;
}

namespace {

std::uint64_t bytes_of(const std::vector<std::span<std::byte>>& extents) {
  return std::accumulate(extents.begin(), extents.end(), std::uint64_t{0},
                         [](std::uint64_t sum, std::span<std::byte> one) { return sum + one.size(); });
}

std::uint64_t bulk_bytes_of(const LaneImages& images) {
  std::uint64_t bytes = 0;
  for (const LaneImages::OfLane& lane : images.lanes()) bytes += bytes_of(lane.bulk);
  return bytes;
}

}  // namespace

ImageSender::ImageSender(Image image, std::uint64_t records)
    : image_(std::move(image)),
      start_{
          .head_bytes = image_.head.size(), .bulk_bytes = bulk_bytes_of(*image_.lanes), .records = records},
      left_bytes_(start_.bulk_bytes) {}

bool ImageSender::send(LogSender& to) {
  if (head_sent_ < image_.head.size()) return send_head(to);
  if (!find_buffer() || !send_piece(to, {}, buffer_->bytes())) return false;
  left_bytes_ -= buffer_->block_bytes();
  image_.lanes->give_back(lane_, *std::move(buffer_));
  buffer_.reset();
  return true;
}

bool ImageSender::send_head(LogSender& to) {
  const std::size_t bytes = std::min(image_.head.size() - head_sent_, protocol::kMostImagePieceBytes);
  const auto start = std::as_bytes(std::span(&start_, has_begun() ? 0 : 1));
  if (!send_piece(to, start, std::as_bytes(std::span(image_.head)).subspan(head_sent_, bytes))) return false;
  head_sent_ += bytes;
  return true;
}

/// Lanes take turns.
bool ImageSender::find_buffer() {
  for (std::size_t tries = image_.lanes->lanes().size(); !buffer_ && tries > 0; --tries) {
    lane_ = (lane_ + 1) % static_cast<std::uint32_t>(image_.lanes->lanes().size());
    if (ImageBuffer full; image_.lanes->of(lane_).buffers.full.try_pop(full)) buffer_ = std::move(full);
  }
  return buffer_.has_value();
}

bool ImageSender::send_end(LogSender& to) {
  return send_piece(to, {}, {});
}

bool ImageSender::send_piece(LogSender& to, std::span<const std::byte> first,
                             std::span<const std::byte> second) {
  const protocol::LogHeader header{.kind = protocol::LogHeader::Kind::kImage, .number = pieces_ + 1};
  const std::span<std::byte> place = to.place(sizeof header + first.size() + second.size());
  if (place.empty()) return false;
  std::memcpy(place.data(), &header, sizeof header);
  std::byte* const at = place.data() + sizeof header;
  if (!first.empty()) std::memcpy(at, first.data(), first.size());
  if (!second.empty()) std::memcpy(at + first.size(), second.data(), second.size());
  // There is room in the ring, but the connection's queue may be full: then it is this piece's turn again.
  if (!to.send(place)) return false;
  ++pieces_;
  return true;
}

absl::Status ImageReceiver::take(const protocol::LogRecord& piece, LoadHead load) {
  if (piece.header.number != pieces_ + 1)
    return wrong(fmt::format("piece {} after piece {}", piece.header.number, pieces_));
  std::span<const std::byte> bytes = piece.message;
  if (pieces_ == 0) RETURN_IF_ERROR(begin(bytes));
  ++pieces_;
  if (head_.size() < start_.head_bytes) {
    if (bytes.size() > start_.head_bytes - head_.size())
      return wrong("has more bytes of its head than it says");
    head_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return head_.size() < start_.head_bytes ? absl::OkStatus() : load_bulk(load);
  }
  is_whole_ = bytes.empty();
  if (is_whole_ && left_bytes_ > 0) return wrong(fmt::format("ends {} bytes too soon", left_bytes_));
  while (!bytes.empty()) RETURN_IF_ERROR(take_block(bytes));
  return absl::OkStatus();
}

absl::Status ImageReceiver::take_block(std::span<const std::byte>& bytes) {
  protocol::ImageBlock block;
  if (bytes.size() < sizeof block) return wrong("has part of a block");
  std::memcpy(&block, bytes.data(), sizeof block);
  bytes = bytes.subspan(sizeof block);
  const bool fits = block.bytes > 0 && block.bytes <= bytes.size() && block.bytes <= left_bytes_ &&
                    block.lane < lanes_.size() && block.offset <= lanes_[block.lane].bytes &&
                    block.bytes <= lanes_[block.lane].bytes - block.offset;
  if (!fits) {
    return wrong(fmt::format("has a block of {} bytes at {} of lane {}, which is not there", block.bytes,
                             block.offset, block.lane));
  }
  left_bytes_ -= block.bytes;
  std::span<const std::byte> from = bytes.first(block.bytes);
  bytes = bytes.subspan(block.bytes);
  const std::vector<Extent>& extents = lanes_[block.lane].extents;
  auto extent = std::ranges::upper_bound(extents, block.offset, {}, &Extent::offset) - 1;
  for (std::uint64_t at = block.offset - extent->offset; !from.empty(); at = 0, ++extent) {
    const std::size_t size = std::min<std::size_t>(from.size(), extent->memory.size() - at);
    std::memcpy(extent->memory.data() + at, from.data(), size);
    from = from.subspan(size);
  }
  return absl::OkStatus();
}

absl::Status ImageReceiver::begin(std::span<const std::byte>& bytes) {
  if (bytes.size() < sizeof start_) return wrong("has no beginning");
  std::memcpy(&start_, bytes.data(), sizeof start_);
  bytes = bytes.subspan(sizeof start_);
  if (start_.head_bytes == 0) return wrong("has no head");
  left_bytes_ = start_.bulk_bytes;
  return absl::OkStatus();
}

absl::Status ImageReceiver::load_bulk(LoadHead load) {
  absl::StatusOr<ImageBulk> bulk = load(head_);
  if (!bulk.ok()) return bulk.status();
  std::uint64_t all = 0;
  for (const std::vector<std::span<std::byte>>& extents : *bulk) {
    OfLane& lane = lanes_.emplace_back();
    for (const std::span<std::byte> memory : extents) {
      if (!memory.empty()) lane.extents.push_back({lane.bytes, memory});
      lane.bytes += memory.size();
    }
    all += lane.bytes;
  }
  if (all == start_.bulk_bytes) return absl::OkStatus();
  return wrong(fmt::format("has {} bytes of rows, and its head tells of {}", start_.bulk_bytes, all));
}

}  // namespace verbena::server
