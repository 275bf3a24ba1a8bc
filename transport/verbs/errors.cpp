#include "transport/verbs/errors.hpp"

#include <fmt/format.h>

#include <cstring>

namespace verbena::transport::verbs {

namespace {

struct Meaning {
  OperationResult result;
  absl::StatusCode code;
  std::string_view text;
};

constexpr Meaning kDeviceFault = {OperationResult::kDeviceError, absl::StatusCode::kInternal,
                                  "the device ended the connection"};

Meaning meaning_of(ibv_wc_status status) {
  using Result = OperationResult;
  using Code = absl::StatusCode;
  switch (status) {
    case IBV_WC_SUCCESS:
      return {Result::kOk, Code::kOk, ""};
    case IBV_WC_WR_FLUSH_ERR:
      return {Result::kFlushed, Code::kUnavailable, "it closed, died or became unreachable"};
    case IBV_WC_RETRY_EXC_ERR:
    case IBV_WC_RESP_TIMEOUT_ERR:
      return {Result::kPeerGone, Code::kUnavailable,
              "it has not answered: its process or host is down, or the link is broken"};
    case IBV_WC_RNR_RETRY_EXC_ERR:
      return {Result::kPeerGone, Code::kUnavailable, "it took nothing more for too long"};
    case IBV_WC_REM_ABORT_ERR:
      return {Result::kPeerGone, Code::kUnavailable, "it gave the operation up"};
    case IBV_WC_REM_ACCESS_ERR:
      return {Result::kAccessDenied, Code::kPermissionDenied,
              "the operation is not allowed there: no such region, not granted to us, without that right, or "
              "out of its bounds"};
    case IBV_WC_LOC_PROT_ERR:
    case IBV_WC_LOC_ACCESS_ERR:
      return {Result::kAccessDenied, Code::kPermissionDenied,
              "a request was posted to it whose local bytes are in no region that allows it"};
    case IBV_WC_MW_BIND_ERR:
      return {Result::kAccessDenied, Code::kPermissionDenied,
              "a region that was granted to it is gone, or the device cannot grant it"};
    case IBV_WC_LOC_LEN_ERR:
      return {Result::kDeviceError, Code::kDataLoss,
              "more bytes came than the receiver or the device can take"};
    case IBV_WC_REM_INV_REQ_ERR:
    case IBV_WC_REM_INV_RD_REQ_ERR:
    case IBV_WC_BAD_RESP_ERR:
      return {Result::kDeviceError, Code::kInternal, "its device did not understand ours"};
    case IBV_WC_REM_OP_ERR:
      return {Result::kDeviceError, Code::kInternal, "its device could not carry the operation out"};
    default:
      return kDeviceFault;
  }
}

/// The name in <infiniband/verbs.h>, by which users can search for advice.
std::string_view name_of(ibv_wc_status status) {
  static constexpr std::string_view kNames[] = {"IBV_WC_SUCCESS",
                                                "IBV_WC_LOC_LEN_ERR",
                                                "IBV_WC_LOC_QP_OP_ERR",
                                                "IBV_WC_LOC_EEC_OP_ERR",
                                                "IBV_WC_LOC_PROT_ERR",
                                                "IBV_WC_WR_FLUSH_ERR",
                                                "IBV_WC_MW_BIND_ERR",
                                                "IBV_WC_BAD_RESP_ERR",
                                                "IBV_WC_LOC_ACCESS_ERR",
                                                "IBV_WC_REM_INV_REQ_ERR",
                                                "IBV_WC_REM_ACCESS_ERR",
                                                "IBV_WC_REM_OP_ERR",
                                                "IBV_WC_RETRY_EXC_ERR",
                                                "IBV_WC_RNR_RETRY_EXC_ERR",
                                                "IBV_WC_LOC_RDD_VIOL_ERR",
                                                "IBV_WC_REM_INV_RD_REQ_ERR",
                                                "IBV_WC_REM_ABORT_ERR",
                                                "IBV_WC_INV_EECN_ERR",
                                                "IBV_WC_INV_EEC_STATE_ERR",
                                                "IBV_WC_FATAL_ERR",
                                                "IBV_WC_RESP_TIMEOUT_ERR",
                                                "IBV_WC_GENERAL_ERR",
                                                "IBV_WC_TM_ERR",
                                                "IBV_WC_TM_RNDV_INCOMPLETE"};
  const auto index = static_cast<std::size_t>(status);
  return index < std::size(kNames) ? kNames[index] : "a status unknown to this program";
}

}  // namespace

std::string errno_text(int error, std::string_view what) {
  const char* name = ::strerrorname_np(error);
  const char* text = ::strerrordesc_np(error);
  return fmt::format("{}: {} ({})", what, name == nullptr ? "unknown error" : name,
                     text == nullptr ? fmt::format("{}", error) : text);
}

absl::Status errno_status(int error, std::string_view what) {
  return absl::Status(absl::ErrnoToStatusCode(error), errno_text(error, what));
}

OperationResult result_of(ibv_wc_status status) {
  return meaning_of(status).result;
}

absl::Status status_of(ibv_wc_status status, std::string_view peer) {
  const Meaning meaning = meaning_of(status);
  return absl::Status(meaning.code, fmt::format("{}: {} ({})", peer, meaning.text, name_of(status)));
}

}  // namespace verbena::transport::verbs
