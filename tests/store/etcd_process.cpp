#include "tests/store/etcd_process.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>

#include "absl/strings/str_split.h"
#include "base/file_descriptor.hpp"
#include "base/return_if_error.hpp"
#include "tests/free_port.hpp"
#include "tests/loopback.hpp"

namespace verbena::cluster {
namespace {

using nlohmann::json;

constexpr auto kStartPatience = std::chrono::seconds(60);
constexpr int kMostStarts = 3;  // another process may take a port that was found free

/// Empty: there is none.
std::string etcd_program() {
  const char* const path = std::getenv("PATH");
  for (const auto& folder : std::vector<std::string>(absl::StrSplit(path == nullptr ? "" : path, ':'))) {
    const std::string program = folder + "/etcd";
    if (::access(program.c_str(), X_OK) == 0) return program;
  }
  return "";
}

std::string url(std::uint16_t port) {
  return fmt::format("http://127.0.0.1:{}", port);
}

/// Starts a program that ends when this one does.
pid_t spawn(const std::vector<std::string>& command, const std::string& log) {
  std::vector<char*> arguments;
  for (const std::string& each : command) arguments.push_back(const_cast<char*>(each.c_str()));
  arguments.push_back(nullptr);
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid != 0) return pid;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);
  const int file = ::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
  ::dup2(file, STDOUT_FILENO);
  ::dup2(file, STDERR_FILENO);
  ::execv(arguments[0], arguments.data());
  ::_exit(127);
}

}  // namespace

absl::StatusOr<std::string> http_post(std::uint16_t port, std::string_view path, std::string_view body) {
  const base::FileDescriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const timeval limit = {.tv_sec = 5, .tv_usec = 0};
  ::setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  const sockaddr_in place = verbena::testing::loopback(port);
  const std::string request = fmt::format(
      "POST {} HTTP/1.0\r\nHost: 127.0.0.1\r\nContent-Length: {}\r\n\r\n{}", path, body.size(), body);
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&place), sizeof place) != 0 ||
      ::send(socket.get(), request.data(), request.size(), MSG_NOSIGNAL) < 0) {
    return absl::UnavailableError("nobody listens");
  }
  std::string answer;
  std::array<char, 4096> block{};
  for (ssize_t got = 0; (got = ::recv(socket.get(), block.data(), block.size(), 0)) > 0;)
    answer.append(block.data(), static_cast<std::size_t>(got));
  const std::size_t end = answer.find("\r\n\r\n");
  if (end == std::string::npos) return absl::UnavailableError("no answer");
  return answer.substr(end + 4);
}

EtcdProcesses::~EtcdProcesses() {
  end_all();
}

void EtcdProcesses::end_all() {
  for (std::size_t i = 0; i < members_.size(); ++i) kill(i);
}

absl::Status EtcdProcesses::start(std::size_t members) {
  members_.resize(members);
  absl::Status status;
  for (int i = 0; i < kMostStarts; ++i) {
    status = start_once();
    if (status.ok() || absl::IsNotFound(status)) return status;
    end_all();
  }
  return status;
}

absl::Status EtcdProcesses::start_once() {
  const std::string program = etcd_program();
  if (program.empty()) {
    return absl::NotFoundError(
        "there is no program etcd: install the package etcd-server (scripts/setup does)");
  }
  ++starts_;
  std::string all;
  for (std::size_t i = 0; i < members_.size(); ++i) {
    members_[i] = {.pid = -1, .port = testing::free_port(), .peer_port = testing::free_port()};
    all += fmt::format("{}m{}={}", all.empty() ? "" : ",", i, url(members_[i].peer_port));
  }
  for (std::size_t i = 0; i < members_.size(); ++i) {
    Member& member = members_[i];
    const std::string name = fmt::format("m{}", i);
    const std::string data = folder_.path(fmt::format("{}-{}", name, starts_));
    member.pid = spawn({program,
                        "--name",
                        name,
                        "--data-dir",
                        data,
                        "--unsafe-no-fsync",
                        "--listen-client-urls",
                        url(member.port),
                        "--advertise-client-urls",
                        url(member.port),
                        "--listen-peer-urls",
                        url(member.peer_port),
                        "--initial-advertise-peer-urls",
                        url(member.peer_port),
                        "--initial-cluster",
                        all,
                        "--heartbeat-interval",
                        "20",
                        "--election-timeout",
                        "200"},
                       data + ".log");
  }
  const auto end = std::chrono::steady_clock::now() + kStartPatience;
  while (!is_ready()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    for (Member& member : members_) {
      if (::waitpid(member.pid, nullptr, WNOHANG) != member.pid) continue;
      member.pid = -1;
      return absl::UnavailableError(
          fmt::format("a member of etcd has ended; see {}", folder_.path().string()));
    }
    if (std::chrono::steady_clock::now() > end) return absl::DeadlineExceededError("etcd does not start");
  }
  return absl::OkStatus();
}

bool EtcdProcesses::is_ready() const {
  for (std::size_t i = 0; i < members_.size(); ++i) {
    if (!leader(i).ok()) return false;
    if (!http_post(members_[i].port, "/v3/kv/range", R"({"key":"YQ=="})").ok()) return false;
  }
  return true;
}

std::string EtcdProcesses::endpoint(std::size_t member) const {
  return url(members_[member].port);
}

std::vector<std::string> EtcdProcesses::endpoints() const {
  std::vector<std::string> all;
  for (std::size_t i = 0; i < members_.size(); ++i) all.push_back(endpoint(i));
  return all;
}

absl::StatusOr<std::size_t> EtcdProcesses::leader(std::size_t asked) const {
  const auto status_of = [&](std::size_t member) -> json {
    const auto text = http_post(members_[member].port, "/v3/maintenance/status", "{}");
    return json::parse(text.ok() ? *text : "", nullptr, false);
  };
  const json status = status_of(asked);
  if (!status.is_object() || !status.contains("leader")) return absl::UnavailableError("no leader");
  for (std::size_t i = 0; i < members_.size(); ++i) {
    const json each = members_[i].pid > 0 ? status_of(i) : json();
    if (each.is_object() && each.contains("header") &&
        each["header"].value("member_id", "") == status["leader"])
      return i;
  }
  return absl::UnavailableError("the leader does not answer");
}

void EtcdProcesses::kill(std::size_t member) {
  Member& one = members_[member];
  if (one.pid <= 0) return;
  ::kill(one.pid, SIGKILL);
  ::waitpid(one.pid, nullptr, 0);
  one.pid = -1;
}
void EtcdProcesses::stop(std::size_t member) const {
  const pid_t pid = members_[member].pid;
  if (pid <= 0) return;
  ::kill(pid, SIGSTOP);
  ::waitpid(pid, nullptr, WUNTRACED);
}
void EtcdProcesses::go_on(std::size_t member) const {
  if (members_[member].pid > 0) ::kill(members_[member].pid, SIGCONT);
}

absl::Status EtcdProcesses::compact(std::uint64_t revision) const {
  const auto said = http_post(members_[0].port, "/v3/kv/compaction",
                              fmt::format(R"({{"revision":"{}","physical":true}})", revision));
  if (!said.ok()) return said.status();
  return said->find("header") != std::string::npos ? absl::OkStatus() : absl::UnavailableError(*said);
}

}  // namespace verbena::cluster
