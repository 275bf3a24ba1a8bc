#include "job/meeting/hearing.hpp"

#include <nlohmann/json.hpp>
#include <utility>

#include "job/line_stream.hpp"
#include "job/meeting/messages.hpp"

namespace verbena::job {

using nlohmann::json;

void Hearing::hear(std::string_view line) {
  const json object = json::parse(line, nullptr, false);
  if (const auto missing = text_in(object, says::kMissing)) {
    missing_ = *missing;
  } else if (const auto loss = text_in(object, says::kLost)) {
    trouble_.Update(absl::UnavailableError(*loss));
  } else if (const auto refusal = text_in(object, says::kRefused)) {
    end_.stop_watching();
    trouble_.Update(absl::InvalidArgumentError(*refusal));
  } else if (const auto why = text_in(object, says::kEnd)) {
    trouble_.Update(absl::UnavailableError(*why));
    end_.end(*why);
  } else if (const auto news = text_in(object, says::kNews)) {
    if (listener_.on_news) listener_.on_news(*news);
  } else if (const auto reason = text_in(object, says::kDismissed)) {
    end_.end_alone(*reason);
  } else if (const auto place = number_in(object, says::kPlace)) {
    place_ = place;
    has_new_place_ = true;
  } else if (const auto before = number_in(object, says::kLate)) {
    incarnation_ = *before;
    // The first one that a process hears of it has come for, and nobody listens yet.
    if (std::exchange(has_new_place_, false) && listener_.on_place) listener_.on_place(*place_);
  } else if (has(object, says::kBye)) {
    end_.stop_watching();
    trouble_.Update(absl::UnavailableError("rank 0 has left the job"));
  } else {
    const absl::StatusOr<bool> goes = notes_.take(line);
    trouble_.Update(goes.status());
    if (goes.ok() && *goes) {
      ++fences_passed_;
      missing_.clear();
    }
  }
}

void Hearing::hear_all(std::string_view lines) {
  LineStream stream;
  stream.add(lines, [&](std::string_view line) { hear(line); });
}

void Hearing::lose(const std::string& why) {
  end_.lose(why);
  trouble_.Update(absl::UnavailableError(why));
}

}  // namespace verbena::job
