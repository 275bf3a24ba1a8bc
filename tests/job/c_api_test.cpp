// The calls of <verbena/verbena.h> that the program in docs/library.md does not make.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <string>
#include <vector>

#include <verbena/verbena.h>

namespace verbena::job {
namespace {

TEST(CApiTest, CallsServerFunctions) {
  const std::string address = fmt::format("shm:c-api-{}/server-0", ::getpid());
  const char* const servers[] = {address.c_str()};
  verbena_server_options server_options = VERBENA_SERVER_OPTIONS;
  server_options.address = servers[0];
  verbena_server* server = nullptr;
  ASSERT_EQ(verbena_start_server(&server_options, &server), VERBENA_OK) << verbena_last_error();
  verbena_session_options options = VERBENA_SESSION_OPTIONS;
  options.servers = servers;
  options.server_count = 1;
  verbena_session* session = nullptr;
  ASSERT_EQ(verbena_connect(&options, &session), VERBENA_OK) << verbena_last_error();
  verbena_table_options table_options = VERBENA_TABLE_OPTIONS;
  table_options.name = "rows";
  table_options.sparse = 1;
  table_options.consistency = "asp";
  verbena_table* table = nullptr;
  ASSERT_EQ(verbena_open(session, &table_options, &table), VERBENA_OK) << verbena_last_error();
  const std::vector<std::uint64_t> keys = {7, 1'000'000'007, 9};
  const verbena_keys some = {keys.data(), 0, keys.size()};
  const std::vector<double> numbers = {1, -5, 2};
  verbena_result* result = nullptr;
  ASSERT_EQ(verbena_call(table, "set", some, numbers.data(), numbers.size(), &result), VERBENA_OK)
      << verbena_last_error();
  EXPECT_EQ(result->key_count + result->number_count, 0U);
  verbena_end_result(result);
  ASSERT_EQ(verbena_call(table, "top(count=2)", {nullptr, 0, SIZE_MAX}, nullptr, 0, &result), VERBENA_OK)
      << verbena_last_error();
  EXPECT_EQ(std::vector(result->keys, result->keys + result->key_count),
            (std::vector<std::uint64_t>{1'000'000'007, 9}));
  EXPECT_EQ(std::vector(result->numbers, result->numbers + result->number_count),
            (std::vector<double>{5, 2}));
  verbena_end_result(result);
  verbena_table* wrong = nullptr;
  table_options.name = "filtered";
  table_options.filter = "some";
  EXPECT_EQ(verbena_open(session, &table_options, &wrong), VERBENA_INVALID_ARGUMENT);
  EXPECT_THAT(verbena_last_error(), ::testing::HasSubstr("expected none, significant"));
  table_options.filter = nullptr;
  EXPECT_EQ(verbena_open(session, &table_options, &wrong), VERBENA_INVALID_ARGUMENT);
  EXPECT_THAT(verbena_last_error(), ::testing::HasSubstr("filter and encoding are texts, not NULL"));
  EXPECT_EQ(verbena_call(table, "no-such", some, nullptr, 0, &result), VERBENA_INVALID_ARGUMENT);
  EXPECT_THAT(verbena_last_error(), ::testing::HasSubstr("no server function \"no-such\""));
  verbena_close(session);
  EXPECT_EQ(verbena_wait_for_server(server), VERBENA_OK) << verbena_last_error();
}

}  // namespace
}  // namespace verbena::job
