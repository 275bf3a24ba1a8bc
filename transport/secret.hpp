// What the processes of a job share and nobody else knows, and how one proves to another that it does.
//
// A proof is an HMAC-SHA256, under the secret, of who proves (a role of its own for each side of each
// transport) and of the fresh nonces of both sides: it tells nothing of the secret, is good for one meeting,
// and cannot be sent back to whom it came from. Both sides prove: neither gives the other memory before.
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
  /// What a file says, the white space around it aside. PERMISSION_DENIED unless it is a file of this user's
  /// that nobody else may read or write; INVALID_ARGUMENT where it is too short to be secret.
  static absl::StatusOr<std::shared_ptr<const Secret>> read_file(const std::string& path);
  /// As to_hex() has it.
  static absl::StatusOr<std::shared_ptr<const Secret>> from_hex(std::string_view text);

  /// For a channel that carries text and that only processes of the job can read. Whoever asks has to wipe()
  /// it.
  [[nodiscard]] std::string to_hex() const;
  [[nodiscard]] std::span<const std::byte, kBytes> bytes() const { return bytes_; }

 private:
  std::array<std::byte, kBytes> bytes_{};
};

/// In a way that no compiler leaves out.
void wipe(std::span<std::byte> bytes);
void wipe(std::string& text);

using Nonce = std::array<std::byte, 16>;
absl::StatusOr<Nonce> fresh_nonce();

using Proof = std::array<std::byte, 32>;
/// That its maker has `secret`, and said and heard `transcript`. All zero where there is no secret.
Proof prove(const Secret* secret, std::string_view role,
            std::initializer_list<std::span<const std::byte>> transcript);
/// Whether `proof`, or the beginning of one, is that; where there is no secret all are. Takes a time that
/// does not tell how much was right.
bool is_proof(std::span<const std::byte> proof, const Secret* secret, std::string_view role,
              std::initializer_list<std::span<const std::byte>> transcript);

}  // namespace verbena::transport
