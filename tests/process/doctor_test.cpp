// `verbena doctor` on this host, whatever devices it has, and where libibverbs cannot be loaded.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "tests/process/program.hpp"
#include "tests/temporary_folder.hpp"

namespace verbena::process_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

/// What doctor says as JSON. Checks that its text says the same.
nlohmann::json examine(
    const verbena::testing::TemporaryFolder& folder, const std::function<void()>& prepare = [] {}) {
  const Ended json_run = run(VERBENA_PROGRAM, {"doctor", "--json"}, folder.path(), prepare);
  const Ended text_run = run(VERBENA_PROGRAM, {"doctor"}, folder.path(), prepare);
  nlohmann::json said = nlohmann::json::parse(json_run.out);
  const bool verbs = said.at("verbs").get<bool>();
  const bool shared_memory = said.at("shared_memory").get<bool>();
  EXPECT_EQ(json_run.status, verbs ? 0 : shared_memory ? 1 : 3);
  EXPECT_EQ(text_run.status, json_run.status);
  EXPECT_THAT(text_run.out, Not(HasSubstr("\033"))) << "no colors: the output is not a terminal";
  for (const nlohmann::json& finding : said.at("findings")) {
    EXPECT_THAT(text_run.out, HasSubstr(finding.at("subject").get<std::string>()));
  }
  return said;
}

nlohmann::json finding(const nlohmann::json& said, const std::string& subject) {
  for (const nlohmann::json& each : said.at("findings")) {
    if (each.at("subject") == subject) return each;
  }
  ADD_FAILURE() << "no finding is about " << subject;
  return {};
}

TEST(DoctorTest, ThisHost) {
  const verbena::testing::TemporaryFolder folder;
  const nlohmann::json said = examine(folder);
  EXPECT_TRUE(said.at("shared_memory").get<bool>()) << "the other tests need it, too";
  EXPECT_EQ(finding(said, "kernel").at("level"), "ok");
}

TEST(DoctorTest, WithoutLibibverbs) {
  const verbena::testing::TemporaryFolder folder;
  verbena::testing::write_file(folder.path("libibverbs.so.1"), "");  // found first, and no library
  const nlohmann::json said = examine(folder, [&] { ::setenv("LD_LIBRARY_PATH", folder.path().c_str(), 1); });
  EXPECT_FALSE(said.at("verbs").get<bool>());
  EXPECT_EQ(finding(said, "libraries").at("level"), "problem");
  EXPECT_THAT(finding(said, "libraries").at("text").get<std::string>(), HasSubstr("libibverbs"));
}

TEST(DoctorTest, ADeviceThatIsNotThere) {
  const verbena::testing::TemporaryFolder folder;
  const Ended ended = run(VERBENA_PROGRAM, {"doctor", "--device", "no_such_device"}, folder.path());
  EXPECT_EQ(ended.status, 1);
}

TEST(DoctorTest, ImpossibleOptionsAreRefused) {
  const verbena::testing::TemporaryFolder folder;
  for (const std::vector<std::string>& arguments : std::vector<std::vector<std::string>>{
           {"doctor", "--device-port", "0"}, {"doctor", "--device-port", "256"}, {"doctor", "rxe0"}}) {
    const Ended ended = run(VERBENA_PROGRAM, arguments, folder.path());
    EXPECT_EQ(ended.status, 2) << arguments.back();
    EXPECT_THAT(ended.err, HasSubstr("verbena: error: "));
  }
}

TEST(DoctorTest, HelpTellsItsOwnExitStatuses) {
  const verbena::testing::TemporaryFolder folder;
  const Ended ended = run(VERBENA_PROGRAM, {"doctor", "--help"}, folder.path());
  EXPECT_EQ(ended.status, 0);
  EXPECT_THAT(ended.out, HasSubstr("3      neither works"));
  EXPECT_THAT(ended.out, Not(HasSubstr("the run failed")));
}

}  // namespace
}  // namespace verbena::process_test
