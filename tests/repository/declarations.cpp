#include "tests/repository/declarations.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <span>

namespace verbena::repository {
namespace {

struct Token {
  std::string text;
  std::size_t line;
};

bool is_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

/// Splits a source into words and signs. Whatever is in quotes becomes `""`. Comments and preprocessor lines
/// are skipped.
class Tokenizer {
 public:
  explicit Tokenizer(std::string_view text) : text_(text) {}

  std::vector<Token> tokens() && {
    bool line_begins = true;
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '\n') {
        line_begins = true;
        skip(1);
      } else if (std::isspace(static_cast<unsigned char>(c)) != 0) {
        skip(1);
      } else if (rest().starts_with("//") || (c == '#' && line_begins)) {
        skip_line();
      } else if (rest().starts_with("/*")) {
        skip_past("*/", 2);
      } else {
        line_begins = false;
        take();
      }
    }
    return std::move(tokens_);
  }

 private:
  [[nodiscard]] std::string_view rest() const { return text_.substr(at_); }

  void skip(std::size_t count) {
    const std::string_view skipped = rest().substr(0, count);
    line_ += static_cast<std::size_t>(std::count(skipped.begin(), skipped.end(), '\n'));
    at_ += skipped.size();
  }
  /// Also skips the lines that a backslash joins to this one.
  void skip_line() {
    std::size_t end = 0;
    do {
      end = text_.find('\n', end == 0 ? at_ : end + 1);
    } while (end != std::string_view::npos && text_[end - 1] == '\\');
    skip(end == std::string_view::npos ? text_.size() : end - at_);
  }
  void skip_past(std::string_view end, std::size_t from) {
    const std::size_t found = text_.find(end, at_ + from);
    skip(found == std::string_view::npos ? text_.size() : found + end.size() - at_);
  }
  void skip_quoted(char quote) {
    std::size_t end = at_ + 1;
    while (end < text_.size() && text_[end] != quote) end += text_[end] == '\\' ? 2U : 1U;
    skip(end + 1 - at_);
  }
  void push(std::string text) { tokens_.push_back({.text = std::move(text), .line = line_}); }

  void take() {
    const char c = text_[at_];
    if (c == '"' || c == '\'') {
      push("\"\"");
      skip_quoted(c);
    } else if (std::isdigit(static_cast<unsigned char>(c)) != 0) {
      push("0");
      const auto end = std::find_if(rest().begin(), rest().end(), [](char digit) {
        return !is_word(digit) && digit != '.' && digit != '\'';
      });
      skip(static_cast<std::size_t>(end - rest().begin()));
    } else if (is_word(c)) {
      take_word();
    } else {
      const std::size_t length = rest().starts_with("::") || rest().starts_with("->") ? 2 : 1;
      push(std::string(rest().substr(0, length)));
      skip(length);
    }
  }
  void take_word() {
    const auto end = std::find_if_not(rest().begin(), rest().end(), is_word);
    std::string word(rest().begin(), end);
    skip(word.size());
    if (!word.ends_with('R') || !rest().starts_with('"')) return push(std::move(word));
    push("\"\"");
    const std::string_view delimiter = rest().substr(1, rest().find('(') - 1);
    skip_past(")" + std::string(delimiter) + "\"", 0);
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::size_t line_ = 1;
  std::vector<Token> tokens_;
};

using Tokens = std::span<const Token>;

/// The index after the bracket that closes the one at `open`. `<` and `>` count only if that is a `<`.
std::size_t behind_bracket(Tokens tokens, std::size_t open) {
  const bool angles = tokens[open].text == "<";
  int depth = 0;
  for (std::size_t i = open; i < tokens.size(); ++i) {
    const std::string& text = tokens[i].text;
    if (text == "(" || text == "[" || text == "{" || (angles && text == "<")) ++depth;
    if (text == ")" || text == "]" || text == "}" || (angles && text == ">")) --depth;
    if (depth == 0) return i + 1;
  }
  return tokens.size();
}

bool is_one_of(const std::string& text, std::span<const std::string_view> words) {
  return std::find(words.begin(), words.end(), text) != words.end();
}

bool is_name(const std::string& text) {
  return is_word(text.front()) && std::isdigit(static_cast<unsigned char>(text.front())) == 0;
}

std::string joined(Tokens tokens) {
  std::string text;
  for (const Token& token : tokens) text += (text.empty() ? "" : " ") + token.text;
  return text;
}

class Parser {
 public:
  explicit Parser(Tokens tokens) : tokens_(tokens) {}

  std::vector<Declaration> declarations() && {
    parse_scope("", false);
    return std::move(declarations_);
  }

 private:
  [[nodiscard]] bool ended() const { return at_ >= tokens_.size(); }
  [[nodiscard]] const std::string& text(std::size_t ahead = 0) const {
    static const std::string kEnd = ";";
    return at_ + ahead < tokens_.size() ? tokens_[at_ + ahead].text : kEnd;
  }
  void skip_bracket() { at_ = behind_bracket(tokens_, at_); }

  /// Parses up to the brace that ends the scope.
  void parse_scope(const std::string& path, bool unnamed) {
    while (!ended() && text() != "}") {
      if (text() == "namespace" || (text() == "inline" && text(1) == "namespace")) {
        parse_namespace(path, unnamed);
      } else {
        parse_declaration(path, unnamed);
      }
    }
    ++at_;
  }

  void parse_namespace(const std::string& path, bool unnamed) {
    const std::size_t begin = at_;
    std::string name;
    for (; !ended() && text() != "{" && text() != "="; ++at_) {
      if (text() != "inline" && text() != "namespace") name += text();
    }
    if (text() == "=") {
      while (!ended() && text() != ";") ++at_;
      add(path, tokens_[begin + 1], joined(tokens_.subspan(begin, at_ - begin)));
      ++at_;
      return;
    }
    ++at_;
    parse_scope(name.empty() ? path : path + name + "::", unnamed || name.empty());
  }

  /// The part of a declaration before its parameters or its value. If it has parameters, the last token is
  /// "(".
  struct Head {
    std::vector<Token> tokens;
    bool has_parameters = false;
    bool has_value = false;
    bool has_members = false;  ///< it is a constructor, and initializes members
    [[nodiscard]] bool open() const { return !has_parameters && !has_value; }
    [[nodiscard]] bool is_alias() const { return !tokens.empty() && tokens.front().text == "using"; }
  };

  void parse_declaration(const std::string& path, bool unnamed) {
    Head head;
    while (!ended() && text() != ";" && text() != "}") {
      if (text() != "{") {
        take(head);
      } else if (head.tokens.size() == 2 && head.tokens.front().text == "extern") {
        ++at_;
        return parse_scope(path, unnamed);
      } else if (take_block(head)) {
        return declare(path, unnamed, head.tokens);
      }
    }
    if (text() == ";") ++at_;
    declare(path, unnamed, head.tokens);
  }

  void take(Head& head) {
    const bool is_name_before = !head.tokens.empty() && is_name(head.tokens.back().text);
    if (text() == "template" && text(1) == "<") {
      ++at_;
      skip_bracket();
    } else if (is_one_of(text(), kWithArguments) && text(1) == "(") {
      if (text() == "decltype" && head.open()) head.tokens.push_back(tokens_[at_]);
      ++at_;
      skip_bracket();
    } else if (text() == "operator") {
      take_operator(head);
    } else if (text() == "[") {
      skip_bracket();
    } else if (text() == "<" && !head.has_value && is_name_before) {
      if (head.open()) head.tokens.push_back({.text = "<>", .line = tokens_[at_].line});
      skip_bracket();
    } else if (text() == "(") {
      if (head.open() && !head.tokens.empty()) {
        head.has_parameters = true;
        head.tokens.push_back(tokens_[at_]);
      }
      skip_bracket();
    } else {
      head.has_value |= text() == "=";
      head.has_members |= text() == ":" && head.has_parameters;
      if (head.open() || head.is_alias()) head.tokens.push_back(tokens_[at_]);
      ++at_;
    }
  }

  /// Returns whether the block was a function's body, which ends the declaration.
  bool take_block(Head& head) {
    const bool is_initializer = head.has_value || (head.has_members && is_name(tokens_[at_ - 1].text));
    skip_bracket();
    if (head.has_parameters && !is_initializer) return true;
    head.has_value |= !head.has_members;
    return false;
  }

  /// Skips an operator's name, up to its parameters.
  void take_operator(Head& head) {
    head.tokens.push_back(tokens_[at_]);
    ++at_;
    if (text() == "(") skip_bracket();  // the call operator
    while (!ended() && text() != "(" && text() != ";") ++at_;
  }

  void declare(const std::string& path, bool unnamed, Tokens head) {
    bool own = unnamed;
    bool is_const = false;
    for (; !head.empty() && is_one_of(head.front().text, kSpecifiers); head = head.subspan(1)) {
      own |= head.front().text == "static" || head.front().text == "constexpr";
      is_const |= head.front().text == "const";
    }
    if (head.empty() || is_one_of(head.front().text, kDeclareNothing)) return;
    const auto end = std::find_if(head.begin(), head.end(), [](const Token& token) {
      return token.text == "(" || token.text == "=" || token.text == ":";
    });
    own |= is_const && (end == head.end() || end->text != "(");
    if (!own) return;
    if (head.front().text == "using") return declare_alias(path, head);
    if (is_one_of(head.front().text, kClassKeys)) return declare_class(path, head);
    const Tokens before(head.begin(), end);
    const bool is_operator = std::any_of(before.begin(), before.end(),
                                         [](const Token& token) { return token.text == "operator"; });
    // The call of a macro has no type. The name of another scope's member, or of a destructor, follows "::"
    // or "~".
    if (is_operator || before.size() < 2 || !is_name(before.back().text)) return;
    if (const std::string& left = before[before.size() - 2].text; left == "::" || left == "~") return;
    add(path, before.back(), "");
  }

  void declare_alias(const std::string& path, Tokens head) {
    if (head.size() < 2 || head[1].text == "namespace") return;
    const bool is_new = head.size() > 2 && head[2].text == "=";
    add(path, is_new ? head[1] : head.back(), joined(head));
  }

  void declare_class(const std::string& path, Tokens head) {
    std::size_t at = 1;
    while (at < head.size() && is_one_of(head[at].text, kClassKeys)) ++at;  // enum class
    if (at == head.size() || !is_name(head[at].text)) return;
    const bool is_specialization =
        at + 1 < head.size() && (head[at + 1].text == "<>" || head[at + 1].text == "::");
    if (!is_specialization) add(path, head[at], "");
  }

  void add(const std::string& path, const Token& name, std::string alias) {
    declarations_.push_back({.name = path + name.text, .line = name.line, .alias = std::move(alias)});
  }

  static constexpr std::array<std::string_view, 4> kClassKeys = {"class", "struct", "union", "enum"};
  static constexpr std::array<std::string_view, 6> kSpecifiers = {"static", "inline",       "constexpr",
                                                                  "const",  "thread_local", "constinit"};
  static constexpr std::array<std::string_view, 4> kDeclareNothing = {"static_assert", "template", "friend",
                                                                      "extern"};
  static constexpr std::array<std::string_view, 4> kWithArguments = {"alignas", "decltype", "noexcept",
                                                                     "__attribute__"};

  Tokens tokens_;
  std::size_t at_ = 0;
  std::vector<Declaration> declarations_;
};

}  // namespace

std::vector<Declaration> own_declarations(std::string_view text) {
  const std::vector<Token> tokens = Tokenizer(text).tokens();
  return Parser(tokens).declarations();
}

}  // namespace verbena::repository
