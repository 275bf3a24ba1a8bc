// What etcd is asked and what it answers, as text. The answers are etcd 3.4.23's.
#include "cluster/etcd_json.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace verbena::cluster {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::IsEmpty;
using ::testing::SizeIs;

const std::string kHeader = R"("header":{"cluster_id":"3","member_id":"4","revision":"7","raft_term":"2"})";
const Request kGet = KeyRange{.key = "a", .is_prefix = true};
const Request kTransaction = Transaction{.puts = {{"a", "b"}}};

template <class Result>
Result decoded(const Request& request, const std::string& body) {
  const auto answer = decode_etcd_answer(request, kHttpOk, body);
  EXPECT_TRUE(answer.ok()) << answer.status();
  return answer.ok() ? std::get<Result>(*answer) : Result{};
}

TEST(EtcdJsonTest, AsksForRanges) {
  const EtcdPost one = etcd_post(KeyRange{.key = "a\xff"});
  EXPECT_STREQ(one.path, "/v3/kv/range");
  EXPECT_EQ(json::parse(one.body), json({{"key", "Yf8="}}));
  // "a\xff" … "b"
  EXPECT_EQ(json::parse(etcd_post(KeyRange{.key = "a\xff", .is_prefix = true}).body),
            json({{"key", "Yf8="}, {"range_end", "Yg=="}}));
  EXPECT_EQ(json::parse(etcd_post(KeyRange{.key = "\xff", .is_prefix = true}).body),
            json({{"key", "/w=="}, {"range_end", "AA=="}}));
}

TEST(EtcdJsonTest, AsksForTransactions) {
  const EtcdPost post = etcd_post(Transaction{
      .conditions = {{"a", Condition::Of::kCreated, 0}, {"b", Condition::Of::kModified, 1ULL << 53 | 1}},
      .puts = {{"c", "d", 5}, {"e", ""}},
      .deletes = {"f"}});
  EXPECT_STREQ(post.path, "/v3/kv/txn");
  EXPECT_EQ(json::parse(post.body), json::parse(R"({
    "compare": [{"key": "YQ==", "target": "CREATE", "result": "EQUAL", "create_revision": "0"},
                {"key": "Yg==", "target": "MOD", "result": "EQUAL", "mod_revision": "9007199254740993"}],
    "success": [{"request_put": {"key": "Yw==", "value": "ZA==", "lease": "5"}},
                {"request_put": {"key": "ZQ==", "value": ""}},
                {"request_delete_range": {"key": "Zg=="}}]})"));
}

TEST(EtcdJsonTest, AsksForLeasesOfWholeSeconds) {
  EXPECT_EQ(json::parse(etcd_post(GrantLease{milliseconds(1001)}).body), json({{"TTL", "2"}}));
  EXPECT_EQ(json::parse(etcd_post(GrantLease{milliseconds(100)}).body), json({{"TTL", "1"}}));
  EXPECT_EQ(json::parse(etcd_post(KeepLease{12}).body), json({{"ID", "12"}}));
  EXPECT_EQ(json::parse(etcd_post(RevokeLease{12}).body), json({{"ID", "12"}}));
}

TEST(EtcdJsonTest, UnderstandsRanges) {
  EXPECT_EQ(decoded<Snapshot>(kGet, "{" + kHeader + "}").revision, 7U);
  const auto snapshot = decoded<Snapshot>(
      kGet,
      "{" + kHeader +
          R"(,"kvs":[{"key":"YQ==","create_revision":"2","mod_revision":"3","version":"2","value":"/w=="},
                   {"key":"YWI=","create_revision":"7","mod_revision":"7","version":"1","lease":"9"}],"count":"2"})");
  ASSERT_THAT(snapshot.entries, SizeIs(2));
  EXPECT_EQ(snapshot.entries[0], (Entry{.key = "a", .value = "\xff", .created = 2, .modified = 3}));
  EXPECT_EQ(snapshot.entries[1], (Entry{.key = "ab", .value = "", .created = 7, .modified = 7, .lease = 9}));
}

TEST(EtcdJsonTest, UnderstandsTransactionsAndLeases) {
  EXPECT_TRUE(decoded<TransactionResult>(kTransaction, "{" + kHeader + R"(,"succeeded":true})").succeeded);
  const auto failed = decoded<TransactionResult>(kTransaction, "{" + kHeader + "}");
  EXPECT_FALSE(failed.succeeded);
  EXPECT_EQ(failed.revision, 7U);
  const auto lease = decoded<Lease>(GrantLease{seconds(1)}, "{" + kHeader + R"(,"ID":"77","TTL":"2"})");
  EXPECT_EQ(lease.id, 77U);
  EXPECT_EQ(lease.ttl, seconds(2));
  EXPECT_EQ(decoded<Lease>(KeepLease{77}, R"({"result":{)" + kHeader + R"(,"ID":"77","TTL":"2"}})").id, 77U);
  // An expired one.
  EXPECT_TRUE(absl::IsNotFound(
      decode_etcd_answer(KeepLease{77}, kHttpOk, R"({"result":{)" + kHeader + R"(,"ID":"77"}})").status()));
  decoded<Revoked>(RevokeLease{77}, "{" + kHeader + "}");
}

TEST(EtcdJsonTest, UnderstandsErrors) {
  const auto code = [](const Request& request, long http, const std::string& body) {
    return decode_etcd_answer(request, http, body).status().code();
  };
  const std::string no_lease =
      R"({"error":"etcdserver: requested lease not found","message":"etcdserver: requested lease not found","code":5})";
  EXPECT_EQ(code(kTransaction, 404, no_lease), absl::StatusCode::kNotFound);
  EXPECT_EQ(code(RevokeLease{5}, 404, no_lease), absl::StatusCode::kOk);
  EXPECT_EQ(code(kGet, 503, R"({"error":"etcdserver: request timed out","code":14})"),
            absl::StatusCode::kUnavailable);
  EXPECT_EQ(code(kGet, 400, R"({"error":"etcdserver: user name is empty","code":3})"),
            absl::StatusCode::kUnauthenticated);
  EXPECT_EQ(code(kGet, 400, R"({"error":"etcdserver: revision of auth store is old","code":3})"),
            absl::StatusCode::kUnauthenticated);
  EXPECT_EQ(code(kGet, 401, R"({"error":"etcdserver: invalid auth token","code":16})"),
            absl::StatusCode::kUnauthenticated);
  EXPECT_EQ(code(kGet, 429, R"({"error":"etcdserver: too many requests","code":8})"),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(code(kGet, 403, R"({"error":"etcdserver: permission denied","code":7})"),
            absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(code(kGet, 404, "Not Found"), absl::StatusCode::kUnavailable);
  EXPECT_EQ(code(kGet, 500, ""), absl::StatusCode::kUnavailable);
  EXPECT_EQ(code(KeepLease{5}, kHttpOk, R"({"error":{"grpc_code":14,"message":"no leader"}})"),
            absl::StatusCode::kUnavailable);
  // What others have written goes into no terminal as it is.
  const auto status = decode_etcd_answer(kGet, 502, "\x1b[2J\n").status();
  EXPECT_EQ(status.message().find('\x1b'), std::string::npos);
}

TEST(EtcdJsonTest, NonsenseIsUnavailable) {
  const std::vector<std::string> bodies = {
      "", "null", "[]", "7", "{}", "{", std::string(100'000, '['), R"({"header":7})",
      R"({"header":{"revision":7.5}})", R"({"header":{"revision":"-1"}})",
      R"({"header":{"revision":"18446744073709551616"}})", "{" + kHeader + R"(,"kvs":{}})",
      "{" + kHeader + R"(,"kvs":[7]})",
      "{" + kHeader + R"(,"kvs":[{"key":"?","create_revision":"1","mod_revision":"1"}]})",
      "{" + kHeader + R"(,"kvs":[{"key":"YQ=="}]})",
      // Of another range; later than the store; twice; not all.
      "{" + kHeader + R"(,"kvs":[{"key":"Yg==","create_revision":"1","mod_revision":"1"}]})",
      "{" + kHeader + R"(,"kvs":[{"key":"YQ==","create_revision":"1","mod_revision":"8"}]})",
      "{" + kHeader + R"(,"kvs":[{"key":"YQ==","create_revision":"1","mod_revision":"1"},
                                 {"key":"YQ==","create_revision":"1","mod_revision":"1"}]})",
      "{" + kHeader + R"(,"more":true})"};
  for (const std::string& body : bodies)
    EXPECT_TRUE(absl::IsUnavailable(decode_etcd_answer(kGet, kHttpOk, body).status())) << body;
  EXPECT_TRUE(absl::IsUnavailable(decode_etcd_answer(kTransaction, kHttpOk, "{}").status()));
  EXPECT_TRUE(absl::IsUnavailable(
      decode_etcd_answer(kTransaction, kHttpOk, "{" + kHeader + R"(,"succeeded":"yes"})").status()));
  // A lease of less than was asked for.
  EXPECT_TRUE(absl::IsUnavailable(
      decode_etcd_answer(GrantLease{seconds(5)}, kHttpOk, "{" + kHeader + R"(,"ID":"77","TTL":"2"})")
          .status()));
  EXPECT_TRUE(
      absl::IsUnavailable(decode_etcd_answer(GrantLease{seconds(1)}, kHttpOk, R"({"TTL":"2"})").status()));
}

TEST(EtcdJsonTest, UnderstandsWatches) {
  const EtcdPost post = etcd_watch_post("a", 8);
  EXPECT_STREQ(post.path, "/v3/watch");
  EXPECT_EQ(json::parse(post.body), json::parse(R"({"create_request":
    {"key":"YQ==","range_end":"Yg==","start_revision":"8"}})"));
  const auto created = decode_etcd_watch_line(R"({"result":{)" + kHeader + R"(,"created":true}})");
  ASSERT_TRUE(created.ok()) << created.status();
  EXPECT_THAT(*created, IsEmpty());
  const auto events = decode_etcd_watch_line(
      R"({"result":{)" + kHeader +
      R"(,"events":[{"kv":{"key":"YQ==","create_revision":"5","mod_revision":"5","version":"1","value":"Yg=="}},
          {"type":"DELETE","kv":{"key":"YQ==","mod_revision":"6"}}]}})");
  ASSERT_TRUE(events.ok()) << events.status();
  ASSERT_THAT(*events, SizeIs(2));
  EXPECT_FALSE((*events)[0].is_delete);
  EXPECT_EQ((*events)[0].entry, (Entry{.key = "a", .value = "b", .created = 5, .modified = 5}));
  EXPECT_TRUE((*events)[1].is_delete);
  EXPECT_EQ((*events)[1].entry, (Entry{.key = "a", .modified = 6}));
}

TEST(EtcdJsonTest, UnderstandsTheEndOfAWatch) {
  const auto code = [](const std::string& line) { return decode_etcd_watch_line(line).status().code(); };
  EXPECT_EQ(code(R"({"result":{)" + kHeader + R"(,"canceled":true,"compact_revision":"2"}})"),
            absl::StatusCode::kOutOfRange);
  EXPECT_EQ(code(R"({"result":{)" + kHeader + R"(,"canceled":true,"cancel_reason":"no leader"}})"),
            absl::StatusCode::kUnavailable);
  EXPECT_EQ(code(R"({"error":{"grpc_code":14,"http_code":503,"message":"no leader"}})"),
            absl::StatusCode::kUnavailable);
  for (
      const std::string& line :
      {std::string(), std::string("{"), std::string("{}"), std::string(R"({"result":[]})"),
       R"({"result":{)" + kHeader + R"(,"events":[{"type":"DELETE"}]}})",
       R"({"result":{)" + kHeader + R"(,"events":[{"type":"MOVE","kv":{"key":"YQ==","mod_revision":"6"}}]}})",
       // Backwards.
       R"({"result":{)" + kHeader +
           R"(,"events":[{"kv":{"key":"YQ==","mod_revision":"6"}},{"kv":{"key":"YQ==","mod_revision":"5"}}]}})"}) {
    EXPECT_EQ(code(line), absl::StatusCode::kUnavailable) << line;
  }
}

TEST(EtcdJsonTest, UnderstandsLogins) {
  EXPECT_EQ(json::parse(etcd_login_post("u", "p").body), json({{"name", "u"}, {"password", "p"}}));
  EXPECT_EQ(decode_etcd_login(kHttpOk, "{" + kHeader + R"(,"token":"abc.5"})").value(), "abc.5");
  EXPECT_FALSE(decode_etcd_login(kHttpOk, "{" + kHeader + "}").ok());
  // A header of its own.
  EXPECT_FALSE(decode_etcd_login(kHttpOk, "{" + kHeader + R"(,"token":"a\r\nb: c"})").ok());
  EXPECT_TRUE(absl::IsInvalidArgument(
      decode_etcd_login(
          400, R"({"error":"etcdserver: authentication failed, invalid user ID or password","code":3})")
          .status()));
}

}  // namespace
}  // namespace verbena::cluster
