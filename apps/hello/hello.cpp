// The library in a few lines: one worker of a job, against servers that are running already.
//
//   verbena server --job hello &
//   hello shm:hello/server-0
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <vector>

#include <verbena/session.hpp>
#include <verbena/table.hpp>

namespace {

absl::Status say_hello(const std::vector<std::string>& servers) {
  auto session = verbena::Session::connect({.servers = servers});
  if (!session.ok()) return session.status();
  auto weights = (*session)->table<float>(
      {.name = "weights", .rows = 1 << 20, .width = 4, .consistency = verbena::Essp{.staleness = 2}});
  if (!weights.ok()) return weights.status();

  const std::vector<verbena::Key> keys{7, 42};
  const std::vector<float> updates{1, 2, 3, 4, 10, 20, 30, 40};
  std::vector<float> values(updates.size());
  for (int iteration = 0; iteration < 3; ++iteration) {
    if (absl::Status status = weights->push(keys, updates); !status.ok()) return status;
    if (absl::Status status = (*session)->clock(); !status.ok()) return status;
    if (absl::Status status = weights->pull(keys, values); !status.ok()) return status;
    std::cout << "clock " << (*session)->current_clock() << ": row 7 starts with " << values[0]
              << ", row 42 with " << values[4] << '\n';
  }
  return absl::OkStatus();
}

}  // namespace

int main(int argc, char** argv) {
  const absl::Status status = say_hello({argv + 1, argv + argc});
  if (!status.ok()) std::cerr << "hello: " << status.message() << '\n';
  return status.ok() ? EXIT_SUCCESS : EXIT_FAILURE;
}
