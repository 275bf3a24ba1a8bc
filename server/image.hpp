// What a copy of a server gets that joins a running job: all that the server has between two records of its
// log, its *image*. From there on it goes by the same records as all copies.
//
// An image has a head, which tells what there is (tables, clocks, what lanes keep), and the bulk: the memory
// of rows and of sparse tables' indexes as it is, since copies must give the same numbers to rows.
//
// The server goes on while the image is sent. The head is written at the moment of the image, by each lane
// when it comes to that place of its tasks; the bulk is copied bit by bit (image_copier.hpp).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "consistency/rules.hpp"
#include "protocol/log_record.hpp"
#include "server/image_copier.hpp"
#include "server/log.hpp"
#include "server/peer.hpp"
#include "server/shards.hpp"

namespace verbena::server {

/// What the lanes of a server have at the moment of an image. Each writes its own when it comes to the task.
class LaneImages {
 public:
  struct OfLane {
    std::string state;
    std::vector<std::string> parts;  ///< by table; empty where it is not sparse
    std::vector<std::span<std::byte>> bulk;
    ImageBuffers buffers;
  };
  /// `wake`: called when the last one has written; `wake_lane`: when a lane may copy more. The first one from
  /// any thread.
  LaneImages(std::uint32_t lanes, const ImageGrain& grain, std::function<void()> wake,
             std::function<void(std::uint32_t lane)> wake_lane)
      : grain_(grain),
        lanes_(lanes),
        left_(lanes),
        wake_(std::move(wake)),
        wake_lane_(std::move(wake_lane)) {}

  [[nodiscard]] const ImageGrain& grain() const { return grain_; }
  /// REQUIRES: the lane has not said that it is done. What is not `buffers` is constant afterwards.
  [[nodiscard]] OfLane& of(std::uint32_t lane) { return lanes_[lane]; }
  void lane_is_done() {
    // Release: who sees that all are done sees what they have written.
    if (left_.fetch_sub(1, std::memory_order_acq_rel) == 1) wake_();
  }
  [[nodiscard]] bool are_written() const { return left_.load(std::memory_order_acquire) == 0; }
  /// REQUIRES: are_written()
  [[nodiscard]] const std::deque<OfLane>& lanes() const { return lanes_; }
  /// A buffer that has been sent.
  void give_back(std::uint32_t lane, ImageBuffer buffer) {
    buffer.clear();
    lanes_[lane].buffers.free.push(std::move(buffer));
    wake_lane_(lane);
  }

  /// Nobody wants it any more, or it cannot be made.
  void give_up() { is_given_up_.store(true, std::memory_order_relaxed); }
  [[nodiscard]] bool is_given_up() const { return is_given_up_.load(std::memory_order_relaxed); }

 private:
  const ImageGrain grain_;
  std::deque<OfLane> lanes_;
  std::atomic<std::uint32_t> left_;
  std::atomic<bool> is_given_up_ = false;
  const std::function<void()> wake_;
  const std::function<void(std::uint32_t)> wake_lane_;
};

/// What a server has besides shards, lanes and workers.
struct Progress {
  std::uint32_t left = 0;         ///< workers that said goodbye, or were let go
  consistency::Clock ended = -1;  ///< the newest clock whose iteration a worker has ended
  bool has_resumed = false;       ///< lanes know the clock that the job goes on from
};

/// What the server has besides its lanes, as the first part of an image's head.
std::string write_head(const Shards& shards, std::span<Peer* const> workers, const Progress& progress);

struct Image {
  std::string head;
  std::shared_ptr<LaneImages> lanes;  ///< the bulk
};
/// `head`: of the same moment. REQUIRES: `lanes`->are_written()
Image make_image(std::string head, std::shared_ptr<LaneImages> lanes);

/// By lane: its rows, the states of rules, indexes, in an order of their own.
using ImageBulk = std::vector<std::vector<std::span<std::byte>>>;

/// What an image's head says, once the shards are made.
struct LoadedHead {
  Progress progress;
  std::vector<std::shared_ptr<const std::string>> lanes;  ///< what each is to read
  ImageBulk bulk;                                         ///< to be filled
};
/// Makes the shards, and fills in what is known of workers. INVALID_ARGUMENT: it is no image of such a
/// server; RESOURCE_EXHAUSTED. REQUIRES: there are no shards.
absl::StatusOr<LoadedHead> load_head(std::string_view head, Shards& shards, std::span<Peer* const> workers,
                                     std::uint32_t lanes);

/// Sends an image, piece by piece.
class ImageSender {
 public:
  /// `records`: of the log, that are in the image.
  ImageSender(Image image, std::uint64_t records);
  ~ImageSender() { image_.lanes->give_up(); }
  ImageSender(const ImageSender&) = delete;
  ImageSender& operator=(const ImageSender&) = delete;

  /// Sends a piece, if there is one, and room for it; false: not now.
  bool send(LogSender& to);
  [[nodiscard]] bool has_begun() const { return pieces_ > 0; }
  /// All but the end.
  [[nodiscard]] bool is_sent() const { return head_sent_ == image_.head.size() && left_bytes_ == 0; }
  [[nodiscard]] bool has_failed() const { return !is_sent() && image_.lanes->is_given_up(); }
  [[nodiscard]] std::uint64_t bulk_bytes() const { return start_.bulk_bytes; }
  /// Says that nothing is missing: all records that count were sent before. REQUIRES: is_sent()
  bool send_end(LogSender& to);

 private:
  bool send_head(LogSender& to);
  bool send_piece(LogSender& to, std::span<const std::byte> first, std::span<const std::byte> second);
  [[nodiscard]] bool find_buffer();

  const Image image_;
  const protocol::ImageStart start_;
  std::uint64_t left_bytes_;
  std::uint64_t pieces_ = 0;
  std::size_t head_sent_ = 0;
  std::uint32_t lane_ = 0;  ///< whose `buffer_` is
  std::optional<ImageBuffer> buffer_;
};

/// Takes an image, piece by piece.
class ImageReceiver {
 public:
  /// Where the bulk belongs.
  using LoadHead = absl::FunctionRef<absl::StatusOr<ImageBulk>(std::string_view head)>;

  /// The next piece. INVALID_ARGUMENT: it is none; errors of `load`, which is called once.
  absl::Status take(const protocol::LogRecord& piece, LoadHead load);
  [[nodiscard]] bool has_begun() const { return pieces_ > 0; }
  [[nodiscard]] bool is_whole() const { return is_whole_; }
  /// Of the log, that are in it. REQUIRES: has_begun()
  [[nodiscard]] std::uint64_t records() const { return start_.records; }
  [[nodiscard]] std::uint64_t bulk_bytes() const { return start_.bulk_bytes; }

 private:
  /// Of a lane's bulk.
  struct Extent {
    std::uint64_t offset = 0;
    std::span<std::byte> memory;
  };
  struct OfLane {
    std::vector<Extent> extents;
    std::uint64_t bytes = 0;
  };
  absl::Status begin(std::span<const std::byte>& bytes);
  absl::Status load_bulk(LoadHead load);
  absl::Status take_block(std::span<const std::byte>& bytes);

  protocol::ImageStart start_;
  std::uint64_t pieces_ = 0;
  std::uint64_t left_bytes_ = 0;
  std::string head_;
  std::vector<OfLane> lanes_;
  bool is_whole_ = false;
};

}  // namespace verbena::server
