#include "cluster/curl_api.hpp"

#include "base/return_if_error.hpp"
#include "base/shared_library.hpp"

namespace verbena::cluster {
namespace {

absl::StatusOr<CurlApi> load() {
  base::SharedLibrary library("libcurl.so.4", "libcurl4");
  CurlApi api{};
  library.find("curl_global_init", api.global_init);
  library.find("curl_easy_init", api.easy_init);
  library.find("curl_easy_cleanup", api.easy_cleanup);
  library.find("curl_easy_setopt", api.easy_set);
  library.find("curl_easy_getinfo", api.easy_info);
  library.find("curl_easy_strerror", api.easy_strerror);
  library.find("curl_slist_append", api.slist_append);
  library.find("curl_slist_free_all", api.slist_free_all);
  library.find("curl_multi_init", api.multi_init);
  library.find("curl_multi_cleanup", api.multi_cleanup);
  library.find("curl_multi_setopt", api.multi_set);
  library.find("curl_multi_add_handle", api.multi_add);
  library.find("curl_multi_remove_handle", api.multi_remove);
  library.find("curl_multi_socket_action", api.multi_socket_action);
  library.find("curl_multi_timeout", api.multi_timeout);
  library.find("curl_multi_info_read", api.multi_info_read);
  RETURN_IF_ERROR(library.status());
  if (api.global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
    return absl::UnavailableError("libcurl cannot be initialized");
  return api;
}

}  // namespace

absl::StatusOr<const CurlApi*> curl_api() {
  static const absl::StatusOr<CurlApi> kApi = load();
  if (!kApi.ok()) return kApi.status();
  return &*kApi;
}

}  // namespace verbena::cluster
