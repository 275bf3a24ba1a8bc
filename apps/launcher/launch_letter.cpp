#include "apps/launcher/launch_letter.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "apps/rendezvous/line_stream.hpp"

namespace verbena::apps {
namespace {

constexpr const char* kLetterName = "verbena-launch-letter";
constexpr std::size_t kMostLetterBytes = 4096;
constexpr int kSeals = F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL;

/// A sealed file of ours: no pipe or file of a user can pass for it by chance.
bool is_letter(int descriptor) {
  std::array<char, 128> name{};
  const std::string link = fmt::format("/proc/self/fd/{}", descriptor);
  const ssize_t length = ::readlink(link.c_str(), name.data(), name.size());
  return length > 0 &&
         std::string_view(name.data(), static_cast<std::size_t>(length))
             .starts_with(fmt::format("/memfd:{}", kLetterName)) &&
         (::fcntl(descriptor, F_GET_SEALS) & kSeals) == kSeals;
}

/// Processes that this one starts get letters of their own.
void keep_to_myself(int descriptor) {
  if (descriptor >= 0) ::fcntl(descriptor, F_SETFD, FD_CLOEXEC);
}

}  // namespace

absl::StatusOr<int> write_letter(const LaunchLetter& letter) {
  const auto failed = [](int descriptor, int error) {
    if (descriptor >= 0) ::close(descriptor);
    return absl::ResourceExhaustedError(
        fmt::format("cannot write a letter to a process: {}", std::strerror(error)));
  };
  const int descriptor = ::memfd_create(kLetterName, MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (descriptor < 0) return failed(descriptor, errno);
  const nlohmann::json text = {{"report_to", letter.report_to}, {"rendezvous", letter.rendezvous}};
  if (const absl::Status written = write_all(descriptor, text.dump()); !written.ok()) {
    ::close(descriptor);
    return written;
  }
  if (::fcntl(descriptor, F_ADD_SEALS, kSeals) != 0) return failed(descriptor, errno);
  return descriptor;
}

absl::StatusOr<LaunchLetter> take_letter() {
  if (!is_letter(STDIN_FILENO)) return LaunchLetter{};
  std::string text(kMostLetterBytes, '\0');
  const ssize_t length = ::pread(STDIN_FILENO, text.data(), text.size(), 0);
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(length, 0)));
  const int null = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (null < 0) return absl::UnavailableError(fmt::format("/dev/null: {}", std::strerror(errno)));
  ::dup2(null, STDIN_FILENO);
  ::close(null);
  const nlohmann::json object = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object() || !object.contains("report_to") || !object.contains("rendezvous") ||
      !object["report_to"].is_number_integer() || !object["rendezvous"].is_number_integer()) {
    return absl::InvalidArgumentError("the launcher's letter cannot be read: two versions of Verbena?");
  }
  const LaunchLetter letter{.report_to = object["report_to"].get<int>(),
                            .rendezvous = object["rendezvous"].get<int>()};
  keep_to_myself(letter.report_to);
  keep_to_myself(letter.rendezvous);
  return letter;
}

}  // namespace verbena::apps
