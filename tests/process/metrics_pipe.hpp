// How far a run is that writes its metrics into a pipe.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

#include "base/file_descriptor.hpp"

namespace verbena::process_test {

/// What a process writes into its metrics, as it does so.
class MetricsPipe {
 public:
  explicit MetricsPipe(const std::string& path) {
    EXPECT_EQ(::mkfifo(path.c_str(), 0600), 0);
    pipe_ = base::FileDescriptor(::open(path.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC));
    EXPECT_GT(::fcntl(pipe_.get(), F_SETPIPE_SZ, 1 << 20), 0) << "all that it writes must fit";
  }
  /// How many have been finished by all workers.
  [[nodiscard]] std::size_t iterations() {
    std::array<char, 4096> bytes{};
    for (;;) {
      const ssize_t got = ::read(pipe_.get(), bytes.data(), bytes.size());
      if (got <= 0) break;
      text_.append(bytes.data(), static_cast<std::size_t>(got));
    }
    constexpr std::string_view kWords = "\"kind\":\"iteration\"";
    std::size_t count = 0;
    for (std::size_t at = text_.find(kWords); at != std::string::npos; at = text_.find(kWords, at + 1))
      ++count;
    return count;
  }

 private:
  base::FileDescriptor pipe_;
  std::string text_;
};

}  // namespace verbena::process_test
