#include "transport/transport.hpp"

#include <cassert>

namespace verbena::transport {

RemoteDescriptor RemoteDescriptor::slice(std::uint64_t offset, std::uint64_t length) const {
  assert(offset <= length_bytes && length <= length_bytes - offset);
  return {.address = address + offset, .length_bytes = length, .key = key};
}

std::string_view to_string(OperationResult result) {
  switch (result) {
    case OperationResult::kOk:
      return "ok";
    case OperationResult::kPeerGone:
      return "peer gone";
    case OperationResult::kAccessDenied:
      return "access denied";
    case OperationResult::kFlushed:
      return "flushed";
    case OperationResult::kDeviceError:
      return "device error";
  }
  return "unknown result";
}

}  // namespace verbena::transport
