// libcurl's functions, loaded when they are wanted: a program that uses no etcd runs without the library.
#pragma once

// Its checks of types are macros, which would be in the way of functions that are found at run time.
#define CURL_DISABLE_TYPECHECK
#include <curl/curl.h>

#include "absl/status/statusor.h"

namespace verbena::cluster {

struct CurlApi {
  decltype(&curl_global_init) global_init;
  decltype(&curl_easy_init) easy_init;
  decltype(&curl_easy_cleanup) easy_cleanup;
  CURLcode (*easy_set)(CURL* easy, CURLoption option, ...);
  CURLcode (*easy_info)(CURL* easy, CURLINFO info, ...);
  decltype(&curl_easy_strerror) easy_strerror;
  decltype(&curl_slist_append) slist_append;
  decltype(&curl_slist_free_all) slist_free_all;
  decltype(&curl_multi_init) multi_init;
  decltype(&curl_multi_cleanup) multi_cleanup;
  CURLMcode (*multi_set)(CURLM* multi, CURLMoption option, ...);
  decltype(&curl_multi_add_handle) multi_add;
  decltype(&curl_multi_remove_handle) multi_remove;
  decltype(&curl_multi_socket_action) multi_socket_action;
  decltype(&curl_multi_timeout) multi_timeout;
  decltype(&curl_multi_info_read) multi_info_read;
};

/// UNAVAILABLE says what to install. Thread safety: any thread.
absl::StatusOr<const CurlApi*> curl_api();

}  // namespace verbena::cluster
