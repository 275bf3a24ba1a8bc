// Which run a checkpoint is of, so that only the same one goes on from it.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "apps/application.hpp"
#include "apps/launcher/job_options.hpp"
#include <verbena/session.hpp>

namespace verbena::apps {

/// What a checkpoint notes of its run (CheckpointOptions::notes): the application, its options, the
/// consistency model, and a checksum of each file that is read. REQUIRES: the job is decided, and the
/// application has been told. NOT_FOUND and similar errors: a file cannot be read.
absl::StatusOr<std::map<std::string, std::string>> resume_notes(const Application& application,
                                                                const ApplicationOptions& options,
                                                                const JobOptions& job);

/// After which iteration the checkpoint was made. INVALID_ARGUMENT: it does not say so.
absl::StatusOr<std::int64_t> iteration_of(const CheckpointSummary& checkpoint);

/// Whether this run may go on from the checkpoint, of which the application is told. INVALID_ARGUMENT: what
/// differs, in one line; what may differ, may. Otherwise as resume_notes().
absl::Status check_resume(const CheckpointSummary& checkpoint, Application& application,
                          const ApplicationOptions& options, const JobOptions& job);

/// Decides which checkpoint the run goes on from: job.checkpoints.resume_from; prints which newer ones are
/// damaged. Returns what to tell the user: lines; empty: nothing. For one process, before it starts those of
/// the job. Errors as of check_resume(); DATA_LOSS: there are checkpoints, and all are damaged.
absl::StatusOr<std::string> decide_resume(JobOptions& job, Application& application,
                                          const ApplicationOptions& options);
/// For a process of a job of which another one has checked that: only tells the application what it goes on
/// from, if it does.
absl::Status follow_resume(const JobOptions& job, Application& application);

}  // namespace verbena::apps
