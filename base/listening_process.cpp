#include "base/listening_process.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <string>
#include <system_error>
#include <vector>

#include "base/decimal.hpp"

namespace verbena::base {
namespace {

namespace fs = std::filesystem;

constexpr const char* kListens = "0A";  // TCP_LISTEN, as the kernel writes it

/// What /proc says of the sockets that listen at that port: "socket:[INODE]", as descriptors are links to it.
std::set<std::string> sockets_at(std::uint16_t port) {
  std::set<std::string> found;
  const std::string ending = fmt::format(":{:04X}", port);
  for (const char* const table : {"/proc/self/net/tcp", "/proc/self/net/tcp6"}) {
    std::ifstream file(table);
    for (std::string line; std::getline(file, line);) {
      std::istringstream words(line);
      const std::vector<std::string> fields{std::istream_iterator<std::string>(words), {}};
      // number, own address, peer's address, state, …, inode as the tenth
      if (fields.size() > 9 && fields[1].ends_with(ending) && fields[3] == kListens)
        found.insert(fmt::format("socket:[{}]", fields[9]));
    }
  }
  return found;
}

bool has_one_of(const fs::path& process, const std::set<std::string>& sockets) {
  std::error_code error;
  for (fs::directory_iterator descriptor(process / "fd", error), end; !error && descriptor != end;
       descriptor.increment(error)) {
    std::error_code gone;
    const fs::path link = fs::read_symlink(descriptor->path(), gone);
    if (!gone && sockets.contains(link.string())) return true;
  }
  return false;
}

/// "PID (NAME) STATE …", where NAME may be anything. T: by a signal; t: by a debugger.
bool is_stopped(const fs::path& process) {
  std::ifstream file(process / "stat");
  const std::string line{std::istreambuf_iterator<char>(file), {}};
  const std::size_t name_ends = line.rfind(") ");
  return name_ends != std::string::npos && line.find_first_of("Tt", name_ends) == name_ends + 2;
}

}  // namespace

std::optional<ListeningProcess> process_that_listens_at(std::uint16_t port) {
  const std::set<std::string> sockets = sockets_at(port);
  if (sockets.empty()) return std::nullopt;
  std::error_code error;
  for (fs::directory_iterator process("/proc", error), end; !error && process != end;
       process.increment(error)) {
    const std::optional<pid_t> pid = parse_decimal<pid_t>(process->path().filename().string());
    if (pid && has_one_of(process->path(), sockets))
      return ListeningProcess{.pid = *pid, .is_stopped = is_stopped(process->path())};
  }
  return std::nullopt;
}

}  // namespace verbena::base
