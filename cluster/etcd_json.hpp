// What etcd's JSON gateway (/v3/…, etcd 3.4 and later) is asked, and what it answers. Keys and values are
// base64 there, and numbers of 64 bits are texts; what is zero or empty is left out.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "cluster/store.hpp"

namespace verbena::cluster {

inline constexpr long kHttpOk = 200;

struct EtcdPost {
  const char* path;  ///< "/v3/kv/range"
  std::string body;
};

/// REQUIRES: check(request). Leases are for whole seconds there: rounded up.
EtcdPost etcd_post(const Request& request);
EtcdPost etcd_watch_post(std::string_view prefix, Revision from);
/// For a token of this user.
EtcdPost etcd_login_post(std::string_view user, std::string_view password);

/// The answer to a request. UNAVAILABLE: this is no answer, or one that another member may answer better;
/// whether the request has happened is open. UNAUTHENTICATED: another token is needed; nothing has happened.
/// Other errors are those of Store.
absl::StatusOr<Answer> decode_etcd_answer(const Request& request, long http_status, std::string_view body);
/// One line of a watch; no events: it has begun, or tells that it lives. Errors, which end the watch, as
/// those of Store::OnEvents.
absl::StatusOr<std::vector<Event>> decode_etcd_watch_line(std::string_view line);
/// The token. Errors as decode_etcd_answer().
absl::StatusOr<std::string> decode_etcd_login(long http_status, std::string_view body);

}  // namespace verbena::cluster
