// The stores that keep the contract, each with what is behind it.
#pragma once

#include <cstdint>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "cluster/store.hpp"
#include "tests/store/driver.hpp"

namespace verbena::cluster {

class Backend : public Surroundings {
 public:
  /// Another process's store.
  virtual std::unique_ptr<Store> connect() = 0;
  /// Forgets all changes before `first`.
  virtual absl::Status compact(Revision first) = 0;
};

/// For a parameter of a suite: how a backend is made. An error says what to install.
struct BackendKind {
  std::string name;
  absl::StatusOr<std::unique_ptr<Backend>> (*make)();
};
std::vector<BackendKind> backend_kinds();
/// How GoogleTest shows it.
inline void PrintTo(const BackendKind& kind, std::ostream* out) {
  *out << kind.name;
}

}  // namespace verbena::cluster
