// The store in etcd, with members that do what etcd should not do, or does when it is in trouble.
#include "cluster/etcd_store.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <string>

#include "tests/store/fake_etcd.hpp"

namespace verbena::cluster {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

const std::string kEmpty = R"({"header":{"revision":"7"}})";
const std::string kCreated = R"({"result":{"header":{"revision":"7"},"created":true}})"
                             "\n";

/// "k" is put in this revision.
std::string event(Revision revision) {
  return fmt::format(
      R"({{"result":{{"header":{{"revision":"{0}"}},"events":[{{"kv":{{"key":"aw==","create_revision":"{0}","mod_revision":"{0}"}}}}]}}}})"
      "\n",
      revision);
}

class EtcdStoreTest : public ::testing::Test, public Surroundings {
 protected:
  /// For members that do not answer. Where a member does, it has all the time that a busy machine needs.
  static constexpr Duration kSoon = milliseconds(200);

  FakeEtcd& member(FakeEtcd::Answer answer) { return members_.emplace_back(std::move(answer)); }
  static FakeEtcd::Reply good(const FakeEtcd::Post& post) {
    if (post.path == "/v3/watch") return {FakeEtcd::chunks(kCreated)};
    if (post.path == "/v3/auth/authenticate") return FakeEtcd::whole(200, R"({"token":"t"})");
    return FakeEtcd::whole(
        200, post.path == "/v3/kv/txn" ? R"({"header":{"revision":"7"},"succeeded":true})" : kEmpty);
  }
  static FakeEtcd::Reply silent(const FakeEtcd::Post& /*post*/) { return {}; }

  /// With all members that there are.
  std::unique_ptr<EtcdStore> connect(Duration attempt_limit = seconds(20), EtcdOptions options = {}) {
    for (const FakeEtcd& each : members_) options.endpoints.push_back(each.endpoint());
    options.attempt_limit = attempt_limit;
    options.connect_limit = seconds(20);
    auto store = EtcdStore::create(std::move(options));
    EXPECT_TRUE(store.ok()) << store.status();
    driver_.add(**store);
    return *std::move(store);
  }
  absl::Status put(Store& store, Duration limit = seconds(20)) {
    return driver_.transact(store, {.puts = {{"k", "v"}}}, limit).status();
  }
  absl::Status get(Store& store, Duration limit = seconds(20)) {
    return driver_.get(store, {.key = "k"}, limit).status();
  }

  void add_descriptors(std::vector<pollfd>& wanted) const override {
    for (const FakeEtcd& each : members_) each.add_descriptors(wanted);
  }
  void poll(TimePoint now) override {
    for (FakeEtcd& each : members_) each.poll(now);
  }

  std::deque<FakeEtcd> members_;
  Driver driver_{*this};
};

TEST_F(EtcdStoreTest, SaysWhatIsNoEndpoint) {
  const auto refused = [](std::vector<std::string> endpoints) {
    return absl::IsInvalidArgument(EtcdStore::create({.endpoints = std::move(endpoints)}).status());
  };
  EXPECT_TRUE(refused({}));
  EXPECT_TRUE(refused({"127.0.0.1:2379"}));
  EXPECT_TRUE(refused({"ftp://127.0.0.1:2379"}));
  EXPECT_TRUE(refused({"http://127.0.0.1:2379/"}));
  EXPECT_TRUE(refused({"http://a\nb"}));
}

TEST_F(EtcdStoreTest, IdleAsksNothing) {
  FakeEtcd& one = member(good);
  const auto store = connect();
  EXPECT_EQ(store->next_poll(), TimePoint::max());
  EXPECT_TRUE(get(*store).ok());
  Heard heard;
  store->watch("k", 1, heard.listener());
  driver_.run_until([&] { return one.count("/v3/watch") == 1; });
  const std::size_t posts = one.posts().size();
  driver_.run_for(kSoon);
  EXPECT_EQ(one.posts().size(), posts);
  EXPECT_FALSE(heard.end);
}

TEST_F(EtcdStoreTest, TheNextMemberIsAskedAtOnce) {
  const std::vector<FakeEtcd::Answer> all_bad = {
      [](const auto&) { return FakeEtcd::whole(503, R"({"error":"no leader","code":14})"); },
      [](const auto&) { return FakeEtcd::whole(200, "{nonsense"); },
      [](const auto&) {
        return FakeEtcd::Reply{"", true};
      },
      [](const auto&) {
        return FakeEtcd::Reply{"HTTP/1.1 200 OK\r\nContent-Le", true};
      },
      [](const auto&) {
        return FakeEtcd::Reply{"no HTTP at all\r\n\r\n", true};
      },
      [](const auto&) {
        return FakeEtcd::Reply{"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{", true};
      }};
  for (const FakeEtcd::Answer& bad : all_bad) {
    members_.clear();
    FakeEtcd& first = member(bad);
    FakeEtcd& second = member(good);
    const auto store = connect();
    EXPECT_TRUE(get(*store).ok());
    EXPECT_THAT(first.posts(), SizeIs(1));
    EXPECT_THAT(second.posts(), SizeIs(1));
    // And stays the one.
    EXPECT_TRUE(get(*store).ok());
    EXPECT_THAT(first.posts(), SizeIs(1));
    driver_.remove(*store);
  }
}

TEST_F(EtcdStoreTest, ASilentMemberIsNotWaitedForLong) {
  member(silent);
  FakeEtcd& second = member(good);
  const auto store = connect(kSoon);
  EXPECT_TRUE(get(*store).ok());
  EXPECT_GE(second.posts().size(), 1U);
}

TEST_F(EtcdStoreTest, AMemberThatIsNotThereHearsNoTransaction) {
  FakeEtcd& first = member(good);
  FakeEtcd& second = member(good);
  const auto store = connect();
  first.close();
  EXPECT_TRUE(put(*store).ok());
  EXPECT_EQ(second.count("/v3/kv/txn"), 1U);
  // With no member at all nothing has happened.
  second.close();
  const absl::Status none = put(*store, milliseconds(300));
  EXPECT_TRUE(absl::IsUnavailable(none)) << none;
  EXPECT_THAT(std::string(none.message()), HasSubstr("127.0.0.1"));
}

TEST_F(EtcdStoreTest, ATransactionGoesOutOnce) {
  // It is heard, and the connection is closed without an answer: also one that has answered before.
  for (const bool has_answered : {false, true}) {
    members_.clear();
    FakeEtcd& first = member(good);
    FakeEtcd& second = member(good);
    const auto store = connect();
    if (has_answered) {
      EXPECT_TRUE(get(*store).ok());
    }
    first.set_answer([](const auto&) { return FakeEtcd::Reply{"", true}; });
    const absl::Status unknown = put(*store);
    EXPECT_TRUE(absl::IsUnknown(unknown)) << unknown;
    driver_.run_for(kSoon);
    EXPECT_EQ(first.count("/v3/kv/txn") + second.count("/v3/kv/txn"), 1U);
    // The next one is asked elsewhere.
    EXPECT_TRUE(put(*store).ok());
    EXPECT_EQ(second.count("/v3/kv/txn"), 1U);
    driver_.remove(*store);
  }
}

TEST_F(EtcdStoreTest, WhatNobodyAnswersIsUnknown) {
  FakeEtcd& first = member(silent);
  {
    // The member's time is up.
    const auto store = connect(kSoon);
    EXPECT_TRUE(outcome_unknown(put(*store)));
    driver_.remove(*store);
  }
  const auto store = connect();
  // The transaction's is.
  EXPECT_TRUE(absl::IsDeadlineExceeded(put(*store, kSoon)));
  EXPECT_TRUE(absl::IsDeadlineExceeded(get(*store, kSoon)));
  EXPECT_EQ(first.count("/v3/kv/txn"), 2U);
  // An answer that may be to something that has happened.
  first.set_answer([](const auto&) {
    return FakeEtcd::whole(503, R"({"error":"etcdserver: request timed out","code":14})");
  });
  EXPECT_TRUE(absl::IsUnknown(put(*store)));
  first.set_answer([](const auto&) { return FakeEtcd::whole(200, R"({"header":{}})"); });
  EXPECT_TRUE(absl::IsUnknown(put(*store)));
}

TEST_F(EtcdStoreTest, WhoFailsIsNotAskedWithoutEnd) {
  FakeEtcd& only = member([](const auto&) { return FakeEtcd::whole(503, ""); });
  const auto store = connect();
  EXPECT_TRUE(absl::IsUnavailable(get(*store, seconds(1))));
  EXPECT_GE(only.posts().size(), 2U);
  EXPECT_LE(only.posts().size(), 10U);
}

TEST_F(EtcdStoreTest, ALongAnswerIsCutOff) {
  // It would be right but for its length, so that only that is a reason to ask another one.
  FakeEtcd& first =
      member([](const auto&) { return FakeEtcd::whole(200, kEmpty + std::string(40 << 20, ' ')); });
  FakeEtcd& second = member(good);
  EtcdOptions options{.endpoints = {first.endpoint(), second.endpoint()}, .attempt_limit = seconds(60)};
  const auto store = EtcdStore::create(std::move(options)).value();
  driver_.add(*store);
  EXPECT_TRUE(get(*store).ok());
  EXPECT_THAT(second.posts(), SizeIs(1));
}

TEST_F(EtcdStoreTest, RefusalsAreFinal) {
  FakeEtcd& only = member([](const auto&) {
    return FakeEtcd::whole(404, R"({"error":"etcdserver: requested lease not found","code":5})");
  });
  member(good);
  const auto store = connect();
  EXPECT_TRUE(absl::IsNotFound(put(*store)));
  EXPECT_TRUE(absl::IsNotFound(driver_.keep_alive(*store, 5).status()));
  EXPECT_TRUE(driver_.revoke(*store, 5).ok());
  EXPECT_THAT(only.posts(), SizeIs(3));
}

TEST_F(EtcdStoreTest, AWatchHearsLinesHoweverTheyAreCut) {
  FakeEtcd& one = member(good);
  const auto store = connect();
  Heard heard;
  store->watch("k", 8, heard.listener());
  driver_.run_until([&] { return one.count("/v3/watch") == 1; });
  const std::string two = event(8) + event(9);
  for (std::size_t at = 0; at < two.size(); at += 7) {
    one.say(FakeEtcd::chunk(two.substr(at, 7)));
    driver_.run_for(milliseconds(1));
  }
  driver_.run_until([&] { return heard.events.size() == 2; });
  EXPECT_EQ(heard.events[1].entry.modified, 9U);
  EXPECT_FALSE(heard.end);
}

TEST_F(EtcdStoreTest, AnyDoubtEndsAWatch) {
  const std::vector<std::string> doubts = {
      FakeEtcd::last_chunk(),  // etcd ends
      FakeEtcd::chunk(event(8).substr(0, 20)) + FakeEtcd::last_chunk(),
      FakeEtcd::chunk("nonsense\n"),
      FakeEtcd::chunk("\n"),
      FakeEtcd::chunk(event(9) + event(8)),  // back in time
      FakeEtcd::chunk(event(9) + event(9)),
      FakeEtcd::chunk(R"({"error":{"grpc_code":14,"message":"no leader"}})"
                      "\n"),
      "no chunk\r\n"};
  for (const std::string& each : doubts) {
    members_.clear();
    FakeEtcd& one = member(good);
    const auto store = connect();
    Heard heard;
    store->watch("k", 8, heard.listener());
    driver_.run_until([&] { return one.count("/v3/watch") == 1; });
    one.say(each);
    driver_.run_until([&] { return heard.end.has_value(); });
    EXPECT_TRUE(absl::IsUnavailable(*heard.end)) << *heard.end;
    EXPECT_THAT(heard.events, SizeIs(each.find("\"9\"") != std::string::npos ? 1 : 0));
    driver_.remove(*store);
  }
}

TEST_F(EtcdStoreTest, AWatchOfWhatIsForgottenSaysSo) {
  member([](const auto&) {
    return FakeEtcd::Reply{
        FakeEtcd::chunks(kCreated + R"({"result":{"header":{},"canceled":true,"compact_revision":"5"}})"
                                    "\n")};
  });
  const auto store = connect();
  Heard heard;
  store->watch("k", 1, heard.listener());
  driver_.run_until([&] { return heard.end.has_value(); });
  EXPECT_TRUE(absl::IsOutOfRange(*heard.end)) << *heard.end;
}

TEST_F(EtcdStoreTest, AWatchThatDoesNotBeginEnds) {
  member(silent);
  const auto store = connect(kSoon);
  Heard heard;
  store->watch("k", 1, heard.listener());
  driver_.run_until([&] { return heard.end.has_value(); });
  EXPECT_TRUE(absl::IsUnavailable(*heard.end)) << *heard.end;
}

TEST_F(EtcdStoreTest, AWatchEndsWithTheMembersLastAnswer) {
  // It takes posts, and keeps its connections, as a stopped process does.
  FakeEtcd& first = member(good);
  FakeEtcd& second = member(good);
  const auto store = connect(kSoon);
  Heard heard;
  store->watch("k", 8, heard.listener());
  driver_.run_until([&] { return first.count("/v3/watch") == 1; });
  driver_.run_for(milliseconds(10));
  first.set_answer(silent);
  EXPECT_TRUE(get(*store).ok());
  driver_.run_until([&] { return heard.end.has_value(); });
  store->watch("k", 8, [](const auto&) {});
  driver_.run_until([&] { return second.count("/v3/watch") == 1; });
}

TEST_F(EtcdStoreTest, AnEndlessLineIsCutOff) {
  FakeEtcd& one = member(good);
  const auto store = connect();
  Heard heard;
  store->watch("k", 8, heard.listener());
  driver_.run_until([&] { return one.count("/v3/watch") == 1; });
  const std::string much = FakeEtcd::chunk(std::string(4 << 20, ' '));
  for (int i = 0; i < 10; ++i) one.say(much);
  driver_.run_until([&] { return heard.end.has_value(); });
  EXPECT_THAT(heard.events, IsEmpty());
}

TEST_F(EtcdStoreTest, LogsInAndAgain) {
  int tokens = 0;
  std::string valid = "none";
  FakeEtcd& one = member([&](const FakeEtcd::Post& post) {
    if (post.path == "/v3/auth/authenticate") {
      valid = fmt::format("token-{}", ++tokens);
      return FakeEtcd::whole(200, fmt::format(R"({{"header":{{}},"token":"{}"}})", valid));
    }
    if (post.header.find("Authorization: " + valid) == std::string::npos)
      return FakeEtcd::whole(401, R"({"error":"etcdserver: invalid auth token","code":16})");
    return good(post);
  });
  const auto store = connect(seconds(20), {.user = "u", .password = "p"});
  EXPECT_TRUE(put(*store).ok());
  valid = "another";  // the first is too old
  EXPECT_TRUE(put(*store).ok());
  EXPECT_EQ(tokens, 2);
  EXPECT_THAT(one.posts()[0].body, HasSubstr("\"u\""));
}

TEST_F(EtcdStoreTest, AWrongPasswordIsFinal) {
  FakeEtcd& one = member([](const auto&) {
    return FakeEtcd::whole(
        400, R"({"error":"etcdserver: authentication failed, invalid user ID or password","code":3})");
  });
  const auto store = connect(seconds(20), {.user = "u", .password = "p"});
  const absl::Status refused = put(*store);
  EXPECT_TRUE(absl::IsUnauthenticated(refused)) << refused;
  EXPECT_THAT(one.posts(), SizeIs(1));
  Heard heard;
  store->watch("k", 8, heard.listener());
  driver_.run_until([&] { return heard.end.has_value(); });
  EXPECT_TRUE(absl::IsUnauthenticated(*heard.end)) << *heard.end;
}

}  // namespace
}  // namespace verbena::cluster
