// What a copy of a server gets that joins a running job: all that the server has between two records of its
// log, its *image*. From there on it goes by the same records as all copies.
//
// An image has a head, which tells what there is (tables, clocks, what lanes keep), and the bulk: the memory
// of rows and of sparse tables' indexes as it is, since copies must give the same numbers to rows.
//
// While an image is made and sent, nothing counts (Log): no lane changes a row. So the bulk is sent from
// where it lies.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "consistency/rules.hpp"
#include "protocol/log_record.hpp"
#include "server/log.hpp"
#include "server/peer.hpp"
#include "server/shards.hpp"

namespace verbena::server {

/// What the lanes of a server have. Each writes its own when it comes to the task.
class LaneImages {
 public:
  struct OfLane {
    std::string state;
    std::vector<std::string> parts;  ///< by table; empty where it is not sparse
  };

  /// `wake`: called when the last one has written; from any thread.
  LaneImages(std::uint32_t lanes, std::function<void()> wake)
      : lanes_(lanes), left_(lanes), wake_(std::move(wake)) {}

  /// REQUIRES: the lane has not said that it is done.
  [[nodiscard]] OfLane& of(std::uint32_t lane) { return lanes_[lane]; }
  void lane_is_done() {
    // Release: who sees that all are done sees what they have written, and their rows.
    if (left_.fetch_sub(1, std::memory_order_acq_rel) == 1) wake_();
  }
  [[nodiscard]] bool are_written() const { return left_.load(std::memory_order_acquire) == 0; }
  /// REQUIRES: are_written()
  [[nodiscard]] const std::vector<OfLane>& lanes() const { return lanes_; }

 private:
  std::vector<OfLane> lanes_;
  std::atomic<std::uint32_t> left_;
  const std::function<void()> wake_;
};

/// What a server has besides shards, lanes and workers.
struct Progress {
  std::uint32_t left = 0;         ///< workers that said goodbye, or were let go
  consistency::Clock ended = -1;  ///< the newest clock whose iteration a worker has ended
  bool has_resumed = false;       ///< lanes know the clock that the job goes on from
};

struct Image {
  std::string head;
  std::vector<std::span<const std::byte>> bulk;  ///< in the shards' memory
};

/// REQUIRES: `lanes`.are_written()
Image make_image(const Shards& shards, std::span<Peer* const> workers, const Progress& progress,
                 const LaneImages& lanes);

/// What an image's head says, once the shards are made.
struct LoadedHead {
  Progress progress;
  std::vector<std::shared_ptr<const std::string>> lanes;  ///< what each is to read
  std::vector<std::span<std::byte>> bulk;                 ///< to be filled
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

  /// Sends what there is room for; false: nothing.
  bool send(LogSender& to);
  [[nodiscard]] bool is_sent() const { return left_bytes_ == 0; }

 private:
  void take(std::span<std::byte> to);

  const Image image_;
  const protocol::ImageStart start_;
  std::uint64_t left_bytes_;
  std::uint64_t pieces_ = 0;
  std::size_t extent_ = 0;  ///< of what is next: 0, the head; then those of the bulk
  std::size_t offset_ = 0;  ///< in it
};

/// Takes an image, piece by piece.
class ImageReceiver {
 public:
  /// Where the bulk belongs.
  using LoadHead =
      absl::FunctionRef<absl::StatusOr<std::vector<std::span<std::byte>>>(std::string_view head)>;

  /// The next piece. INVALID_ARGUMENT: it is none; errors of `load`, which is called once.
  absl::Status take(const protocol::LogRecord& piece, LoadHead load);
  [[nodiscard]] bool is_whole() const { return pieces_ > 0 && left_bytes_ == 0; }
  /// Of the log, that are in it. REQUIRES: a piece was taken
  [[nodiscard]] std::uint64_t records() const { return start_.records; }

 private:
  absl::Status begin(std::span<const std::byte>& bytes);
  absl::Status load_bulk(LoadHead load);

  protocol::ImageStart start_;
  std::uint64_t pieces_ = 0;
  std::uint64_t left_bytes_ = 0;
  std::string head_;
  std::vector<std::span<std::byte>> bulk_;  ///< what is not filled yet, from extent_ on
  std::size_t extent_ = 0;
};

}  // namespace verbena::server
