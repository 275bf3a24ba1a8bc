#include "transport/verbs/adapter_kind.hpp"

#include <fmt/format.h>

#include <filesystem>

namespace verbena::transport::verbs {

std::string kernel_driver(const std::string& device) {
  if (device.empty()) return "";
  std::error_code error;
  return std::filesystem::read_symlink(std::filesystem::path(device) / "device" / "driver", error)
      .filename()
      .string();
}

std::string other_adapter(std::string_view driver) {
  if (driver == "efa") return "an Elastic Fabric Adapter (EFA)";
  if (driver.starts_with("habana") || driver.starts_with("hbl")) return "a port of a Gaudi accelerator";
  if (driver.starts_with("usnic")) return "a usNIC";
  if (driver.empty()) return "an adapter of another kind than InfiniBand, RoCE and iWARP";
  return fmt::format("an adapter of the driver {}, of another kind than InfiniBand, RoCE and iWARP", driver);
}

std::string no_reliable_connections(std::string_view driver) {
  return fmt::format("it is {}, which has no reliable connections", other_adapter(driver));
}

}  // namespace verbena::transport::verbs
