// A number in memory that a process shares with those that it starts.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

#include "absl/status/statusor.h"
#include "base/file_descriptor.hpp"

namespace verbena::job {

/// Memory without a name: it goes when the last process that maps it does.
class SharedWord {
 public:
  /// 0. RESOURCE_EXHAUSTED and the like.
  static absl::StatusOr<SharedWord> make();
  /// The one that another process has made; takes ownership of the descriptor. INVALID_ARGUMENT: it is none.
  static absl::StatusOr<SharedWord> map(int descriptor);
  SharedWord(SharedWord&& other) noexcept;
  SharedWord& operator=(SharedWord&&) = delete;
  ~SharedWord();

  [[nodiscard]] std::atomic<std::uint64_t>& word() const { return *word_; }
  /// For a process that is started, which inherits it.
  [[nodiscard]] int descriptor() const { return descriptor_.get(); }

 private:
  SharedWord(base::FileDescriptor descriptor, std::atomic<std::uint64_t>* word)
      : descriptor_(std::move(descriptor)), word_(word) {}
  static absl::StatusOr<SharedWord> map(base::FileDescriptor descriptor);

  base::FileDescriptor descriptor_;
  std::atomic<std::uint64_t>* word_ = nullptr;
};

}  // namespace verbena::job
