// Lines of a text file, plain or gzip, one after the other, with their numbers for error messages.
#pragma once

#include <zlib.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "apps/data/corpus.hpp"

namespace verbena::apps {

class LineReader {
 public:
  /// `progress` is called now and then from next(). NOT_FOUND if there is no such file; INVALID_ARGUMENT if
  /// it is no regular file or cannot be opened.
  static absl::StatusOr<LineReader> open(const std::string& path, ReadProgress progress = {});

  /// The next line without its end (LF or CR LF), and without a byte order mark; false after the last one.
  /// `line` is valid until the next call. INVALID_ARGUMENT if the file is damaged or a line is endless.
  absl::StatusOr<bool> next(std::string_view& line);

  /// For files that are no text after some lines: up to `count` of the bytes that follow; fewer only at the
  /// end of the file. They are valid until the next call, and stay until skip() takes them away.
  /// INVALID_ARGUMENT if the file is damaged: "path: PLACE: …", or, without a place, for the next line.
  absl::StatusOr<std::string_view> peek(std::size_t count, std::string_view place = {});
  /// REQUIRES: peek() has shown so many bytes.
  void skip(std::size_t count) { begin_ += count; }

  /// The number of the line that next() returned last, from 1.
  [[nodiscard]] std::uint64_t line_number() const { return line_number_; }

  /// INVALID_ARGUMENT "path:line: expected …, found …", for the line that next() returned last, or 1 if there
  /// is none. `found` is shown in quotes, shortened, and without what a terminal would not print.
  [[nodiscard]] absl::Status error(std::string_view expected, std::string_view found) const;
  /// What error() shows of `text`.
  static std::string printable(std::string_view text);

 private:
  struct Close {
    void operator()(gzFile_s* file) const { gzclose_r(file); }
  };
  LineReader(std::string path, std::unique_ptr<gzFile_s, Close> file, double total_bytes,
             ReadProgress progress);
  /// Reads more bytes after the rest of an unfinished line; false at the end of the file. `place`: as for
  /// peek().
  absl::StatusOr<bool> fill(std::string_view place = {});

  std::string path_;
  std::unique_ptr<gzFile_s, Close> file_;
  double total_bytes_;
  ReadProgress progress_;
  std::string buffer_;
  std::size_t begin_ = 0;  // of what has not been given out
  std::size_t end_ = 0;
  bool at_end_ = false;
  std::uint64_t line_number_ = 0;
};

}  // namespace verbena::apps
