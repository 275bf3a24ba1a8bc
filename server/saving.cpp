#include "server/saving.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <utility>

#include "base/return_if_error.hpp"
#include "checkpoint/part_description.hpp"

namespace verbena::server {

namespace {

/// How much is written before the writer looks whether it is still wanted.
constexpr std::uint64_t kSavedBytesAtOnce = std::uint64_t{16} << 20;
constexpr std::string_view kCounts = "admission/";

}  // namespace

// ---- the cut

SavedRows& Cut::Place::table(std::uint32_t number) {
  if (tables.size() <= number) {
    tables.resize(number + 1);
    are_used.resize(number + 1);
  }
  are_used[number] = true;
  return tables[number];
}

void Cut::begin(consistency::Clock clock) {
  clock_ = clock;
  const auto reset = [](Place& place) {
    std::fill(place.are_used.begin(), place.are_used.end(), false);
    place.status = absl::OkStatus();
  };
  std::for_each(lanes_.begin(), lanes_.end(), reset);
  reset(server_);
  left_.store(lanes_.size() + 1, std::memory_order_relaxed);
}

void Cut::lane_is_done(std::uint32_t lane, absl::Status status) {
  place_is_done(lanes_[lane], std::move(status));
}

void Cut::server_is_done(absl::Status status) {
  place_is_done(server_, std::move(status));
}

void Cut::place_is_done(Place& place, absl::Status status) {
  place.status = std::move(status);
  // Release, and acquire for the others' places: who sees 0 sees all copies.
  left_.fetch_sub(1, std::memory_order_acq_rel);
}

std::string counts_name(std::uint32_t table, checkpoint::NumberRange parts) {
  return fmt::format("{}{}/{}-{}", kCounts, table, parts.first, parts.end);
}

std::optional<std::uint32_t> table_of_counts(std::string_view name) {
  if (!name.starts_with(kCounts)) return std::nullopt;
  name.remove_prefix(kCounts.size());
  std::uint32_t table = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), table);
  if (error != std::errc() || end == name.data() + name.size() || *end != '/') return std::nullopt;
  return table;
}

// ---- the files

Saving::Saving(std::uint32_t server, std::uint32_t lanes, std::function<void()> wake)
    : server_(server), wake_(std::move(wake)), cut_(std::make_shared<Cut>(lanes)) {}

Saving::~Saving() {
  gives_up_.store(true, std::memory_order_relaxed);
}

absl::Status Saving::begin(const protocol::SaveRows& save) {
  if (save.since != 0 && save.since != last_written_) {
    return absl::FailedPreconditionError(
        fmt::format("expected an increment of the checkpoint of clock {}, found one of clock {}",
                    last_written_, save.since));
  }
  const bool is_expected = std::exchange(is_under_way_, true);
  save_ = save;
  last_written_ = 0;
  if (!is_expected) cut_->begin(save.clock);
  return absl::OkStatus();
}

std::optional<protocol::PartSaved> Saving::step() {
  if (!is_under_way() || !cut_->is_taken()) return std::nullopt;
  if (!writing_.is_under_way()) writing_.begin([this] { return write(); }, wake_);
  if (!writing_.has_ended()) return std::nullopt;
  const absl::Status status = writing_.take();
  if (status.ok() && save_.is_base) last_written_ = save_.clock;
  writer_.reset();
  is_under_way_ = false;
  return protocol::PartSaved{.clock = cut_->clock(),
                             .stage = protocol::PartSaved::Stage::kWritten,
                             .is_worker = false,
                             .rank = server_,
                             .code = static_cast<std::uint32_t>(status.code()),
                             .reason = std::string(status.message())};
}

absl::Status Saving::write() {
  auto writer = checkpoint::PartWriter::create(checkpoint::host_file_system(), save_.folder,
                                               static_cast<std::uint64_t>(save_.clock),
                                               {.name = fmt::format("server-{}", server_)});
  if (!writer.ok()) return writer.status();
  writer_ = std::make_unique<checkpoint::PartWriter>(*std::move(writer));
  RETURN_IF_ERROR(
      cut_->for_each([&](std::uint32_t table, SavedRows& saved) { return write_table(table, saved); }));
  const absl::StatusOr<checkpoint::Part> part = writer_->finish();
  if (!part.ok()) return part.status();
  return checkpoint::describe_part(checkpoint::host_file_system(), save_.folder, *part);
}

absl::Status Saving::write_table(std::uint32_t table, SavedRows& saved) {
  if (save_.since != 0) {
    const Fingerprints::Changes changes = saved.fingerprints.update(saved);
    RETURN_IF_ERROR(write_rows(table, saved, changes.rows));
    // Rows of a dynamic table are not gone: they have moved, and are saved where they are now.
    if (saved.has_removed && !changes.removed.empty())
      RETURN_IF_ERROR(writer_->add_removed_rows(table, saved.numbers, changes.removed));
  } else {
    if (save_.is_base)
      saved.fingerprints.remember(saved);
    else
      saved.fingerprints.clear();
    RETURN_IF_ERROR(write_all(table, saved));
  }
  if (saved.counts.empty()) return absl::OkStatus();
  return writer_->add_blob(counts_name(table, saved.numbers), saved.counts);
}

std::uint64_t Saving::rows_at_once(const SavedRows& saved) const {
  return std::max<std::uint64_t>(kSavedBytesAtOnce / std::max<std::size_t>(saved.row_bytes(), 1), 1);
}

absl::Status Saving::write_all(std::uint32_t table, const SavedRows& saved) {
  const std::uint64_t at_once = rows_at_once(saved);
  for (std::uint64_t first = 0; first < saved.rows; first += at_once) {
    if (gives_up_.load(std::memory_order_relaxed)) return absl::CancelledError("the server ends");
    const std::vector<checkpoint::Column> columns =
        saved.columns(first, std::min(at_once, saved.rows - first));
    RETURN_IF_ERROR(saved.are_scattered ? writer_->add_scattered_rows(table, saved.numbers, columns)
                                        : writer_->add_rows(table, saved.numbers.first + first, columns));
  }
  return absl::OkStatus();
}

/// `rows`: their places in the copy, ascending.
absl::Status Saving::write_rows(std::uint32_t table, const SavedRows& saved,
                                std::span<const std::uint64_t> rows) {
  // Rows in order need no keys beside them, if there are nearly all.
  const std::size_t key_bytes = saved.are_scattered ? 0 : sizeof(Key);
  if (rows.size() * (saved.row_bytes() + key_bytes) >= saved.rows * saved.row_bytes())
    return write_all(table, saved);
  const std::vector<checkpoint::Column> all = saved.columns(0, saved.rows);
  std::vector<Key> keys;
  std::vector<std::vector<std::byte>> gathered(all.size());
  const std::uint64_t at_once = rows_at_once(saved);
  for (; !rows.empty(); rows = rows.subspan(std::min<std::size_t>(at_once, rows.size()))) {
    if (gives_up_.load(std::memory_order_relaxed)) return absl::CancelledError("the server ends");
    const std::span<const std::uint64_t> some = rows.first(std::min<std::size_t>(at_once, rows.size()));
    std::vector<checkpoint::Column> columns;
    checkpoint::NumberRange numbers = saved.numbers;
    if (!saved.are_scattered) {
      keys.resize(some.size());
      std::ranges::transform(some, keys.begin(),
                             [&](std::uint64_t row) { return saved.numbers.first + row; });
      columns.push_back({std::as_bytes(std::span(keys)), sizeof(Key)});
      numbers = {keys.front(), keys.back() + 1};
    }
    for (std::size_t i = 0; i < all.size(); ++i) {
      const std::size_t bytes = all[i].row_bytes;
      gathered[i].resize(some.size() * bytes);
      for (std::size_t to = 0; to < some.size(); ++to)
        std::memcpy(gathered[i].data() + to * bytes, all[i].bytes.data() + some[to] * bytes, bytes);
      columns.push_back({gathered[i], all[i].row_bytes});
    }
    RETURN_IF_ERROR(writer_->add_scattered_rows(table, numbers, columns));
  }
  return absl::OkStatus();
}

}  // namespace verbena::server
