#include "worker/checkpointing.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <random>
#include <utility>

#include "base/printable.hpp"
#include "base/return_if_error.hpp"
#include "checkpoint/part_description.hpp"
#include "checkpoint/part_writer.hpp"
#include "protocol/saved_table.hpp"
#include "worker/options.hpp"
#include "worker/session_core.hpp"
#include "worker/table_core.hpp"

namespace verbena {
namespace worker {

namespace {

std::string part_name(std::uint32_t rank) {
  return fmt::format("worker-{}", rank);
}

/// A worker's part: its state as one blob of the part's name.
absl::Status write_part(const std::string& folder, consistency::Clock clock, std::uint32_t rank,
                        const std::vector<std::byte>& state) {
  auto writer = checkpoint::PartWriter::create(checkpoint::host_file_system(), folder,
                                               static_cast<std::uint64_t>(clock), {.name = part_name(rank)});
  if (!writer.ok()) return writer.status();
  RETURN_IF_ERROR(writer->add_blob(part_name(rank), state));
  const absl::StatusOr<checkpoint::Part> part = writer->finish();
  if (!part.ok()) return part.status();
  return checkpoint::describe_part(checkpoint::host_file_system(), folder, *part);
}

std::vector<std::string> part_names(std::size_t servers, std::uint32_t workers) {
  std::vector<std::string> names;
  for (std::size_t rank = 0; rank < servers; ++rank) names.push_back(fmt::format("server-{}", rank));
  for (std::uint32_t rank = 0; rank < workers; ++rank) names.push_back(part_name(rank));
  return names;
}

/// Checkpoints of later clocks are of another run, or newer than what this one has gone on from. They stay,
/// and whoever takes the newest takes them.
void warn_of_later_ones(const checkpoint::Folder& folder, const std::string& path, std::uint64_t clock) {
  const absl::StatusOr<checkpoint::Folder::Listing> listing = folder.list();
  if (!listing.ok() || listing->complete.empty() || listing->complete.front().clock < clock) return;
  spdlog::warn(
      "{}/{} is of a later clock than the first checkpoint of this run, {}: it stays, and the newest "
      "checkpoint "
      "there is not this run's until its clocks are later; better give each run a folder of its own",
      path, listing->complete.front().name, clock);
}

absl::Status make_folder(const std::string& path, std::uint64_t clock, bool is_first_of_run) {
  checkpoint::Folder folder(checkpoint::host_file_system(), path);
  if (is_first_of_run) warn_of_later_ones(folder, path, clock);
  return folder.begin(clock).status();
}

/// Which one of all checkpoints.
struct Identity {
  std::uint64_t clock = 0;
  std::uint64_t run = 0;
};

/// `status`: whether all parts are there. `also_kept`: stays, whatever its age.
absl::Status commit(const CheckpointOptions& options, const checkpoint::Manifest& manifest,
                    const std::vector<std::string>& parts, absl::Status status,
                    const std::optional<Identity>& also_kept) {
  checkpoint::Folder folder(checkpoint::host_file_system(), options.folder);
  if (status.ok()) status = folder.commit(manifest, parts);
  if (status.ok()) {
    const auto stays = [&](const checkpoint::Folder::Complete& one) {
      return also_kept && one.clock == also_kept->clock && one.run == also_kept->run;
    };
    if (const absl::Status kept = folder.keep(options.keep, manifest.clock, stays); !kept.ok())
      spdlog::warn("an old checkpoint could not be removed: {}", std::string(kept.message()));
    return absl::OkStatus();
  }
  // Why it failed is what counts, and not that it could not be cleared away.
  static_cast<void>(folder.discard(manifest.clock));
  return status;
}

}  // namespace

bool Checkpointing::is_first() const {
  return session_.options().rank == 0;
}

// ---- resuming

absl::Status Checkpointing::resume(const std::string& path) {
  absl::StatusOr<checkpoint::Reader> reader = checkpoint::Reader::open(checkpoint::host_file_system(), path);
  if (!reader.ok()) return reader.status();
  resumed_ = *std::move(reader);
  return absl::OkStatus();
}

absl::StatusOr<std::optional<std::vector<std::byte>>> Checkpointing::resumed_state() const {
  if (!resumed_) return std::nullopt;
  absl::StatusOr<std::vector<std::byte>> state = resumed_->read_blob(part_name(session_.options().rank));
  if (!state.ok()) return state.status();
  return *std::move(state);
}

// ---- saving

absl::Status Checkpointing::check(const CheckpointOptions& options) const {
  // The servers get a longer path.
  constexpr std::size_t kMostFolderBytes = protocol::kMaxPathBytes - 64;
  if (options.folder.empty() || options.folder.size() > kMostFolderBytes ||
      options.folder.find('\0') != std::string::npos) {
    return absl::InvalidArgumentError(
        fmt::format("a checkpoint's folder: expected a path of 1 to {} bytes, found {}", kMostFolderBytes,
                    options.folder.size()));
  }
  if (options.keep == 0)
    return absl::InvalidArgumentError("checkpoints to keep: expected 1 or more, found 0");
  for (const std::unique_ptr<TableCore>& table : session_.tables()) {
    if (!saves(table->options().name) || checkpoint::is_shown_name(table->options().name)) continue;
    return absl::InvalidArgumentError(
        fmt::format("table \"{}\": expected a name that can be shown as it is, to be saved",
                    base::printable(table->options().name)));
  }
  if (session_.rows_held() > 0) {
    return absl::InvalidArgumentError(
        fmt::format("worker {} holds {} rows, which a checkpoint needs: release() them before",
                    session_.options().rank, session_.rows_held()));
  }
  return absl::OkStatus();
}

absl::Status Checkpointing::save(const CheckpointOptions& options, std::vector<std::byte> state) {
  RETURN_IF_ERROR(check(options));
  RETURN_IF_ERROR(session_.wait_until([&] { return !is_under_way(); }, session_.options().clock_timeout_ms,
                                      [] { return std::string("the last checkpoint to be written"); }));
  if (session_.is_catching_up()) return pass();
  const consistency::Clock clock = session_.current_clock() + 1;
  options_ = options;
  clock_ = clock;
  is_cut_ = false;
  if (is_first()) RETURN_IF_ERROR(begin(options, clock));
  // If all that it says is that updates were lost with a node, the clock has ended all the same.
  const absl::Status status = session_.barrier_for_cut();
  if (!session_.status().ok()) return status;
  is_cut_ = true;
  write_own_part(std::move(state));
  return status;
}

/// The process before this one was at the cut, and whoever waits for its part has heard what became of that.
absl::Status Checkpointing::pass() {
  last_ = absl::UnavailableError(
      fmt::format("of the checkpoint of clock {} only the process before this one knows what became of it",
                  session_.current_clock() + 1));
  return session_.barrier_for_cut();
}

/// Worker 0 makes the folder, and waits until all servers expect the cut. Errors are the session's.
absl::Status Checkpointing::begin(const CheckpointOptions& options, consistency::Clock clock) {
  const std::size_t servers = session_.options().servers.size();
  const bool is_first_of_run = run_ == 0;
  if (is_first_of_run) run_ = (std::uint64_t{std::random_device()()} << 32U) | std::random_device()();
  since_ = 0;
  whole_ = {.servers_ready = std::vector<bool>(servers),
            .servers_written = std::vector<bool>(servers),
            .workers_written = std::vector<bool>(session_.options().workers),
            .status = absl::OkStatus()};
  // A disk that does not answer for a while must not look like a worker that has stopped.
  folder_.begin(
      [path = options.folder, clock, is_first_of_run] {
        return make_folder(path, static_cast<std::uint64_t>(clock), is_first_of_run);
      },
      [this] { session_.wake(); });
  RETURN_IF_ERROR(session_.wait_until([&] { return folder_.has_ended(); },
                                      session_.options().clock_timeout_ms,
                                      [] { return std::string("a checkpoint's folder to be made"); }));
  whole_.status = folder_.take();
  whole_.has_begun = whole_.status.ok();
  if (!whole_.has_begun) return absl::OkStatus();
  note_dead_servers();
  const bool is_increment =
      base_.clock != 0 && base_.increments < options.increments && base_.folder == options.folder;
  since_ = is_increment ? base_.clock : 0;
  session_.tell_all(protocol::SaveRows{
      .clock = clock, .since = since_, .is_base = options.increments > 0, .folder = unfinished_path()});
  return session_.wait_until(
      [&] { return std::all_of(whole_.servers_ready.begin(), whole_.servers_ready.end(), std::identity()); },
      session_.options().timeout_ms,
      [&] {
        const auto missing = std::find(whole_.servers_ready.begin(), whole_.servers_ready.end(), false);
        return fmt::format("server {} to begin a checkpoint", missing - whole_.servers_ready.begin());
      });
}

/// A job that outlives servers goes on without checkpoints: their rows are missing, and nobody passes on what
/// workers say of their parts once server 0 is gone.
void Checkpointing::note_dead_servers() {
  if (!is_first() || !whole_.has_begun) return;
  for (const std::unique_ptr<ServerLink>& link : session_.links()) {
    if (link->is_dead) note_lost(link->server, "is gone", "cannot be heard: server 0 is gone");
  }
}

void Checkpointing::on_lost_server(std::uint32_t server) {
  base_ = {};  // a copy has nothing to compare with
  whole_.has_lost_server = true;
  if (!is_first() || !is_under_way() || !whole_.has_begun) return;
  note_lost(server, "was lost, and is there again", "cannot be heard: server 0 was lost, and is there again");
}

void Checkpointing::note_lost(std::uint32_t server, const char* why, const char* why_unheard) {
  whole_.servers_ready[server] = true;
  note_missing(whole_.servers_written, /*is_worker=*/false, server, why);
  for (std::uint32_t rank = 1; server == 0 && rank < session_.options().workers; ++rank)
    note_missing(whole_.workers_written, /*is_worker=*/true, rank, why_unheard);
}

void Checkpointing::note_missing(std::vector<bool>& parts, bool is_worker, std::uint32_t rank,
                                 const char* why) {
  if (parts[rank]) return;
  note(parts, {.clock = clock_,
               .is_worker = is_worker,
               .rank = rank,
               .code = static_cast<std::uint32_t>(absl::StatusCode::kUnavailable),
               .reason = why});
}

void Checkpointing::write_own_part(std::vector<std::byte> state) {
  if (is_first() && !whole_.has_begun) return commit_if_complete();
  part_.begin([path = unfinished_path(), clock = clock_, rank = session_.options().rank,
               state = std::move(state)] { return write_part(path, clock, rank, state); },
              [this] { session_.wake(); });
}

std::string Checkpointing::unfinished_path() const {
  return checkpoint::Folder(checkpoint::host_file_system(), options_.folder)
      .unfinished_path(static_cast<std::uint64_t>(clock_));
}

bool Checkpointing::poll() {
  if (!is_under_way()) return false;
  note_dead_servers();
  const bool part_has_ended = part_.is_under_way() && part_.has_ended();
  if (part_has_ended) end_own_part(part_.take());
  const bool commit_has_ended = commit_.is_under_way() && commit_.has_ended();
  if (commit_has_ended) end(commit_.take());
  return part_has_ended || commit_has_ended;
}

void Checkpointing::end_own_part(const absl::Status& status) {
  const protocol::PartSaved saved{.clock = clock_,
                                  .stage = protocol::PartSaved::Stage::kWritten,
                                  .is_worker = true,
                                  .rank = session_.options().rank,
                                  .code = static_cast<std::uint32_t>(status.code()),
                                  .reason = std::string(status.message())};
  if (is_first()) return note(whole_.workers_written, saved);
  said_ = saved;
  session_.tell_server_0(saved);
  end(status);
}

absl::Status Checkpointing::on_part_saved(std::uint32_t server, const protocol::PartSaved& saved) {
  const bool is_ready = saved.stage == protocol::PartSaved::Stage::kReady;
  const SessionOptions& options = session_.options();
  const bool is_possible = saved.is_worker
                               ? server == 0 && !is_ready && saved.rank > 0 && saved.rank < options.workers
                               : saved.rank == server;
  // Of what the process before this one has begun, this one may hear before it is there itself.
  const consistency::Clock newest =
      std::max(session_.current_clock(), session_.links().newest_former_clock()) + 1;
  if (!is_first() || !is_possible || saved.clock > newest)
    return absl::InvalidArgumentError(fmt::format("tells of part {} of a checkpoint", saved.rank));
  // Workers do not hear that a checkpoint could not begin, and have tried to write their parts of it; nor
  // that another process is worker 0.
  if (saved.clock != clock_ || !whole_.has_begun) return absl::OkStatus();
  note(is_ready          ? whole_.servers_ready
       : saved.is_worker ? whole_.workers_written
                         : whole_.servers_written,
       saved);
  // A server that cannot begin writes nothing.
  if (is_ready && saved.code != 0) whole_.servers_written[saved.rank] = true;
  return absl::OkStatus();
}

void Checkpointing::note(std::vector<bool>& parts, const protocol::PartSaved& saved) {
  parts[saved.rank] = true;
  if (saved.code != 0 && whole_.status.ok()) {
    whole_.status = absl::Status(
        static_cast<absl::StatusCode>(saved.code),
        fmt::format("{} {}: {}", saved.is_worker ? "worker" : "server", saved.rank, saved.reason));
  }
  commit_if_complete();
}

/// All processes have written their parts, or have said that they cannot: one that still writes could come
/// into the way of the next checkpoint.
void Checkpointing::commit_if_complete() {
  const auto all = [](const std::vector<bool>& parts) {
    return std::all_of(parts.begin(), parts.end(), std::identity());
  };
  if (!is_cut_ || commit_.is_under_way()) return;
  if (whole_.has_begun && (!all(whole_.servers_written) || !all(whole_.workers_written))) return;
  std::optional<Identity> also_kept;
  if (options_.keep_resumed && resumed_) also_kept = {resumed_->manifest().clock, resumed_->manifest().run};
  commit_.begin(
      [options = options_, manifest = manifest(), status = whole_.status, also_kept,
       parts = part_names(whole_.servers_written.size(), session_.options().workers)] {
        return commit(options, manifest, parts, status, also_kept);
      },
      [this] { session_.wake(); });
}

checkpoint::Manifest Checkpointing::manifest() const {
  checkpoint::Manifest manifest{
      .clock = static_cast<std::uint64_t>(clock_), .written = {}, .program = VERBENA_VERSION};
  manifest.run = run_;
  if (is_increment()) manifest.since = static_cast<std::uint64_t>(since_);
  manifest.options = {{"workers", session_.options().workers},
                      {"servers", session_.options().servers.size()},
                      {"notes", options_.notes}};
  for (const std::unique_ptr<TableCore>& table : session_.tables()) {
    if (!saves(table->options().name)) continue;
    const protocol::OpenTable open = to_wire(table->number(), table->options(), table->value_type());
    manifest.tables.push_back(
        {.number = open.table, .name = open.name, .description = protocol::description_of(open)});
  }
  return manifest;
}

void Checkpointing::end(const absl::Status& status) {
  last_ = status;
  if (is_first() && status.ok()) {
    spdlog::info("checkpoint {}/ckpt-{} is written", options_.folder, clock_);
    // Otherwise a server remembers nothing to compare with.
    const bool is_base = options_.increments > 0 && !whole_.has_lost_server;
    base_ = is_base ? Base{.folder = options_.folder,
                           .clock = clock_,
                           .increments = is_increment() ? base_.increments + 1 : 0}
                    : Base{};
  } else if (is_first()) {
    spdlog::warn("no checkpoint of clock {} was written; training goes on: {}", clock_,
                 std::string(status.message()));
    base_ = {};
  }
  clock_ = 0;
}

absl::Status Checkpointing::finish() {
  RETURN_IF_ERROR(session_.wait_until([&] { return !is_under_way(); }, session_.options().clock_timeout_ms,
                                      [] { return std::string("a checkpoint to be written"); }));
  return last_;
}

}  // namespace worker

// ---- what there is in folders

namespace {

CheckpointSummary summary_of(const checkpoint::Reader& reader) {
  const checkpoint::Manifest& manifest = reader.manifest();
  CheckpointSummary summary{
      .clock = static_cast<std::int64_t>(manifest.clock), .path = reader.path(), .written = manifest.written};
  // Whoever has written the manifest may have put anything there.
  const nlohmann::json& options = manifest.options;
  const auto count = [&](const char* name) -> std::uint32_t {
    const auto found = options.find(name);
    return found != options.end() && found->is_number_unsigned() ? found->get<std::uint32_t>() : 0;
  };
  summary.workers = count("workers");
  summary.servers = count("servers");
  if (const auto notes = options.find("notes"); notes != options.end() && notes->is_object()) {
    for (const auto& [name, note] : notes->items()) {
      if (note.is_string()) summary.notes.emplace(name, note.get<std::string>());
    }
  }
  return summary;
}

}  // namespace

absl::StatusOr<CheckpointSummary> newest_checkpoint(const std::string& folder,
                                                    std::vector<std::string>* damaged) {
  absl::StatusOr<checkpoint::Folder::Newest> newest =
      checkpoint::Folder(checkpoint::host_file_system(), folder).newest_valid();
  if (!newest.ok()) return newest.status();
  for (const checkpoint::Folder::Damaged& one : newest->passed_over) {
    if (damaged != nullptr) damaged->push_back(fmt::format("{}: {}", one.name, one.reason));
  }
  return summary_of(newest->reader);
}

absl::StatusOr<CheckpointSummary> read_checkpoint(const std::string& path) {
  const absl::StatusOr<checkpoint::Reader> reader =
      checkpoint::Reader::open(checkpoint::host_file_system(), path);
  if (!reader.ok()) return reader.status();
  return summary_of(*reader);
}

}  // namespace verbena
