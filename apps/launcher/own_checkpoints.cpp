#include "apps/launcher/own_checkpoints.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "apps/launcher/resume_notes.hpp"
#include "base/printable.hpp"
#include "checkpoint/folder.hpp"
#include <verbena/session.hpp>

namespace verbena::apps {
namespace {

absl::StatusOr<Beginning> after(const std::string& path) {
  const absl::StatusOr<CheckpointSummary> found = read_checkpoint(path);
  if (!found.ok()) return found.status();
  const absl::StatusOr<std::int64_t> iteration = iteration_of(*found);
  if (!iteration.ok()) return iteration.status();
  return Beginning{.checkpoint = path, .after_iteration = *iteration};
}

}  // namespace

std::string words_of_unsaved_stop(const std::string& folder, const absl::Status& why) {
  const auto listing = checkpoint::Folder(checkpoint::host_file_system(), folder).list();
  const bool has_any = listing.ok() && !listing->complete.empty();
  return fmt::format("there is no checkpoint of this stop{}; {}",
                     why.ok() ? "" : fmt::format(" ({})", std::string(base::printable(why).message())),
                     has_any ? fmt::format("the newest one is {}: --resume goes on from there",
                                           listing->complete.front().path)
                             : fmt::format("nor is there another one in {}", folder));
}

absl::StatusOr<OwnCheckpoints> OwnCheckpoints::begin(const CheckpointSettings& settings) {
  OwnCheckpoints own(settings);
  const auto listing = checkpoint::Folder(checkpoint::host_file_system(), settings.folder).list();
  if (absl::IsNotFound(listing.status())) return own;  // the first checkpoint makes the folder
  if (!listing.ok()) return listing.status();
  for (const checkpoint::Folder::Complete& one : listing->complete) own.others_.emplace(one.clock, one.run);
  return own;
}

absl::StatusOr<Beginning> OwnCheckpoints::newest() const {
  const auto is_own = [&](const checkpoint::Folder::Complete& one) {
    return !others_.contains({one.clock, one.run});
  };
  const auto found = checkpoint::Folder(checkpoint::host_file_system(), folder_).newest_valid(is_own);
  if (found.ok()) {
    for (const checkpoint::Folder::Damaged& one : found->passed_over)
      spdlog::warn("{}: {}", one.name, one.reason);
    return after(found->reader.path());
  }
  if (absl::IsDataLoss(found.status())) {
    spdlog::warn("{}", std::string(found.status().message()));
  } else if (!absl::IsNotFound(found.status())) {
    return found.status();
  }
  if (begun_from_.empty()) return Beginning{};
  return after(begun_from_);
}

}  // namespace verbena::apps
