// A user's own program, for own_program_test: own_program MODE ARGUMENTS…
//
// Each worker adds 1 to a number in each of three iterations, and says what it sees. By mode, it also does
// this:
//   count      nothing else
//   arguments  says its arguments and how many bytes its standard input has
//   twice      joins a second time
//   silent     worker 1 ends with status 3 after the first iteration
//   gives-up   worker 1 gives up after the first iteration
//   only-one-gives-up   the same, but the other workers end without giving up
//   forks      after the first iteration each worker forks a child, which uses the session and returns
//   signals    says if it does not ignore SIGPIPE
//   secret FILE   joins with the secret in this file
//   sleeps     all workers sleep after the first iteration
//   stays-out  ends at once, without joining
//   saves FOLDER   makes a checkpoint after each iteration, and goes on from the newest one; worker 1 dies in
//              the second iteration unless it has begun with that
//
// These do something else:
//   trains-until FILE   all workers add to rows what follows from these, in many iterations, until the first
//              worker finds FILE; it then says how many there were, and the bits of all rows
//   trains N   the same in N iterations, without pauses
//   moves      opens a table whose rows move
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "base/return_if_error.hpp"
#include <verbena/session.hpp>
#include <verbena/table.hpp>

namespace {

constexpr int kIterations = 3;

/// A checkpoint's state: the iteration that it follows.
absl::StatusOr<int> iterations_before(verbena::Session& session) {
  const auto state = session.resumed_state();
  if (!state.ok()) return state.status();
  return *state ? static_cast<int>((*state)->front()) : 0;
}

absl::Status count(verbena::Session& session, const std::string& mode, const std::string& folder) {
  const auto table =
      session.table<std::int64_t>({.name = "number", .rows = 1, .width = 1, .consistency = verbena::Bsp{}});
  if (!table.ok()) return table.status();
  const verbena::KeyRange key{0, 1};
  const absl::StatusOr<int> before = iterations_before(session);
  if (!before.ok()) return before.status();
  for (int iteration = *before + 1; iteration <= kIterations; ++iteration) {
    RETURN_IF_ERROR(table->push(key, std::vector<std::int64_t>{1}));
    RETURN_IF_ERROR(session.clock());
    std::vector<std::int64_t> value(1);
    RETURN_IF_ERROR(table->pull(key, value));
    session.report({.iteration = iteration,
                    .items = 1,
                    .seconds = 0.25,
                    .sums = {{"number", static_cast<double>(value[0]) / session.workers()}}});
    std::cout << "worker " << session.rank() << " of " << session.workers() << " sees " << value[0]
              << std::endl;
    if (mode == "silent" && session.rank() == 1) std::_Exit(3);
    if (mode.ends_with("gives-up") && session.rank() == 1) return absl::AbortedError("no more coffee");
    if (mode == "sleeps") ::sleep(600);
    if (mode == "saves") {
      if (*before == 0 && iteration == 2 && session.rank() == 1) ::raise(SIGKILL);
      RETURN_IF_ERROR(session.barrier());
      RETURN_IF_ERROR(session.checkpoint({.folder = folder}, {static_cast<std::byte>(iteration)}));
      RETURN_IF_ERROR(session.finish_checkpoint());
      RETURN_IF_ERROR(session.barrier());
    }
    if (mode == "forks" && iteration == 1) {
      const pid_t child = ::fork();
      if (child == 0) {
        std::cout << table->pull(key, value) << std::endl;
        return absl::OkStatus();
      }
      int ended = -1;
      ::waitpid(child, &ended, 0);
      std::cout << "the child ended with " << ended << std::endl;
    }
  }
  return absl::OkStatus();
}

/// The sums depend on their order, and what is added on what was there: a difference in a bit stays.
std::vector<float> updates_after(const std::vector<float>& values, std::uint32_t worker, int iteration) {
  std::vector<float> updates(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto mixed = static_cast<std::uint32_t>(i + 1) * 2654435761U +
                       (worker + 1) * 40503U * static_cast<unsigned>(iteration);
    updates[i] = static_cast<float>(mixed >> 8) * 0x1p-24F - 0.1F * values[i];
  }
  return updates;
}

/// Until there is the file, or for so many iterations.
absl::Status train(verbena::Session& session, const std::string& file, int iterations) {
  constexpr std::uint64_t kRows = 64;
  constexpr std::uint32_t kWidth = 4;
  constexpr auto kPause = std::chrono::milliseconds(4);
  const auto rows =
      session.table<float>({.name = "rows", .rows = kRows, .width = kWidth, .consistency = verbena::Bsp{}});
  if (!rows.ok()) return rows.status();
  const auto ends =
      session.table<std::int64_t>({.name = "ends", .rows = 1, .width = 1, .consistency = verbena::Bsp{}});
  if (!ends.ok()) return ends.status();
  const verbena::KeyRange all{0, kRows};
  std::vector<float> values(kRows * kWidth);
  std::vector<std::int64_t> end(1);
  int iteration = 0;
  while (file.empty() ? iteration < iterations : end[0] == 0) {
    ++iteration;
    RETURN_IF_ERROR(rows->push(all, updates_after(values, session.rank(), iteration)));
    if (session.rank() == 0 && !file.empty() && std::filesystem::exists(file))
      RETURN_IF_ERROR(ends->push(verbena::KeyRange{0, 1}, std::vector<std::int64_t>{1}));
    RETURN_IF_ERROR(session.clock());
    RETURN_IF_ERROR(rows->pull(all, values));
    RETURN_IF_ERROR(ends->pull(verbena::KeyRange{0, 1}, end));
    if (iteration == 1) std::cout << "worker " << session.rank() << " trains" << std::endl;
    if (!file.empty()) std::this_thread::sleep_for(kPause);
  }
  if (session.rank() != 0) return absl::OkStatus();
  std::cout << "iterations: " << iteration << "\nbits:" << std::hex;
  for (const float value : values) std::cout << ' ' << std::bit_cast<std::uint32_t>(value);
  std::cout << std::endl;
  return absl::OkStatus();
}

absl::Status move(verbena::Session& session) {
  return session
      .table<float>({.name = "rows",
                     .rows = 8,
                     .width = 1,
                     .consistency = verbena::Asp{},
                     .allocation = verbena::Allocation::kDynamic})
      .status();
}

absl::Status run(const std::string& mode, const std::string& argument) {
  verbena::SessionOptions options;
  if (mode == "secret") options.network.secret_file = argument;
  if (mode == "saves") {
    const auto newest = verbena::newest_checkpoint(argument);
    if (newest.ok()) options.resume = newest->path;
  }
  const auto session = verbena::Session::from_environment(options);
  if (!session.ok()) return session.status();
  if (mode == "twice") std::cout << verbena::Session::from_environment().status() << std::endl;
  absl::Status status;
  if (mode == "trains-until") {
    status = train(**session, argument, 0);
  } else if (mode == "trains") {
    status = train(**session, "", std::atoi(argument.c_str()));
  } else {
    status = mode == "moves" ? move(**session) : count(**session, mode, argument);
  }
  const bool is_silent = mode == "only-one-gives-up" && (*session)->rank() != 1;
  if (!status.ok() && !is_silent) (*session)->give_up(status).IgnoreError();
  return status;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "count";
  if (mode == "stays-out") return EXIT_SUCCESS;
  if (mode == "arguments") {
    for (int i = 2; i < argc; ++i) std::cout << '[' << argv[i] << ']';
    std::cout << " input: " << std::string(std::istreambuf_iterator<char>(std::cin), {}).size() << " bytes"
              << std::endl;
  }
  if (mode == "signals" && std::signal(SIGPIPE, SIG_DFL) == SIG_DFL)
    std::cout << "SIGPIPE is not ignored" << std::endl;
  const absl::Status status = run(mode, argc > 2 ? argv[2] : "");
  if (!status.ok()) std::cerr << "own_program: " << status << std::endl;
  return status.ok() ? EXIT_SUCCESS : EXIT_FAILURE;
}
