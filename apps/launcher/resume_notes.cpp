#include "apps/launcher/resume_notes.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_join.h"
#include "apps/resuming/checkpoints.hpp"
#include "base/decimal.hpp"
#include "base/printable.hpp"
#include "base/return_if_error.hpp"
#include "checkpoint/checksum.hpp"
#include "checkpoint/file_system.hpp"
#include <verbena/consistency.hpp>

namespace verbena::apps {
namespace {

constexpr const char* kApplicationNote = "application";
constexpr const char* kConsistencyNote = "consistency";
constexpr std::size_t kHashedBytesAtOnce = std::size_t{1} << 20;

using Notes = std::map<std::string, std::string>;

/// Size and checksum of the file's bytes. Something that is no file, and can be read only once, has none.
absl::StatusOr<std::string> fingerprint(const std::string& path) {
  const auto file = checkpoint::host_file_system().open(path);
  if (absl::IsInvalidArgument(file.status())) return "no file";
  if (!file.ok()) return file.status();
  checkpoint::Checksum sum;
  std::vector<std::byte> bytes(kHashedBytesAtOnce);
  const std::uint64_t size = (*file)->bytes();
  for (std::uint64_t offset = 0; offset < size; offset += bytes.size()) {
    const auto piece = std::span(bytes).first(std::min<std::uint64_t>(bytes.size(), size - offset));
    RETURN_IF_ERROR((*file)->read(offset, piece));
    sum.add(piece);
  }
  return fmt::format("{} bytes, checksum {}", size, checkpoint::checksum_text(sum.value()));
}

std::string file_note(const std::string& option, std::size_t number) {
  return fmt::format("{}: file {}", option, number);
}

std::string dashed(const std::string& option) {
  return "--" + option;
}

/// Of a note that is missing.
std::string shown(const Notes& notes, const std::string& name) {
  const auto found = notes.find(name);
  return found == notes.end() ? "not given" : found->second;
}

/// What differs of two runs, "--topics was 50 when DIR/ckpt-20 was written, now 100".
class Differences {
 public:
  explicit Differences(const std::string& path) : path_(path) {}
  void compare(std::string_view what, std::string_view was, std::string_view now) {
    if (was == now) return;
    found_.push_back(found_.empty()
                         ? fmt::format("{} was {} when {} was written, now {}", what, was, path_, now)
                         : fmt::format("{} was {}, now {}", what, was, now));
  }
  [[nodiscard]] absl::Status status() const {
    if (found_.empty()) return absl::OkStatus();
    return absl::InvalidArgumentError(
        fmt::format("{}; a run goes on with the same", absl::StrJoin(found_, "; ")));
  }

 private:
  const std::string& path_;
  std::vector<std::string> found_;
};

/// Whether the note is of an option that may have another value.
bool may_differ(const std::string& note, const Application& application) {
  if (!note.starts_with("--") || note.find(':') != std::string::npos) return false;
  if (application.may_change_on_resume(std::string_view(note).substr(2))) return true;
  const Files files = application.files();
  return std::any_of(files.outputs.begin(), files.outputs.end(),
                     [&](const NamedFile& output) { return output.option == note; });
}

absl::Status check_iteration(const CheckpointSummary& checkpoint, const Application& application) {
  const absl::StatusOr<std::int64_t> iteration = iteration_of(checkpoint);
  if (!iteration.ok()) return iteration.status();
  if (*iteration <= application.iterations()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("{} is after iteration {}: expected at least so many, found {}", checkpoint.path,
                  *iteration, application.iterations()));
}

}  // namespace

absl::StatusOr<std::int64_t> iteration_of(const CheckpointSummary& checkpoint) {
  const auto note = checkpoint.notes.find(kIterationNote);
  const std::optional<std::int64_t> iteration =
      note == checkpoint.notes.end() ? std::nullopt : base::parse_decimal<std::int64_t>(note->second);
  if (iteration) return *iteration;
  return absl::InvalidArgumentError(
      fmt::format("{}: `verbena run` has not written it, so it cannot go on from it", checkpoint.path));
}

absl::StatusOr<Notes> resume_notes(const Application& application, const ApplicationOptions& options,
                                   const JobOptions& job) {
  Notes notes = {{kApplicationNote, std::string(application.name())},
                 {kConsistencyNote, to_string(*parse_consistency(job.consistency))}};
  for (auto& [name, value] : options.values()) notes[dashed(name)] = value;
  const Files files = application.files();
  for (const NamedFile& output : files.outputs) notes.erase(output.option);
  std::map<std::string, std::size_t> count;
  std::map<std::string, absl::Status> missing;
  for (const NamedFile& input : files.inputs) {
    absl::StatusOr<std::string> bytes = fingerprint(input.path);
    if (absl::IsNotFound(bytes.status())) {
      missing.emplace(input.option, bytes.status());
      continue;
    }
    if (!bytes.ok()) return bytes.status();
    notes[file_note(input.option, ++count[input.option])] = *std::move(bytes);
  }
  // An application names all files that it would read if they were there. None is too few.
  for (const auto& [option, status] : missing) {
    if (!count.contains(option)) return status;
  }
  // The names of what is read do not matter.
  for (const auto& [option, files_of_it] : count) {
    notes[option] = files_of_it == 1 ? std::string("a file") : fmt::format("{} files", files_of_it);
  }
  return notes;
}

absl::Status check_resume(const CheckpointSummary& checkpoint, Application& application,
                          const ApplicationOptions& options, const JobOptions& job) {
  const auto was_application = checkpoint.notes.find(kApplicationNote);
  const bool is_same =
      was_application != checkpoint.notes.end() && was_application->second == application.name();
  if (is_same) RETURN_IF_ERROR(application.goes_on_from(checkpoint.notes));
  const absl::StatusOr<Notes> own = resume_notes(application, options, job);
  if (!own.ok()) return own.status();
  RETURN_IF_ERROR(check_iteration(checkpoint, application));
  Differences differences(checkpoint.path);
  if (!is_same) {
    // Its options have nothing to do with this one's.
    differences.compare("the application", shown(checkpoint.notes, kApplicationNote), application.name());
    return differences.status();
  }
  differences.compare("the number of workers", std::to_string(checkpoint.workers),
                      std::to_string(job.total_workers()));
  differences.compare("--consistency", shown(checkpoint.notes, kConsistencyNote),
                      shown(*own, kConsistencyNote));
  std::set<std::string> names;
  for (const Notes* notes : {&checkpoint.notes, &*own}) {
    for (const auto& [name, value] : *notes) names.insert(name);
  }
  for (const std::string& name : names) {
    if (!name.starts_with("--") || may_differ(name, application)) continue;
    differences.compare(name, shown(checkpoint.notes, name), shown(*own, name));
  }
  return differences.status();
}

absl::StatusOr<std::string> decide_resume(JobOptions& job, Application& application,
                                          const ApplicationOptions& options) {
  CheckpointSettings& checkpoints = job.checkpoints;
  if (!checkpoints.resume && checkpoints.resume_from.empty()) return std::string();
  std::vector<std::string> damaged;
  const absl::StatusOr<CheckpointSummary> found = checkpoints.resume
                                                      ? newest_checkpoint(checkpoints.folder, &damaged)
                                                      : read_checkpoint(checkpoints.resume_from);
  if (checkpoints.resume && absl::IsNotFound(found.status())) {
    return fmt::format("verbena: there is no checkpoint in {} yet: the run begins at its beginning\n",
                       base::printable(checkpoints.folder));
  }
  for (const std::string& line : damaged) spdlog::warn("--resume: {}", line);
  if (!found.ok()) return found.status();
  RETURN_IF_ERROR(check_resume(*found, application, options, job));
  checkpoints.resume_from = found->path;
  return fmt::format("verbena: goes on from {}, after iteration {}\n", base::printable(found->path),
                     base::printable(found->notes.at(kIterationNote)));
}

absl::Status follow_resume(const JobOptions& job, Application& application) {
  if (job.checkpoints.resume_from.empty()) return absl::OkStatus();
  const absl::StatusOr<CheckpointSummary> found = read_checkpoint(job.checkpoints.resume_from);
  return found.ok() ? application.goes_on_from(found->notes) : found.status();
}

}  // namespace verbena::apps
