#include "transport/secret.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/file_descriptor.hpp"
#include "base/return_if_error.hpp"

namespace verbena::transport {

namespace {

constexpr std::string_view kFileRole = "verbena secret file";
constexpr const char* kHowToMake = "(umask 077; head -c 32 /dev/urandom | base64 > FILE) makes one";

absl::Status fill_randomly(std::span<std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t got = ::getrandom(bytes.data(), bytes.size(), 0);
    if (got < 0 && errno != EINTR) return absl::ErrnoToStatus(errno, "the system has no random numbers");
    if (got > 0) bytes = bytes.subspan(static_cast<std::size_t>(got));
  }
  return absl::OkStatus();
}

/// nullopt if the library has no memory.
std::optional<Proof> hmac(std::span<const std::byte> key, std::string_view role,
                          std::initializer_list<std::span<const std::byte>> parts) {
  // Each part has its length before it, so that no two transcripts give the same bytes.
  std::vector<unsigned char> text;
  const auto add = [&](const void* bytes, std::size_t count) {
    const std::uint64_t length = count;
    const auto* first = reinterpret_cast<const unsigned char*>(&length);
    text.insert(text.end(), first, first + sizeof length);
    const auto* from = static_cast<const unsigned char*>(bytes);
    text.insert(text.end(), from, from + count);
  };
  add(role.data(), role.size());
  for (const std::span<const std::byte> part : parts) add(part.data(), part.size());
  Proof proof{};
  unsigned int length = 0;
  const unsigned char* made = ::HMAC(::EVP_sha256(), key.data(), static_cast<int>(key.size()), text.data(),
                                     text.size(), reinterpret_cast<unsigned char*>(proof.data()), &length);
  ::OPENSSL_cleanse(text.data(), text.size());
  if (made == nullptr || length != proof.size()) return std::nullopt;
  return proof;
}

absl::Status check_file(const std::string& path, const struct stat& info) {
  if (!S_ISREG(info.st_mode)) {
    return absl::InvalidArgumentError(fmt::format("{}: a secret is read from a regular file", path));
  }
  if (info.st_uid != ::geteuid()) {
    return absl::InvalidArgumentError(fmt::format("{}: it belongs to user {}, not to user {} who runs this",
                                                  path, info.st_uid, ::geteuid()));
  }
  if ((info.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    return absl::InvalidArgumentError(
        fmt::format("{}: others may open it (its mode is {:03o}); a secret's is 600: chmod 600 {}", path,
                    info.st_mode & 0777U, path));
  }
  if (info.st_size < static_cast<off_t>(Secret::kFewestFileBytes) ||
      info.st_size > static_cast<off_t>(Secret::kMostFileBytes)) {
    return absl::InvalidArgumentError(fmt::format("{}: it has {} bytes, expected {} to {}; {}", path,
                                                  info.st_size, Secret::kFewestFileBytes,
                                                  Secret::kMostFileBytes, kHowToMake));
  }
  return absl::OkStatus();
}

}  // namespace

void wipe(std::span<std::byte> bytes) {
  if (!bytes.empty()) ::OPENSSL_cleanse(bytes.data(), bytes.size());
}

void wipe(std::string& text) {
  wipe(std::as_writable_bytes(std::span(text)));
  text.clear();
}

Secret::Secret(std::span<const std::byte, kBytes> bytes) {
  std::copy(bytes.begin(), bytes.end(), bytes_.begin());
}

Secret::~Secret() {
  wipe(bytes_);
}

absl::StatusOr<std::shared_ptr<const Secret>> Secret::random() {
  std::array<std::byte, kBytes> bytes{};
  RETURN_IF_ERROR(fill_randomly(bytes));
  auto secret = std::make_shared<const Secret>(bytes);
  wipe(bytes);
  return secret;
}

absl::StatusOr<std::shared_ptr<const Secret>> Secret::read_file(const std::string& path) {
  // Non-blocking: if the path is a pipe, this must not wait for it; it is refused below.
  const base::FileDescriptor file(
      ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));  // NOLINT(*-vararg)
  if (!file.valid()) {
    const int error = errno;
    return absl::ErrnoToStatus(error, error == ENOENT
                                          ? fmt::format("{}: there is no such secret; {}", path, kHowToMake)
                                          : fmt::format("{}: the secret cannot be read", path));
  }
  struct stat info {};
  if (::fstat(file.get(), &info) != 0) return absl::ErrnoToStatus(errno, path);
  RETURN_IF_ERROR(check_file(path, info));
  std::string text(kMostFileBytes, '\0');
  const ssize_t got = ::read(file.get(), text.data(), text.size());
  if (got < 0) {
    const int error = errno;
    return absl::ErrnoToStatus(error, fmt::format("{}: the secret cannot be read", path));
  }
  std::string_view said = std::string_view(text).substr(0, static_cast<std::size_t>(got));
  constexpr std::string_view kSpace = " \t\r\n";
  said.remove_prefix(std::min(said.find_first_not_of(kSpace), said.size()));
  said = said.substr(0, said.find_last_not_of(kSpace) + 1);
  absl::StatusOr<std::shared_ptr<const Secret>> secret = absl::InvalidArgumentError(fmt::format(
      "{}: it says {} bytes, expected at least {}; {}", path, said.size(), kFewestFileBytes, kHowToMake));
  if (said.size() >= kFewestFileBytes) {
    std::optional<Proof> bytes = hmac(std::as_bytes(std::span(said)), kFileRole, {});
    if (bytes) {
      secret = std::make_shared<const Secret>(*bytes);
      wipe(*bytes);
    } else {
      secret = absl::ResourceExhaustedError("there is no memory for a secret");
    }
  }
  wipe(text);
  return secret;
}

absl::StatusOr<std::shared_ptr<const Secret>> Secret::from_hex(std::string_view text) {
  const auto digit = [](char letter) {
    return letter >= '0' && letter <= '9'   ? letter - '0'
           : letter >= 'a' && letter <= 'f' ? letter - 'a' + 10
                                            : -1;
  };
  std::array<std::byte, kBytes> bytes{};
  bool good = text.size() == 2 * kBytes;
  for (std::size_t i = 0; good && i < kBytes; ++i) {
    const int high = digit(text[2 * i]);
    const int low = digit(text[2 * i + 1]);
    good = high >= 0 && low >= 0;
    if (good) bytes[i] = static_cast<std::byte>(high * 16 + low);
  }
  if (!good) return absl::InvalidArgumentError("a secret is told in a form that none has");
  auto secret = std::make_shared<const Secret>(bytes);
  wipe(bytes);
  return secret;
}

std::string Secret::to_hex() const {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  text.reserve(2 * kBytes);
  for (const std::byte each : bytes_) {
    text += kDigits[std::to_integer<std::size_t>(each >> 4U)];
    text += kDigits[std::to_integer<std::size_t>(each & std::byte{15})];
  }
  return text;
}

absl::StatusOr<Nonce> fresh_nonce() {
  Nonce nonce{};
  RETURN_IF_ERROR(fill_randomly(nonce));
  return nonce;
}

Proof prove(const Secret* secret, std::string_view role,
            std::initializer_list<std::span<const std::byte>> transcript) {
  return secret == nullptr ? Proof{} : hmac(secret->bytes(), role, transcript).value_or(Proof{});
}

bool is_proof(std::span<const std::byte> proof, const Secret* secret, std::string_view role,
              std::initializer_list<std::span<const std::byte>> transcript) {
  if (secret == nullptr) return true;
  const std::optional<Proof> right = hmac(secret->bytes(), role, transcript);
  return right && !proof.empty() && proof.size() <= right->size() &&
         ::CRYPTO_memcmp(proof.data(), right->data(), proof.size()) == 0;
}

}  // namespace verbena::transport
