#include "apps/data/stop_words.hpp"

#include <string_view>

#include "apps/data/line_reader.hpp"
#include "apps/data/tokenizer.hpp"

namespace verbena::apps {
namespace {

constexpr std::string_view kEnglish =
    // articles, pronouns, determiners
    "a an the i me my mine myself we us our ours ourselves you your yours yourself yourselves he him his "
    "himself "
    "she her hers herself it its itself they them their theirs themselves this that these those who whom "
    "whose "
    "which what whoever whatever whichever whosoever whatsoever some any no none nothing each every either "
    "neither "
    "both all many much more most few less least other others another such same own one ones everyone "
    "everything "
    "someone something anyone anything nobody somebody anybody everybody enough several "
    // to be, to have, to do, modal verbs, and their contractions
    "am is are was were be been being have has had having do does did doing done will would shall should can "
    "could "
    "may might must ought cannot let isn't aren't wasn't weren't haven't hasn't hadn't don't doesn't didn't "
    "won't "
    "wouldn't shan't shouldn't can't couldn't mightn't mustn't i'm you're he's she's it's we're they're i've "
    "you've "
    "we've they've i'd you'd he'd she'd we'd they'd i'll you'll he'll she'll we'll they'll that's who's "
    "what's "
    "here's there's where's let's "
    // prepositions
    "of to in on at by for with from into onto unto upon about above across after against along among "
    "amongst "
    "around as before behind below beneath beside besides between beyond but down during except inside near "
    "off "
    "out outside over past per round since through throughout till toward towards under until up via within "
    "without "
    // conjunctions and adverbs
    "and or nor if then else than so because while whilst when whenever where wherever why how though "
    "although "
    "unless whether not yet also again ever never always often once twice only just even still too very "
    "quite "
    "rather almost already now here there hence thence thus therefore however moreover otherwise indeed "
    "perhaps "
    "soon later further forth away back together apart "
    // common verbs of telling and moving, without a subject of their own
    "say says said saying go goes went gone going come comes came coming get gets got getting make makes "
    "made "
    "making take takes took taken taking "
    // the seventeenth century's forms
    "thou thee thy thine thyself ye hath hast hadst doth dost didst art wast wert shalt wilt wouldest "
    "wouldst "
    "shouldest shouldst canst couldest mayest mightest saith sayest saidst goeth cometh maketh taketh "
    "wherefore "
    "therein thereof thereon thereto thereby therewith wherein whereof whereon whereby wherewith whither "
    "thither "
    "hither whence hereby hereof herein ere nay yea verily lest save amen lo behold o oh";

}  // namespace

absl::StatusOr<std::unordered_set<std::string>> read_stop_words(const std::string& name, Tokens tokens) {
  std::unordered_set<std::string> words;
  Tokenizer tokenizer(tokens);
  const auto add = [&](std::string_view word) { words.emplace(word); };
  if (name == "none") return words;
  if (name == "english") {
    tokenizer.for_each_word(kEnglish, add);
    return words;
  }
  absl::StatusOr<LineReader> reader = LineReader::open(name);
  if (!reader.ok()) return reader.status();
  std::string_view line;
  while (true) {
    const absl::StatusOr<bool> more = reader->next(line);
    if (!more.ok()) return more.status();
    if (!*more) return words;
    int count = 0;
    const bool whole = tokenizer.for_each_word(line, [&](std::string_view word) {
      add(word);
      ++count;
    });
    if (!whole || count > 1) return reader->error("one word of UTF-8 text in each line", line);
  }
}

}  // namespace verbena::apps
