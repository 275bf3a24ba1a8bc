#include "apps/launcher/outlet.hpp"

#include <fmt/format.h>

#include <cstdio>

#include "apps/report/exit_status.hpp"
#include "base/printable.hpp"
#include "job/line_stream.hpp"

namespace verbena::apps {

void PipeOutlet::send(const job::ChildMessage& message) {
  const std::string line = encode(message);
  absl::MutexLock lock(&mutex_);
  // If the launcher is gone, the thread that polls descriptor() ends the process.
  job::write_all(descriptor_, line).IgnoreError();
}

ConsoleOutlet::ConsoleOutlet(RunSettings settings, RunRecord::Objectives objectives)
    : settings_(std::move(settings)),
      record_(settings_.threads, std::move(objectives)),
      display_(settings_, Display::mode_for(stderr, false), stdout, stderr) {}

double ConsoleOutlet::now() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
}

void ConsoleOutlet::send(const job::ChildMessage& message) {
  absl::MutexLock lock(&mutex_);
  handle(message);
}

void ConsoleOutlet::handle(const job::ChildMessage& message) {
  if (const auto* iteration = std::get_if<job::IterationMessage>(&message)) {
    job::IterationMessage local = *iteration;
    local.worker -= settings_.first_worker;
    const auto record = record_.add(local, now());
    if (!record.ok()) {
      report_error(record.status());
    } else if (*record) {
      display_.iteration(**record, now());
    }
  } else if (const auto* finished = std::get_if<job::FinishedMessage>(&message)) {
    job::FinishedMessage local = *finished;
    local.worker -= settings_.first_worker;
    if (absl::Status status = record_.add(local); !status.ok()) report_error(status);
  } else if (const auto* progress = std::get_if<job::ProgressMessage>(&message)) {
    display_.progress(*progress, now());
  } else if (const auto* print = std::get_if<job::PrintMessage>(&message)) {
    display_.print(base::printable(print->line));
  } else if (const auto* summary = std::get_if<job::SummaryMessage>(&message)) {
    display_.print(fmt::format("{}: {}", base::printable(summary->name), job::to_text(summary->value)));
  } else if (const auto* failed = std::get_if<job::FailedMessage>(&message)) {
    display_.finish();
    report_error({failed->status.code(),
                  fmt::format("{}: {}", settings_.process, std::string(failed->status.message()))});
  }
}

void ConsoleOutlet::note(std::string_view text) {
  absl::MutexLock lock(&mutex_);
  display_.print(fmt::format("{}: {}", settings_.process, text));
}

void ConsoleOutlet::finish() {
  absl::MutexLock lock(&mutex_);
  display_.finish();
  display_.print(summary_table(settings_, record_, now()));
  if (settings_.baseline || settings_.workers == 1) return;
  display_.print(
      fmt::format("{} of {} processes alone: the objectives are those of its part of the data; "
                  "`verbena run` and mpirun give those of all",
                  settings_.process, settings_.workers));
}

}  // namespace verbena::apps
