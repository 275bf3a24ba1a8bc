// The server functions that every process knows; <verbena/server_function.hpp> says what they do.
#pragma once

#include <span>

#include <verbena/server_function.hpp>

namespace verbena::protocol {

[[nodiscard]] std::span<const ServerFunctionKind> common_functions();

}  // namespace verbena::protocol
