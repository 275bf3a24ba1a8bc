#include "job/run_secret.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/decimal.hpp"
#include "job/environment.hpp"

namespace verbena::job {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kNameBegin = "run-";
constexpr std::string_view kNameEnd = ".secret";

/// Nobody else can write there, or read what is there.
bool is_private(const fs::path& folder) {
  struct stat info {};
  return ::lstat(folder.c_str(), &info) == 0 && S_ISDIR(info.st_mode) && info.st_uid == ::geteuid() &&
         (info.st_mode & (S_IRWXG | S_IRWXO)) == 0;
}

/// The folder of this user's runs, whether it is there or not.
fs::path folder() {
  const char* const runtime = own_environment("XDG_RUNTIME_DIR");
  if (runtime != nullptr && fs::path(runtime).is_absolute() && is_private(runtime))
    return fs::path(runtime) / "verbena";
  return fs::path("/tmp") / fmt::format("verbena-{}", ::geteuid());
}

std::string name_of(std::int64_t run) {
  return fmt::format("{}{}{}", kNameBegin, run, kNameEnd);
}

/// Of each secret its file and its run.
std::vector<std::pair<fs::path, pid_t>> files_in(const fs::path& folder) {
  std::vector<std::pair<fs::path, pid_t>> files;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(kNameBegin) || !name.ends_with(kNameEnd)) continue;
    const auto run = base::parse_decimal<pid_t>(
        std::string_view(name).substr(kNameBegin.size(), name.size() - kNameBegin.size() - kNameEnd.size()));
    if (run && *run > 0) files.emplace_back(entry.path(), *run);
  }
  return files;
}

bool is_there(pid_t process) {
  return ::kill(process, 0) == 0 || errno != ESRCH;
}

/// Those of processes that are no more.
void remove_stale(const fs::path& from) {
  for (const auto& [file, run] : files_in(from)) {
    if (!is_there(run)) ::unlink(file.c_str());
  }
}

absl::Status write_new(const std::string& path, std::string_view text) {
  ::unlink(path.c_str());  // of an earlier process of this number
  const int file =
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, S_IRUSR | S_IWUSR);
  if (file < 0) return absl::ErrnoToStatus(errno, path);
  const ssize_t written = ::write(file, text.data(), text.size());
  const int error = errno;
  ::close(file);
  if (written == static_cast<ssize_t>(text.size())) return absl::OkStatus();
  ::unlink(path.c_str());
  return absl::ErrnoToStatus(written < 0 ? error : ENOSPC, path);
}

}  // namespace

absl::StatusOr<RunSecret> RunSecret::make(std::int64_t run) {
  const fs::path in = folder();
  if (::mkdir(in.c_str(), S_IRWXU) != 0 && errno != EEXIST) return absl::ErrnoToStatus(errno, in.string());
  if (!is_private(in))
    return absl::PermissionDeniedError(fmt::format("{}: others may read or write there", in.string()));
  remove_stale(in);
  const auto random = transport::Secret::random();
  if (!random.ok()) return random.status();
  std::string path = (in / name_of(run)).string();
  std::string text = (*random)->to_hex();
  const absl::Status written = write_new(path, text);
  transport::wipe(text);
  if (!written.ok()) return written;
  // As whoever looks into the job reads it.
  auto secret = transport::Secret::read_file(path);
  if (!secret.ok()) {
    ::unlink(path.c_str());
    return secret.status();
  }
  return RunSecret(std::move(path), *std::move(secret));
}

std::string RunSecret::path_of(std::int64_t run) {
  const fs::path in = folder();
  return is_private(in) ? (in / name_of(run)).string() : std::string();
}

std::vector<std::int64_t> RunSecret::runs() {
  std::vector<std::int64_t> runs;
  const fs::path in = folder();
  if (!is_private(in)) return runs;
  for (const auto& [file, run] : files_in(in)) {
    if (is_there(run)) runs.push_back(run);
  }
  return runs;
}

RunSecret::RunSecret(RunSecret&& other) noexcept
    : path_(std::exchange(other.path_, {})), secret_(std::move(other.secret_)) {}

RunSecret::~RunSecret() {
  if (!path_.empty()) ::unlink(path_.c_str());
}

}  // namespace verbena::job
