// A session's side of checkpoints (Session::checkpoint()): this worker's part, and on worker 0 all that the
// job's checkpoint is made of. docs/checkpoints.md
//
// Worker 0 makes the folder, and tells the servers that there will be a cut (server/saving.hpp). In the
// barrier that follows, servers copy their rows. Then every process writes its part, in a thread of its own,
// and worker 0 hears of each: from servers, and through server 0 from workers. When all are written, it
// writes the manifest, also in a thread, and only then is there a checkpoint.
//
// A checkpoint that cannot be written is not the job's end: its parts are thrown away, and training goes on.
//
// A session that takes the place of another process has no part in checkpoints of clocks that this one had
// finished: either that one has written its part, or the checkpoint fails, as server 0 tells worker 0. If it
// was worker 0 that died, nobody writes the manifest. docs/decisions/0067-replaced-and-saved.md
//
// Thread safety: none; belongs to its session.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/errand.hpp"
#include "checkpoint/folder.hpp"
#include "checkpoint/reader.hpp"
#include "consistency/rules.hpp"
#include "protocol/messages.hpp"
#include <verbena/session.hpp>

namespace verbena::worker {

class SessionCore;

class Checkpointing {
 public:
  explicit Checkpointing(SessionCore& session) : session_(session) {}

  /// Whether a table of this name is in checkpoints: not those that a session opens for itself.
  [[nodiscard]] static bool saves(const std::string& table) { return !table.starts_with("verbena."); }
  /// Opens the checkpoint that the session goes on from. Errors: checkpoint::Reader::open().
  absl::Status resume(const std::string& path);
  /// nullptr: it does not go on from one.
  [[nodiscard]] const checkpoint::Reader* resumed() const { return resumed_ ? &*resumed_ : nullptr; }
  /// Session::resumed_state().
  [[nodiscard]] absl::StatusOr<std::optional<std::vector<std::byte>>> resumed_state() const;

  /// Session::checkpoint().
  absl::Status save(const CheckpointOptions& options, std::vector<std::byte> state);
  /// Session::finish_checkpoint().
  absl::Status finish();

  // ---- what the session calls
  /// In each poll. Whether something has ended, which somebody may wait for.
  bool poll();
  absl::Status on_part_saved(std::uint32_t server, const protocol::PartSaved& saved);
  /// A copy will take the server's place, which knows nothing of the checkpoint that is being made; or the
  /// same server is connected again, and what it had to say of it may be lost.
  void on_lost_server(std::uint32_t server);
  /// What server 0 was told last, and may not have heard.
  [[nodiscard]] const std::optional<protocol::PartSaved>& said() const { return said_; }

 private:
  /// On worker 0: what it knows of the checkpoint that is being made.
  struct Whole {
    bool has_begun = false;  ///< there is a folder for it, and servers were asked
    std::vector<bool> servers_ready;
    // Those that have ended, well or not.
    std::vector<bool> servers_written;
    std::vector<bool> workers_written;
    absl::Status status;           ///< the first error
    bool has_lost_server = false;  ///< while it was made; a copy has taken the server's place
  };
  /// On worker 0: what the next checkpoint may be an increment of.
  struct Base {
    std::string folder;
    consistency::Clock clock = 0;  ///< 0: there is none
    std::uint32_t increments = 0;  ///< since the last one with all rows
  };

  [[nodiscard]] bool is_first() const;
  [[nodiscard]] bool is_under_way() const { return clock_ != 0; }
  absl::Status check(const CheckpointOptions& options) const;
  absl::Status pass();
  absl::Status begin(const CheckpointOptions& options, consistency::Clock clock);
  void note_dead_servers();
  void note_missing(std::vector<bool>& parts, bool is_worker, std::uint32_t rank, const char* why);
  void note_lost(std::uint32_t server, const char* why, const char* why_unheard);
  void write_own_part(std::vector<std::byte> state);
  void end_own_part(const absl::Status& status);
  void note(std::vector<bool>& parts, const protocol::PartSaved& saved);
  void commit_if_complete();
  [[nodiscard]] checkpoint::Manifest manifest() const;
  [[nodiscard]] std::string unfinished_path() const;
  [[nodiscard]] bool is_increment() const { return since_ != 0; }
  void end(const absl::Status& status);

  SessionCore& session_;
  std::optional<checkpoint::Reader> resumed_;
  CheckpointOptions options_;     ///< of the checkpoint that is being made
  consistency::Clock clock_ = 0;  ///< of it; 0: there is none
  consistency::Clock since_ = 0;  ///< worker 0's: of what it is an increment; 0: it has all rows
  bool is_cut_ = false;           ///< its barrier is over
  base::Errand folder_;           ///< worker 0's
  base::Errand part_;
  base::Errand commit_;  ///< worker 0's
  Whole whole_;
  Base base_;
  std::uint64_t run_ = 0;  ///< checkpoint::Manifest::run; 0: not yet chosen
  absl::Status last_;      ///< how the last one ended
  std::optional<protocol::PartSaved> said_;
};

}  // namespace verbena::worker
