// The library in a few lines: a worker, alone or one of many.
//
//   hello                                          with a server of its own
//   verbena run --servers 2 --workers 4 -- hello   (docs/library.md has the other ways)
#include <cstdlib>
#include <iostream>
#include <vector>

#include <verbena/session.hpp>
#include <verbena/table.hpp>

namespace {

absl::Status say_hello() {
  auto session = verbena::Session::from_environment();
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

int main() {
  const absl::Status status = say_hello();
  if (!status.ok()) std::cerr << "hello: " << status.message() << '\n';
  return status.ok() ? EXIT_SUCCESS : EXIT_FAILURE;
}
