// A disk that fails, for tests of real processes. It is loaded before the C library (LD_PRELOAD), and stands
// in the way of the calls by which checkpoint/file_system.cpp writes: of those in one folder it keeps a log,
// and one of them, or some, may go wrong. All else goes to the system unchanged.
//
//   VERBENA_DISK          the folder, as the system names it (no links). Without it nothing is watched.
//   VERBENA_DISK_LOG      a file: for each watched call that has ended a line "PROCESS KIND NUMBER RESULT
//   PATH",
//                         "server-0 fsync 3 ok …/ckpt-2.tmp". RESULT: ok, or the name of the errno. Of a
//                         rename the new name. NUMBER counts the process's calls of this kind, from 1.
//   VERBENA_DISK_PROCESS  who meets the fault: "worker-0"; "server", any of them; "any"
//   VERBENA_DISK_FAULT    what it meets:
//     kill-before KIND N          it dies of SIGKILL before its Nth call of this kind
//     kill-after KIND N           or when that call has ended
//     fail KIND N M ERROR         its calls N to M end with ERROR, ENOSPC or EIO, and do nothing
//     full BYTES                  while the files in the folder have so many bytes, there is no room for more
//
// Each process counts for itself: its calls come in the same order every time, those of a whole job do not. A
// process is known by the arguments that the launcher gives it.
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace {

enum Kind : std::size_t { kCreate, kWrite, kFsync, kRename, kMkdir, kUnlink, kRmdir, kKinds };
constexpr std::array<const char*, kKinds> kNames = {"create", "write",  "fsync", "rename",
                                                    "mkdir",  "unlink", "rmdir"};

/// A test that asks for what there is not must not pass.
[[noreturn]] void refuse(const std::string& what) {
  std::fprintf(stderr, "failing_disk: %s\n", what.c_str());
  std::abort();
}

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

/// "server-0", "worker-1"; the first argument of any other process.
std::string own_name() {
  std::vector<std::string> arguments;
  std::ifstream line("/proc/self/cmdline", std::ios::binary);
  for (std::string one; std::getline(line, one, '\0');) arguments.push_back(one);
  if (arguments.size() < 2) return "";
  const std::string option = "--" + arguments[1] + "-rank=";
  for (const std::string& one : arguments) {
    if (one.starts_with(option)) return arguments[1] + '-' + one.substr(option.size());
  }
  return arguments[1];
}

struct Fault {
  enum class Action { kNone, kKillBefore, kKillAfter, kFail, kFull };
  Action action = Action::kNone;
  std::size_t kind = kKinds;
  std::int64_t first = 0;
  std::int64_t last = 0;
  int error = 0;
  std::uint64_t bytes = 0;  ///< kFull: how many there may be

  [[nodiscard]] bool is_of(std::size_t called, std::int64_t number) const {
    return kind == called && first <= number && number <= last;
  }
};

Fault parse_fault(const std::string& text) {
  Fault fault;
  if (text.empty()) return fault;
  std::istringstream words(text);
  std::string action;
  words >> action;
  if (action == "full") {
    fault.action = Fault::Action::kFull;
    words >> fault.bytes;
  } else {
    std::string kind;
    words >> kind >> fault.first;
    fault.kind = static_cast<std::size_t>(std::find(kNames.begin(), kNames.end(), kind) - kNames.begin());
    fault.last = fault.first;
    if (action == "kill-before") fault.action = Fault::Action::kKillBefore;
    if (action == "kill-after") fault.action = Fault::Action::kKillAfter;
    if (action == "fail") {
      std::string error;
      words >> fault.last >> error;
      fault.action = Fault::Action::kFail;
      fault.error = error == "ENOSPC" ? ENOSPC : error == "EIO" ? EIO : 0;
    }
    if (fault.kind == kKinds || (action == "fail" && fault.error == 0)) refuse("no such fault: " + text);
  }
  if (!words || fault.action == Fault::Action::kNone) refuse("no such fault: " + text);
  return fault;
}

class Disk {
 public:
  [[nodiscard]] bool has(std::string_view path) const {
    return !folder_.empty() && path.starts_with(folder_) &&
           (path.size() == folder_.size() || path[folder_.size()] == '/');
  }

  /// For how many bytes there is room. Processes that write at the same time may together find too much: then
  /// the disk is a little larger.
  [[nodiscard]] std::uint64_t room() const {
    if (!is_meant_ || fault_.action != Fault::Action::kFull) return std::numeric_limits<std::uint64_t>::max();
    const std::uint64_t used = bytes_in(folder_);
    return used < fault_.bytes ? fault_.bytes - used : 0;
  }

  /// `call` does what the process has asked for, and returns -1 with errno if it cannot.
  template <class Call>
  std::int64_t pass(std::size_t kind, const std::string& path, const Call& call) {
    const std::int64_t number = ++counts_.at(kind);
    const bool is_chosen = is_meant_ && fault_.is_of(kind, number);
    if (is_chosen && fault_.action == Fault::Action::kKillBefore) die();
    std::int64_t result = -1;
    if (is_chosen && fault_.action == Fault::Action::kFail) {
      errno = fault_.error;
    } else {
      result = call();
    }
    const int number_of_error = errno;
    log(kind, number, result < 0 ? number_of_error : 0, path);
    if (is_chosen && fault_.action == Fault::Action::kKillAfter) die();
    errno = number_of_error;
    return result;
  }

 private:
  [[noreturn]] static void die() {
    ::kill(::getpid(), SIGKILL);
    for (;;) ::pause();
  }

  static std::uint64_t bytes_in(const std::string& folder) {
    std::uint64_t bytes = 0;
    std::error_code error;  // files come and go meanwhile
    for (std::filesystem::recursive_directory_iterator entry(folder, error), end; !error && entry != end;
         entry.increment(error)) {
      std::error_code gone;
      const std::uintmax_t size = entry->is_regular_file(gone) ? entry->file_size(gone) : 0;
      if (!gone) bytes += size;
    }
    return bytes;
  }

  /// In one write at the end of the file, so that lines of several processes stay whole. It is on its way
  /// when the call returns: a process that dies then has told of it.
  void log(std::size_t kind, std::int64_t number, int error, const std::string& path) const {
    if (log_.empty()) return;
    const char* const result = error == 0 ? "ok" : ::strerrorname_np(error);
    const std::string line = name_ + ' ' + kNames.at(kind) + ' ' + std::to_string(number) + ' ' +
                             (result == nullptr ? "?" : result) + ' ' + path + '\n';
    const auto file = static_cast<int>(
        ::syscall(SYS_openat, AT_FDCWD, log_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
    const std::int64_t written = ::syscall(SYS_write, file, line.data(), line.size());
    ::close(file);
    if (written != static_cast<std::int64_t>(line.size())) refuse(log_ + " cannot be written");
  }

  const std::string folder_ = variable("VERBENA_DISK");
  const std::string log_ = variable("VERBENA_DISK_LOG");
  const std::string name_ = own_name();
  const Fault fault_ = parse_fault(variable("VERBENA_DISK_FAULT"));
  const std::string meant_ = variable("VERBENA_DISK_PROCESS");
  const bool is_meant_ = meant_ == "any" || name_ == meant_ || name_.starts_with(meant_ + '-');
  std::array<std::atomic<std::int64_t>, kKinds> counts_{};
};

/// It stays until the last thread has ended.
Disk& disk() {
  static Disk& disk = *new Disk;
  return disk;
}

/// What the descriptor is of. Empty: nothing with a name.
std::string path_of(int descriptor) {
  std::array<char, 4096> path{};
  const std::string link = "/proc/self/fd/" + std::to_string(descriptor);
  const ssize_t bytes = ::readlink(link.c_str(), path.data(), path.size());
  return bytes > 0 ? std::string(path.data(), static_cast<std::size_t>(bytes)) : std::string();
}

std::int64_t no_space() {
  errno = ENOSPC;
  return -1;
}

template <class Call>
int pass_path(std::size_t kind, const char* path, const Call& call) {
  return static_cast<int>(disk().has(path) ? disk().pass(kind, path, call) : call());
}

}  // namespace

extern "C" {

// NOLINTNEXTLINE(cert-dcl50-cpp): as the C library declares it
int open(const char* path, int flags, ...) {
  mode_t mode = 0;
  if ((flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE) {
    std::va_list more;
    va_start(more, flags);
    mode = va_arg(more, mode_t);
    va_end(more);
  }
  const auto call = [&]() -> std::int64_t { return ::syscall(SYS_openat, AT_FDCWD, path, flags, mode); };
  // Between fork() and exec() the launcher opens files: nothing but the call may happen there.
  if ((flags & O_CREAT) == 0) return static_cast<int>(call());
  return pass_path(kCreate, path, [&] { return disk().room() > 0 ? call() : no_space(); });
}

ssize_t write(int descriptor, const void* bytes, std::size_t count) {
  const auto call = [&](std::size_t most) -> std::int64_t {
    return ::syscall(SYS_write, descriptor, bytes, most);
  };
  const int before = errno;
  const std::string path = path_of(descriptor);
  errno = before;
  if (!disk().has(path)) return call(count);
  return disk().pass(kWrite, path, [&] {
    const std::uint64_t room = disk().room();
    return room > 0 ? call(std::min<std::uint64_t>(count, room)) : no_space();
  });
}

int fsync(int descriptor) {
  const auto call = [&]() -> std::int64_t { return ::syscall(SYS_fsync, descriptor); };
  const std::string path = path_of(descriptor);
  return static_cast<int>(disk().has(path) ? disk().pass(kFsync, path, call) : call());
}

int rename(const char* from, const char* to) noexcept {
  return pass_path(kRename, to, [&]() -> std::int64_t { return ::syscall(SYS_rename, from, to); });
}

int mkdir(const char* path, mode_t mode) noexcept {
  return pass_path(kMkdir, path, [&]() -> std::int64_t {
    return disk().room() > 0 ? ::syscall(SYS_mkdir, path, mode) : no_space();
  });
}

int unlink(const char* path) noexcept {
  return pass_path(kUnlink, path, [&]() -> std::int64_t { return ::syscall(SYS_unlink, path); });
}

int rmdir(const char* path) noexcept {
  return pass_path(kRmdir, path, [&]() -> std::int64_t { return ::syscall(SYS_rmdir, path); });
}

}  // extern "C"
