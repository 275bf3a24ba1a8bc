// What the servers of a job on one host are called, in their addresses SCHEME:PLACE; and its store.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace verbena::job {

/// Where the launcher that is process `run` has the store of its run.
std::string place_of_store(std::int64_t run);

/// "JOB/server-RANK".
struct ServerPlace {
  std::string job;
  std::uint32_t server = 0;

  /// Of a job that nobody has named: of the run that process `run` has started. Nobody else's place, since
  /// two processes in different containers may have the same number.
  static ServerPlace fresh(std::int64_t run, std::uint32_t server);

  /// nullopt: no server is called so.
  static std::optional<ServerPlace> parse(std::string_view text);
  [[nodiscard]] std::string text() const;
  /// The job as people call it: without what makes its places unique. All servers of a run have the same.
  [[nodiscard]] std::string shown_job() const;
  /// The process that has started a job of that name; nullopt: somebody has named it.
  static std::optional<std::int64_t> run_of(std::string_view shown_job);
  /// How people call the job that process `run` has started.
  static std::string name_of_run(std::int64_t run);
};

}  // namespace verbena::job
