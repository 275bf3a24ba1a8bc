#include "tests/process/saved_training.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <set>
#include <sstream>
#include <string_view>

namespace verbena::process_test {
namespace {

constexpr int kDocuments = 30;
constexpr int kWordsOfDocument = 12;
constexpr int kVocabulary = 40;

/// Documents of few words, of which some come together.
std::string documents() {
  std::string text;
  for (int document = 0; document < kDocuments; ++document) {
    for (int i = 0; i < kWordsOfDocument; ++i) {
      const int word = (document % 3 * 13 + (document + 1) * (i + 2) * 7 % 17) % kVocabulary;
      text += fmt::format("{}{}{}", i == 0 ? "" : " ", static_cast<char>('a' + word % 26),
                          static_cast<char>('a' + word / 26));
    }
    text += '\n';
  }
  return text;
}

}  // namespace

SavedTraining::SavedTraining(int iterations, int keep)
    : disk_((std::filesystem::canonical(folder_.path()) / "disk").string()),
      iterations_(iterations),
      keep_(keep) {
  verbena::testing::write_file(folder_.path("documents"), documents());
  std::filesystem::create_directory(folder_.path("runtime"));
  std::filesystem::permissions(folder_.path("runtime"), std::filesystem::perms::owner_all);
  clear();
}

std::unique_ptr<Program> SavedTraining::start(int servers, const DiskFault& fault,
                                              const std::vector<std::string>& more) const {
  std::vector<std::string> arguments = {"run",
                                        "lda",
                                        "--data",
                                        folder_.path("documents"),
                                        "--topics",
                                        "3",
                                        "--top-words",
                                        "0",
                                        "--evaluate-every",
                                        "1000",
                                        "--consistency",
                                        "bsp",
                                        "--iterations",
                                        std::to_string(iterations_),
                                        "--workers",
                                        "2",
                                        "--servers",
                                        std::to_string(servers),
                                        "--output",
                                        folder_.path("model"),
                                        "--checkpoint",
                                        saved(),
                                        "--checkpoint-every",
                                        "1",
                                        "--checkpoint-keep",
                                        std::to_string(keep_),
                                        "--resume"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  const auto prepare = [&] {
    const auto set = [](const char* name, const std::string& value) { ::setenv(name, value.c_str(), 1); };
    set("LD_PRELOAD", FAILING_DISK);
    set("VERBENA_DISK", disk_);
    set("VERBENA_DISK_LOG", folder_.path("log"));
    set("VERBENA_DISK_PROCESS", fault.process);
    set("VERBENA_DISK_FAULT", fault.what);
    set("XDG_RUNTIME_DIR", folder_.path("runtime"));  // where a run keeps what others need to look into it
  };
  return std::make_unique<Program>(VERBENA_PROGRAM, arguments, folder_.path(), prepare);
}

Ended SavedTraining::run(int servers, const DiskFault& fault, const std::vector<std::string>& more) const {
  return start(servers, fault, more)->wait();
}

std::string SavedTraining::model() const {
  return verbena::testing::contents(folder_.path("model"));
}

std::string SavedTraining::path_of(std::uint64_t clock) const {
  return fmt::format("{}/ckpt-{}", saved(), clock);
}

std::vector<DiskCall> SavedTraining::calls() const {
  std::vector<DiskCall> calls;
  std::ifstream log(folder_.path("log"));
  DiskCall call;
  while (log >> call.process >> call.kind >> call.number >> call.result >> call.path) calls.push_back(call);
  return calls;
}

void SavedTraining::forget() const {
  std::filesystem::remove(folder_.path("model"));
  std::filesystem::remove(folder_.path("log"));
}

void SavedTraining::clear() const {
  forget();
  std::filesystem::remove_all(disk_);
  std::filesystem::create_directory(disk_);
}

SavedCheckpoints SavedTraining::look() const {
  const Ended ended = process_test::run(VERBENA_PROGRAM, {"checkpoint", "verify", saved()}, folder_.path());
  SavedCheckpoints found;
  std::istringstream lines(ended.out);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("  ")) {
      found.damaged.back() += line;
      continue;
    }
    const std::filesystem::path path = line.substr(0, line.rfind(": "));
    if (line.find(": whole, ") == std::string::npos) {
      found.damaged.push_back(path.filename().string() + ':');
    } else {
      // ckpt-20.old counts as long as there is no ckpt-20.
      found.whole.push_back(clock_of(path.extension() == ".old" ? path.parent_path() / path.stem() : path));
    }
  }
  EXPECT_EQ(ended.status == 0, found.damaged.empty() && !found.whole.empty()) << ended.out << ended.err;
  if (found.damaged.empty() && found.whole.empty()) {
    EXPECT_THAT(ended.err, ::testing::HasSubstr(saved()));
  }
  return found;
}

std::vector<std::string> SavedTraining::left_behind() const {
  std::vector<std::string> names;
  const auto add = [&](const std::filesystem::path& folder, std::string_view with) {
    std::error_code error;  // it may not be there
    for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
      if (entry.path().filename().string().find(with) != std::string::npos) names.push_back(entry.path());
    }
  };
  add(folder_.path("runtime") + "/verbena", "");
  add("/dev/shm", "verbena");
  return names;
}

std::uint64_t clock_of(const std::string& path) {
  constexpr std::string_view kBegin = "ckpt-";
  const std::string name = std::filesystem::path(path).filename();
  if (!name.starts_with(kBegin) || name.find('.') != std::string::npos) return 0;
  return std::stoull(name.substr(kBegin.size()));
}

std::vector<std::uint64_t> promised(const std::vector<DiskCall>& calls) {
  std::set<std::uint64_t, std::greater<>> clocks;
  std::uint64_t renamed = 0;
  for (const DiskCall& call : calls) {
    if (call.process != "worker-0" || call.result != "ok") continue;
    const std::filesystem::path path = call.path;
    if (call.kind == "rename" && path.extension() == ".gone") {
      const std::uint64_t gone = clock_of(path.parent_path() / path.stem());
      if (!clocks.empty() && *clocks.begin() > gone) clocks.erase(gone);  // only then it may go
    }
    if (call.kind == "rename" && clock_of(path) != 0) renamed = clock_of(path);
    if (call.kind == "fsync" && path.filename() == "saved" && renamed != 0) {
      clocks.insert(renamed);
      renamed = 0;
    }
  }
  return {clocks.begin(), clocks.end()};
}

}  // namespace verbena::process_test
