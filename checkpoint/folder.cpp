#include "checkpoint/folder.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "base/printable.hpp"
#include "base/return_if_error.hpp"
#include "checkpoint/folder_names.hpp"
#include "checkpoint/layers.hpp"
#include "checkpoint/manifest_json.hpp"
#include "checkpoint/part_description.hpp"
#include "checkpoint/verify.hpp"

namespace verbena::checkpoint {
namespace {

constexpr std::string_view kNewManifestName = "manifest.json.tmp";

bool is_manifest_name(std::string_view name) {
  return name == kManifestName || name == kNewManifestName;
}

/// How our files of this name begin; nullopt: none has such a name.
std::optional<std::string_view> begin_of_files_named(std::string_view name) {
  if (is_manifest_name(name)) return "";
  if (is_part_description_name(name)) return kPartTextBegin;
  if (is_data_file_name(name)) return std::string_view(kFileMagic.data(), kFileMagic.size());
  return std::nullopt;
}

/// Whether the file begins so, as far as its writer has come: after a crash what it had not brought to the
/// disk may be missing, or be zeros.
absl::StatusOr<bool> may_begin_with(FileSystem& files, const std::string& path, std::string_view begin) {
  const auto file = files.open(path);
  if (!file.ok()) return file.status();
  std::string found(std::min<std::uint64_t>(begin.size(), (*file)->bytes()), '\0');
  RETURN_IF_ERROR((*file)->read(0, std::as_writable_bytes(std::span(found))));
  const auto unwritten = std::ranges::mismatch(found, begin).in1;
  return std::all_of(unwritten, found.end(), [](char c) { return c == '\0'; });
}

std::string now_in_utc() {
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)));
}

std::uint64_t bytes_of_files(const Manifest& manifest) {
  std::uint64_t bytes = 0;
  for (const Part& part : manifest.parts) {
    for (const DataFile& file : part.files) bytes += file.bytes;
  }
  return bytes;
}

}  // namespace

std::uint64_t Folder::clock_of(const Damaged& damaged) {
  return parse_checkpoint_name(damaged.name)->clock;
}

bool is_checkpoint_name(std::string_view name) {
  return parse_checkpoint_name(name).has_value();
}

Folder::Folder(FileSystem& files, std::string path) : files_(files), path_(std::move(path)) {
  while (path_.size() > 1 && path_.ends_with('/')) path_.pop_back();
}

std::string Folder::path_of(std::uint64_t clock, std::string_view ending) const {
  return fmt::format("{}/{}", path_, checkpoint_name(clock, ending));
}

std::string Folder::unfinished_path(std::uint64_t clock) const {
  return path_of(clock, kTmp);
}

/// FAILED_PRECONDITION: there is something, but no folder; a link, say, to where others have theirs.
absl::StatusOr<bool> Folder::exists(std::uint64_t clock, std::string_view ending) const {
  const auto entries = files_.list(path_);
  if (absl::IsNotFound(entries.status())) return false;
  if (!entries.ok()) return entries.status();
  const auto found = std::ranges::find(*entries, checkpoint_name(clock, ending), &FolderEntry::name);
  if (found == entries->end()) return false;
  if (found->kind == FolderEntry::Kind::kFolder) return true;
  return absl::FailedPreconditionError(
      fmt::format("{}: expected a folder, found something else; move it away", path_of(clock, ending)));
}

absl::StatusOr<std::string> Folder::begin(std::uint64_t clock) {
  RETURN_IF_ERROR(make_folders(path_));
  RETURN_IF_ERROR(discard(clock));
  std::string path = path_of(clock, kTmp);
  RETURN_IF_ERROR(files_.make_folder(path));
  return path;
}

/// A folder is made in one whose own name is on the disk already. So whatever is in a folder that was made
/// here, what is above that is on the disk.
absl::Status Folder::make_folders(const std::string& path) {
  const std::string above = folder_above(path);
  if (!absl::IsNotFound(files_.list(path).status())) {
    // An earlier process may have made it and died before it was on the disk. Who may not look above it has
    // not made it, nor has anybody where names are not on a disk (INVALID_ARGUMENT): those of automatic
    // mounts.
    const absl::Status synced = files_.sync_folder(above);
    return absl::IsPermissionDenied(synced) || absl::IsInvalidArgument(synced) ? absl::OkStatus() : synced;
  }
  if (above != path) RETURN_IF_ERROR(make_folders(above));
  if (const absl::Status made = files_.make_folder(path); !made.ok() && !absl::IsAlreadyExists(made))
    return made;
  return files_.sync_folder(above);
}

absl::Status Folder::commit(Manifest manifest, std::span<const std::string> parts) {
  manifest.parts.clear();
  for (const std::string& name : parts) {
    absl::StatusOr<Part> part = read_part_description(files_, path_of(manifest.clock, kTmp), name);
    if (absl::IsNotFound(part.status()) || absl::IsInvalidArgument(part.status()))
      return absl::FailedPreconditionError(part.status().message());
    if (!part.ok()) return part.status();
    manifest.parts.push_back(*std::move(part));
  }
  return commit(std::move(manifest));
}

absl::Status Folder::commit(Manifest manifest) {
  manifest.written = now_in_utc();
  const absl::StatusOr<std::string> text = encode(manifest);
  if (!text.ok()) return text.status();
  // What cannot be read again must not be found out when it is needed.
  if (const auto again = decode_manifest(*text); !again.ok()) return again.status();

  const std::string tmp = path_of(manifest.clock, kTmp);
  RETURN_IF_ERROR(check_files(tmp, manifest));
  RETURN_IF_ERROR(remove_descriptions(tmp));  // write_manifest() brings that to the disk
  RETURN_IF_ERROR(write_manifest(tmp, *text));
  // An increment whose base has gone would be of no use, and may be about to replace one that is.
  std::vector<Layer> layers;
  if (const absl::Status read = read_layers(files_, tmp, layers); !read.ok())
    return absl::FailedPreconditionError(read.message());
  RETURN_IF_ERROR(make_way(manifest.clock));
  RETURN_IF_ERROR(files_.rename(tmp, path_of(manifest.clock, kWhole)));
  RETURN_IF_ERROR(files_.sync_folder(path_));
  // The checkpoint is there, whatever becomes of the old one: keep() tries again to remove that.
  remove(manifest.clock, kOld).IgnoreError();
  return absl::OkStatus();
}

/// The files are those that the manifest names, no more and no fewer, but for descriptions of its parts.
absl::Status Folder::check_files(const std::string& path, const Manifest& manifest) const {
  const auto entries = files_.list(path);
  if (!entries.ok()) return entries.status();
  std::map<std::string, std::uint64_t> expected;
  std::set<std::string> descriptions;
  for (const Part& part : manifest.parts) {
    descriptions.insert(part_description_name(part.name));
    for (const DataFile& file : part.files) expected.emplace(file.name, file.bytes);
  }
  for (const FolderEntry& entry : *entries) {
    if (!is_manifest_name(entry.name) && !expected.contains(entry.name) &&
        !descriptions.contains(entry.name)) {
      return absl::FailedPreconditionError(
          fmt::format("{}/{}: a file that the manifest does not name", path, base::printable(entry.name)));
    }
  }
  for (const auto& [name, bytes] : expected) {
    const auto file = files_.open(fmt::format("{}/{}", path, name));
    if (absl::IsNotFound(file.status())) {
      return absl::FailedPreconditionError(
          fmt::format("{}/{}: the manifest names it, but it is not there", path, name));
    }
    if (!file.ok()) return file.status();
    if ((*file)->bytes() != bytes) {
      return absl::FailedPreconditionError(
          fmt::format("{}/{}: expected {} bytes, found {}", path, name, bytes, (*file)->bytes()));
    }
  }
  return absl::OkStatus();
}

absl::Status Folder::remove_descriptions(const std::string& path) {
  const auto entries = files_.list(path);
  if (!entries.ok()) return entries.status();
  for (const FolderEntry& entry : *entries) {
    if (is_part_description_name(entry.name))
      RETURN_IF_ERROR(files_.remove_file(fmt::format("{}/{}", path, entry.name)));
  }
  return absl::OkStatus();
}

/// Brings it to the disk, with its name and those of the data files.
absl::Status Folder::write_manifest(const std::string& path, const std::string& text) {
  const std::string tmp = fmt::format("{}/{}", path, kNewManifestName);
  // Of a commit() that has failed.
  if (const absl::Status removed = files_.remove_file(tmp); !removed.ok() && !absl::IsNotFound(removed))
    return removed;
  RETURN_IF_ERROR(write_synced(files_, tmp, text));
  RETURN_IF_ERROR(files_.rename(tmp, fmt::format("{}/{}", path, kManifestName)));
  return files_.sync_folder(path);
}

/// No ckpt-CLOCK is there any more; if a checkpoint of this clock counted, it still does, as ckpt-CLOCK.old.
absl::Status Folder::make_way(std::uint64_t clock) {
  const absl::StatusOr<bool> is_there = exists(clock, kWhole);
  if (!is_there.ok() || !*is_there) return is_there.status();
  RETURN_IF_ERROR(check_own(path_of(clock, kWhole)));
  const absl::StatusOr<bool> is_old_there = exists(clock, kOld);
  if (!is_old_there.ok()) return is_old_there.status();
  if (*is_old_there) {
    // Of a commit() that was cut off: one of the two is enough.
    const bool is_complete = Reader::open(files_, path_of(clock, kWhole)).ok();
    RETURN_IF_ERROR(remove(clock, is_complete ? kOld : kWhole));
    if (!is_complete) return absl::OkStatus();
  }
  RETURN_IF_ERROR(files_.rename(path_of(clock, kWhole), path_of(clock, kOld)));
  return files_.sync_folder(path_);
}

absl::Status Folder::discard(std::uint64_t clock) {
  return remove(clock, kTmp);
}

/// Every file in it is of a checkpoint, by its name and how it begins.
absl::Status Folder::check_own(const std::string& path) const {
  const auto entries = files_.list(path);
  if (!entries.ok()) return entries.status();
  for (const FolderEntry& entry : *entries) {
    const std::string file = fmt::format("{}/{}", path, entry.name);
    const std::optional<std::string_view> begin =
        entry.kind == FolderEntry::Kind::kFile ? begin_of_files_named(entry.name) : std::nullopt;
    const absl::StatusOr<bool> is_own = begin ? may_begin_with(files_, file, *begin) : false;
    if (!is_own.ok()) return is_own.status();
    if (!*is_own) {
      return absl::FailedPreconditionError(
          fmt::format("{}: it is no file of a checkpoint, so {} is not removed; move it away",
                      base::printable(file), path));
    }
  }
  return absl::OkStatus();
}

/// Does nothing if it is not there. What counts until now loses its name first: half of it must never be
/// taken for a checkpoint.
absl::Status Folder::remove(std::uint64_t clock, std::string_view ending) {
  const absl::StatusOr<bool> is_there = exists(clock, ending);
  if (!is_there.ok() || !*is_there) return is_there.status();
  std::string path = path_of(clock, ending);
  RETURN_IF_ERROR(check_own(path));
  if (ending == kWhole || ending == kOld) {
    RETURN_IF_ERROR(remove(clock, kGone));
    const std::string gone = path_of(clock, kGone);
    RETURN_IF_ERROR(files_.rename(path, gone));
    RETURN_IF_ERROR(files_.sync_folder(path_));
    path = gone;
  }
  return remove_files(path);
}

absl::Status Folder::remove_files(const std::string& path) {
  const auto entries = files_.list(path);
  if (!entries.ok()) return entries.status();
  for (const FolderEntry& entry : *entries)
    RETURN_IF_ERROR(files_.remove_file(fmt::format("{}/{}", path, entry.name)));
  RETURN_IF_ERROR(files_.remove_folder(path));
  return files_.sync_folder(path_);
}

absl::StatusOr<Folder::Listing> Folder::list() const {
  const auto entries = files_.list(path_);
  if (!entries.ok()) return entries.status();
  std::vector<CheckpointName> names;
  for (const FolderEntry& entry : *entries) {
    if (const auto name = parse_checkpoint_name(entry.name)) names.push_back(*name);
  }
  // The newest first, and ckpt-20 before ckpt-20.old.
  std::ranges::sort(names, [](const CheckpointName& a, const CheckpointName& b) {
    return a.clock != b.clock ? a.clock > b.clock : a.ending < b.ending;
  });
  Listing listing;
  for (const CheckpointName& name : names) {
    const std::uint64_t clock = name.clock;
    const std::string_view ending = name.ending;
    const bool is_counted = !listing.complete.empty() && listing.complete.back().clock == clock;
    if ((ending != kWhole && ending != kOld) || is_counted) {
      listing.unfinished.push_back(checkpoint_name(clock, ending));
      continue;
    }
    const auto damaged = [&](std::string reason) {
      listing.damaged.push_back({.name = checkpoint_name(clock, ending), .reason = std::move(reason)});
    };
    const absl::StatusOr<Reader> reader = Reader::open(files_, path_of(clock, ending));
    if (!reader.ok()) {
      // A run that goes on may have removed it meanwhile.
      if (const absl::StatusOr<bool> is_there = exists(clock, ending); is_there.ok() && !*is_there) continue;
      damaged(std::string(reader.status().message()));
    } else if (reader->manifest().clock != clock) {
      damaged(
          fmt::format("{}: expected clock {}, found {}", reader->path(), clock, reader->manifest().clock));
    } else {
      listing.complete.push_back({.clock = clock,
                                  .run = reader->manifest().run,
                                  .name = checkpoint_name(clock, ending),
                                  .path = reader->path(),
                                  .written = reader->manifest().written,
                                  .bytes = bytes_of_files(reader->manifest()),
                                  .since = reader->manifest().since});
    }
  }
  listing.drop_what_lost_its_base(path_);
  return listing;
}

/// Readers open increments first. What these build upon may be removed, or fail to be read, before its turn.
void Folder::Listing::drop_what_lost_its_base(const std::string& path) {
  for (std::size_t i = complete.size(); i-- > 0;) {
    const Complete& one = complete[i];
    if (!one.since || base_of(one) != nullptr) continue;
    damaged.push_back(
        {.name = one.name,
         .reason = fmt::format("{}/{} holds only what has changed since {}, which cannot be read", path,
                               one.name, checkpoint_name(*one.since, kWhole))});
    complete.erase(complete.begin() + static_cast<std::ptrdiff_t>(i));
  }
  std::ranges::stable_sort(damaged, std::ranges::greater(), clock_of);
}

const Folder::Complete* Folder::Listing::base_of(const Complete& one) const {
  if (!one.since) return nullptr;
  const auto base = std::ranges::find(complete, *one.since, &Complete::clock);
  return base == complete.end() ? nullptr : &*base;
}

/// To read them takes long, and a run that goes on removes old ones meanwhile, when newer ones are there.
absl::StatusOr<Folder::Newest> Folder::newest_valid(
    const std::function<bool(const Complete&)>& counts) const {
  constexpr int kTries = 3;
  bool has_lost_one = false;
  absl::StatusOr<Newest> newest = find_newest_valid(counts, has_lost_one);
  for (int tries = 1; tries < kTries && !newest.ok() && has_lost_one; ++tries) {
    has_lost_one = false;
    newest = find_newest_valid(counts, has_lost_one);
  }
  return newest;
}

/// `has_lost_one`: set if one was removed while it was read.
absl::StatusOr<Folder::Newest> Folder::find_newest_valid(const std::function<bool(const Complete&)>& counts,
                                                         bool& has_lost_one) const {
  absl::StatusOr<Listing> listing = list();
  if (!listing.ok()) return listing.status();
  std::vector<Damaged> passed_over;
  auto damaged = listing->damaged.begin();
  // By clock, of those that were read: several increments may build upon the same ones.
  std::map<std::uint64_t, std::string> faults;
  const auto fault_of = [&](const Complete& one) -> const std::string& {
    const auto [known, is_new] = faults.try_emplace(one.clock);
    for (const Damage& damage : is_new ? verify_alone(files_, one.path) : std::vector<Damage>())
      known->second += (known->second.empty() ? "" : "; ") + to_string(damage);
    return known->second;
  };
  for (const Complete& complete : listing->complete) {
    for (; damaged != listing->damaged.end() && clock_of(*damaged) >= complete.clock; ++damaged)
      passed_over.push_back(*damaged);
    if (counts && !counts(complete)) continue;
    std::string reasons;
    for (const Complete* at = &complete; at != nullptr && reasons.empty(); at = listing->base_of(*at))
      reasons = fault_of(*at);
    if (reasons.empty()) {
      absl::StatusOr<Reader> reader = Reader::open(files_, complete.path);
      has_lost_one |= absl::IsNotFound(reader.status());
      if (!reader.ok()) return reader.status();
      return Newest{.reader = *std::move(reader), .passed_over = std::move(passed_over)};
    }
    if (absl::IsNotFound(files_.list(complete.path).status())) {
      has_lost_one = true;
      continue;
    }
    passed_over.push_back({.name = complete.name, .reason = std::move(reasons)});
  }
  passed_over.insert(passed_over.end(), damaged, listing->damaged.end());
  if (passed_over.empty()) return absl::NotFoundError(fmt::format("{}: there is no checkpoint", path_));
  std::string message = fmt::format("{}: no checkpoint there is whole", path_);
  for (const Damaged& one : passed_over) message += fmt::format("; {} is damaged: {}", one.name, one.reason);
  return absl::DataLossError(message);
}

absl::Status Folder::keep(std::uint64_t most, std::uint64_t newest,
                          const std::function<bool(const Complete&)>& stays) {
  const absl::StatusOr<Listing> listing = list();
  if (!listing.ok()) return listing.status();
  if (most == 0) return absl::InvalidArgumentError("expected to keep at least one checkpoint, found 0");
  const auto first = std::ranges::find_if(listing->complete,
                                          [&](const Complete& complete) { return complete.clock <= newest; });
  if (first == listing->complete.end()) return absl::OkStatus();
  absl::Status first_error;
  const auto remove_name = [&](std::string_view name) {
    const CheckpointName parsed = *parse_checkpoint_name(name);
    if (parsed.clock > first->clock) return true;
    const absl::Status removed = remove(parsed.clock, parsed.ending);
    first_error.Update(removed);
    return removed.ok();
  };
  std::set<std::uint64_t> needed;
  std::uint64_t counted = 0;
  for (const Complete& complete : listing->complete) {
    const bool is_later = complete.clock > first->clock;
    if (!is_later) ++counted;
    const bool is_kept = is_later || counted <= most || needed.contains(complete.clock) ||
                         (stays && stays(complete)) || !remove_name(complete.name);
    // Bases are older, so that they come later.
    if (is_kept && complete.since) needed.insert(*complete.since);
  }
  for (const std::string& name : listing->unfinished) remove_name(name);
  return first_error;
}

}  // namespace verbena::checkpoint
