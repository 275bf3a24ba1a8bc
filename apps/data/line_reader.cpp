#include "apps/data/line_reader.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "base/printable.hpp"

namespace verbena::apps {
namespace {

constexpr std::size_t kLeastBufferBytes = std::size_t{1} << 10;
constexpr std::size_t kMostBufferBytes = std::size_t{1} << 17;  // grows beyond for a longer line
constexpr std::size_t kMaxLineBytes = std::size_t{1} << 28;
constexpr std::size_t kShownBytes = 60;
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

/// A small file gets a small buffer: making a large one would take longer than reading the file.
std::size_t buffer_bytes(double file_bytes) {
  return static_cast<std::size_t>(std::clamp<double>(file_bytes + 1, kLeastBufferBytes, kMostBufferBytes));
}

}  // namespace

LineReader::LineReader(std::string path, std::unique_ptr<gzFile_s, Close> file, double total_bytes,
                       ReadProgress progress)
    : path_(std::move(path)),
      file_(std::move(file)),
      total_bytes_(total_bytes),
      progress_(std::move(progress)),
      buffer_(buffer_bytes(total_bytes), '\0') {}

absl::StatusOr<LineReader> LineReader::open(const std::string& path, ReadProgress progress) {
  struct stat facts = {};
  if (stat(path.c_str(), &facts) != 0) {
    const int error = errno;
    const std::string message =
        fmt::format("{}: cannot be read: {}", path, std::generic_category().message(error));
    return error == ENOENT ? absl::NotFoundError(message) : absl::InvalidArgumentError(message);
  }
  if (!S_ISREG(facts.st_mode)) {
    return absl::InvalidArgumentError(
        fmt::format("{}: expected a regular file (it is read by several processes), found {}", path,
                    S_ISDIR(facts.st_mode) ? "a folder" : "something else"));
  }
  errno = 0;
  std::unique_ptr<gzFile_s, Close> file(gzopen(path.c_str(), "rb"));
  if (file == nullptr) {
    return absl::InvalidArgumentError(
        fmt::format("{}: cannot be read: {}", path, std::generic_category().message(errno)));
  }
  const auto file_bytes = static_cast<double>(facts.st_size);
  gzbuffer(file.get(), static_cast<unsigned>(buffer_bytes(file_bytes)));
  return LineReader(path, std::move(file), file_bytes, std::move(progress));
}

absl::StatusOr<bool> LineReader::fill(std::string_view place) {
  if (at_end_) return false;
  std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
  end_ -= begin_;
  begin_ = 0;
  if (end_ == buffer_.size()) buffer_.resize(2 * buffer_.size());
  const int count = gzread(file_.get(), buffer_.data() + end_, static_cast<unsigned>(buffer_.size() - end_));
  int code = Z_OK;
  const char* reason = gzerror(file_.get(), &code);
  if (count < 0 || code == Z_BUF_ERROR) {
    // If a stream ends too early, zlib reports Z_BUF_ERROR after its last whole piece.
    return absl::InvalidArgumentError(
        fmt::format("{}:{}: expected text or whole gzip data, found {}", path_,
                    place.empty() ? fmt::format("{}", line_number_ + 1) : fmt::format(" {}", place),
                    code == Z_ERRNO ? std::generic_category().message(errno) : std::string(reason)));
  }
  if (progress_) {
    progress_(std::min(total_bytes_, static_cast<double>(gzoffset(file_.get()))), total_bytes_);
  }
  at_end_ = count == 0;
  end_ += static_cast<std::size_t>(count);
  return !at_end_;
}

absl::StatusOr<bool> LineReader::next(std::string_view& line) {
  std::size_t searched = 0;
  const void* line_end = nullptr;
  while ((line_end = std::memchr(buffer_.data() + begin_ + searched, '\n', end_ - begin_ - searched)) ==
         nullptr) {
    searched = end_ - begin_;
    if (searched > kMaxLineBytes) {
      return absl::InvalidArgumentError(
          fmt::format("{}:{}: expected lines of at most {} MiB, found a longer one", path_, line_number_ + 1,
                      kMaxLineBytes >> 20));
    }
    const absl::StatusOr<bool> more = fill();
    if (!more.ok()) return more.status();
    if (!*more) break;
  }
  if (line_end == nullptr && begin_ == end_) return false;
  const char* text = buffer_.data() + begin_;
  const std::size_t size = line_end == nullptr
                               ? end_ - begin_
                               : static_cast<std::size_t>(static_cast<const char*>(line_end) - text);
  line = {text, size};
  begin_ += size + (line_end == nullptr ? 0 : 1);
  if (line.ends_with('\r')) line.remove_suffix(1);
  if (++line_number_ == 1 && line.starts_with(kByteOrderMark)) line.remove_prefix(kByteOrderMark.size());
  return true;
}

absl::StatusOr<std::string_view> LineReader::peek(std::size_t count, std::string_view place) {
  while (end_ - begin_ < count) {
    const absl::StatusOr<bool> more = fill(place);
    if (!more.ok()) return more.status();
    if (!*more) break;
  }
  return std::string_view(buffer_).substr(begin_, std::min(count, end_ - begin_));
}

std::string LineReader::printable(std::string_view text) {
  if (text.size() <= kShownBytes) return base::printable(text);
  std::size_t end = kShownBytes;  // of whole letters
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;
  return base::printable(text.substr(0, end)) + "…";
}

absl::Status LineReader::error(std::string_view expected, std::string_view found) const {
  return absl::InvalidArgumentError(fmt::format("{}:{}: expected {}, found \"{}\"", path_,
                                                std::max<std::uint64_t>(line_number_, 1), expected,
                                                printable(found)));
}

}  // namespace verbena::apps
