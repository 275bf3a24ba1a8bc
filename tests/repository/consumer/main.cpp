// Links the installed library and sees it at work as far as that goes without a server.
#include <iostream>

#include "worker/session.hpp"
#include "worker/table.hpp"

int main() {
  const auto session = verbena::Session::connect({.servers = {}});
  std::cout << session.status() << '\n';
  return session.status().code() == absl::StatusCode::kInvalidArgument ? 0 : 1;
}
