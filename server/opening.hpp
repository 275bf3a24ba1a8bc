// Tables that workers have asked for and whose rows are still being loaded from a checkpoint (loading.hpp).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "checkpoint/file_system.hpp"
#include "checkpoint/reader.hpp"
#include "server/loading.hpp"

namespace verbena::server {

struct Peer;

/// Thread safety: belongs to the transport's thread.
class Opening {
 public:
  /// The checkpoint at `path`, which is opened once.
  absl::StatusOr<std::shared_ptr<const checkpoint::Reader>> reader(const std::string& path) {
    if (reader_ != nullptr && reader_->path() == path) return reader_;
    absl::StatusOr<checkpoint::Reader> opened =
        checkpoint::Reader::open(checkpoint::host_file_system(), path);
    if (!opened.ok()) return opened.status();
    reader_ = std::make_shared<const checkpoint::Reader>(*std::move(opened));
    return reader_;
  }

  /// `moving`: what of the load is this thread's; nullptr: lanes do it all.
  void begin(std::uint32_t table, std::shared_ptr<TableLoad> load, std::unique_ptr<MovingLoad> moving) {
    tables_.push_back({table, std::move(load), std::move(moving), {}});
  }
  [[nodiscard]] bool is_under_way(std::uint32_t table) const {
    return std::any_of(tables_.begin(), tables_.end(), [&](const auto& one) { return one.table == table; });
  }
  [[nodiscard]] bool empty() const { return tables_.empty(); }
  /// The worker is to be told when the table is loaded. REQUIRES: is_under_way(table)
  void wait(std::uint32_t table, Peer& worker) {
    for (Table& one : tables_) {
      if (one.table == table) one.waiting.push_back(&worker);
    }
  }

  /// Does a piece; true if there was something to do. Calls opened(table, worker) for each worker that waits
  /// for a table that is loaded now, or failed(status) if one cannot be.
  template <class Opened, class Failed>
  bool step(const Opened& opened, const Failed& failed) {
    bool worked = false;
    for (Table& one : tables_) {
      if (one.moving == nullptr) continue;
      if (one.moving->step()) one.moving.reset();
      worked = true;
    }
    for (std::size_t i = 0; i < tables_.size();) {
      if (!tables_[i].load->is_done()) {
        ++i;
        continue;
      }
      const Table done = std::move(tables_[i]);
      tables_.erase(tables_.begin() + static_cast<std::ptrdiff_t>(i));
      worked = true;
      if (const absl::Status& status = done.load->status(); !status.ok()) {
        failed(status);
        continue;
      }
      for (Peer* const worker : done.waiting) opened(done.table, *worker);
    }
    return worked;
  }

 private:
  struct Table {
    std::uint32_t table = 0;
    std::shared_ptr<TableLoad> load;
    std::unique_ptr<MovingLoad> moving;
    std::vector<Peer*> waiting;
  };

  std::shared_ptr<const checkpoint::Reader> reader_;
  std::vector<Table> tables_;
};

}  // namespace verbena::server
