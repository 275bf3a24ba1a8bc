#include "job/launch_letter.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <type_traits>

#include "base/decimal.hpp"
#include "job/line_stream.hpp"

namespace verbena::job {
namespace {

constexpr const char* kLetterName = "verbena-launch-letter";
constexpr std::size_t kMostLetterBytes = 4096;
constexpr int kSeals = F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL;

/// Whether it is a sealed file of ours: no pipe or file of a user can pass for one by chance.
bool is_letter(int descriptor) {
  std::array<char, 128> name{};
  const std::string link = fmt::format("/proc/self/fd/{}", descriptor);
  const ssize_t length = ::readlink(link.c_str(), name.data(), name.size());
  return length > 0 &&
         std::string_view(name.data(), static_cast<std::size_t>(length))
             .starts_with(fmt::format("/memfd:{}", kLetterName)) &&
         (::fcntl(descriptor, F_GET_SEALS) & kSeals) == kSeals;
}

/// Processes that this one starts must not inherit the descriptor: they get letters of their own.
void keep_to_myself(int descriptor) {
  if (descriptor >= 0) ::fcntl(descriptor, F_SETFD, FD_CLOEXEC);
}

/// Calls visit(name, member) for each member.
template <class Role, class Visit>
void visit_members(Role& role, const Visit& visit) {
  visit("rank", role.rank);
  visit("workers", role.workers);
  visit("servers", role.servers);
  visit("node", role.node);
  visit("scheme", role.scheme);
  visit("tls", role.tls);
  visit("device", role.device);
  visit("device_port", role.device_port);
  visit("shares_cores", role.shares_cores);
  visit("read_path", role.read_path);
  visit("update_budget_mb_per_s", role.update_budget_mb_per_s);
  visit("silence_timeout_ms", role.silence_timeout_ms);
  visit("copies", role.copies);
  visit("store", role.store);
  visit("ends_who_is_left_out", role.ends_who_is_left_out);
  visit("longest_absence_ms", role.longest_absence_ms);
}

/// Throws what nlohmann throws.
LaunchLetter parse_letter(const std::string& text) {
  const nlohmann::json object = nlohmann::json::parse(text);
  LaunchLetter letter{.report_to = object.at("report_to").get<int>(),
                      .rendezvous = object.at("rendezvous").get<int>(),
                      .stop_word = object.at("stop_word").get<int>(),
                      .decided = object.at("decided").get<int>(),
                      .joins = object.at("joins").get<bool>(),
                      .replaces_workers = object.at("replaces_workers").get<bool>(),
                      .incarnation = object.at("incarnation").get<std::uint32_t>()};
  if (!object.contains("program")) return letter;
  visit_members(letter.program.emplace(), [&](const char* name, auto& member) {
    member = object.at("program").at(name).get<std::remove_reference_t<decltype(member)>>();
  });
  return letter;
}

/// REQUIRES: is_letter()
absl::StatusOr<LaunchLetter> read_letter(int descriptor) {
  std::string text(kMostLetterBytes, '\0');
  const ssize_t length = ::pread(descriptor, text.data(), text.size(), 0);
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(length, 0)));
  try {
    const LaunchLetter letter = parse_letter(text);
    keep_to_myself(letter.report_to);
    keep_to_myself(letter.rendezvous);
    keep_to_myself(letter.stop_word);
    keep_to_myself(letter.decided);
    return letter;
  } catch (const nlohmann::json::exception&) {
    return absl::InvalidArgumentError("the launcher's letter cannot be read: two versions of Verbena?");
  }
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
  nlohmann::json text = {{"report_to", letter.report_to},
                         {"rendezvous", letter.rendezvous},
                         {"stop_word", letter.stop_word},
                         {"decided", letter.decided},
                         {"joins", letter.joins},
                         {"replaces_workers", letter.replaces_workers},
                         {"incarnation", letter.incarnation}};
  if (letter.program)
    visit_members(*letter.program,
                  [&](const char* name, const auto& member) { text["program"][name] = member; });
  if (const absl::Status written = write_all(descriptor, text.dump()); !written.ok()) {
    ::close(descriptor);
    return written;
  }
  if (::fcntl(descriptor, F_ADD_SEALS, kSeals) != 0) return failed(descriptor, errno);
  return descriptor;
}

absl::StatusOr<LaunchLetter> take_letter() {
  if (!is_letter(STDIN_FILENO)) return LaunchLetter{};
  absl::StatusOr<LaunchLetter> letter = read_letter(STDIN_FILENO);
  const int null = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (null < 0) return absl::UnavailableError(fmt::format("/dev/null: {}", std::strerror(errno)));
  ::dup2(null, STDIN_FILENO);
  ::close(null);
  return letter;
}

absl::StatusOr<std::optional<LaunchLetter>> take_letter_by_environment() {
  const char* const written = std::getenv(kLetterVariable);
  const std::optional<int> descriptor = written == nullptr ? std::nullopt : base::parse_decimal<int>(written);
  if (written == nullptr) return std::optional<LaunchLetter>();
  if (!descriptor || !is_letter(*descriptor)) {
    return absl::FailedPreconditionError(fmt::format(
        "{}={}: a launcher has started this process for a job, and what stands between them has closed the "
        "descriptor that it needs (where it is not meant, unset the variable)",
        kLetterVariable, written));
  }
  absl::StatusOr<LaunchLetter> letter = read_letter(*descriptor);
  ::close(*descriptor);
  ::unsetenv(kLetterVariable);
  if (!letter.ok()) return letter.status();
  return std::optional(*letter);
}

}  // namespace verbena::job
