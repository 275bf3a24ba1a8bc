// The secret that the processes of a job share and nobody else knows, and how one process proves to another
// that it has it.
//
// A proof is an HMAC-SHA256, under the secret, of the role of the side that proves (each side of each
// transport has a role of its own) and of the fresh nonces of both sides. It reveals nothing about the
// secret, is good for one meeting, and cannot be sent back to the side that made it. Both sides prove:
// neither grants memory to the other before that. With a role that neither side has, it is a key that both
// know and nobody else.
#pragma once

#include <array>
#include <cstddef>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace verbena::transport {

/// Wiped when it is destroyed. Thread safety: immutable.
class Secret {
 public:
  static constexpr std::size_t kBytes = 32;
  static constexpr std::size_t kFewestFileBytes = 16;
  static constexpr std::size_t kMostFileBytes = 4096;

  explicit Secret(std::span<const std::byte, kBytes> bytes);
  ~Secret();
  Secret(const Secret&) = delete;
  Secret& operator=(const Secret&) = delete;

  static absl::StatusOr<std::shared_ptr<const Secret>> random();
  /// Made from the content of a file, without the white space around it. PERMISSION_DENIED unless the file
  /// belongs to this user and nobody else may read or write it; INVALID_ARGUMENT if the content is too short
  /// to be secret.
  static absl::StatusOr<std::shared_ptr<const Secret>> read_file(const std::string& path);
  /// The secret from the text that to_hex() returned.
  static absl::StatusOr<std::shared_ptr<const Secret>> from_hex(std::string_view text);

  /// For a channel that carries text and that only processes of the job can read. The caller must wipe() the
  /// text.
  [[nodiscard]] std::string to_hex() const;
  [[nodiscard]] std::span<const std::byte, kBytes> bytes() const { return bytes_; }

 private:
  std::array<std::byte, kBytes> bytes_{};
};

/// Overwrites the bytes, in a way that the compiler cannot optimize away.
void wipe(std::span<std::byte> bytes);
void wipe(std::string& text);

using Nonce = std::array<std::byte, 16>;
absl::StatusOr<Nonce> fresh_nonce();

using Proof = std::array<std::byte, 32>;
/// Proves that its maker has `secret`, and sent and received `transcript`. All zero if there is no secret.
Proof prove(const Secret* secret, std::string_view role,
            std::initializer_list<std::span<const std::byte>> transcript);
/// Whether `proof`, which may be just the beginning of one, is what prove() returns; if there is no secret,
/// any proof is right. The time that it takes does not tell how much of the proof was right.
bool is_proof(std::span<const std::byte> proof, const Secret* secret, std::string_view role,
              std::initializer_list<std::span<const std::byte>> transcript);

}  // namespace verbena::transport
