#include "tests/checkpoint/simulated_disk.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <cstring>

#include "base/return_if_error.hpp"

namespace verbena::checkpoint {
namespace {

absl::Status no(const std::string& path, std::string_view what, int error) {
  return absl::ErrnoToStatus(error, fmt::format("{}: cannot {}", path, what));
}

/// Goes through all combinations of choices, of which each may depend on those before it.
class Choices {
 public:
  /// 0 … options − 1
  std::size_t choose(std::size_t options) {
    if (at_ == chosen_.size()) chosen_.emplace_back(0, options);
    return chosen_[at_++].first;
  }
  /// False: there are no more.
  bool advance() {
    at_ = 0;
    while (!chosen_.empty() && chosen_.back().first + 1 == chosen_.back().second) chosen_.pop_back();
    if (chosen_.empty()) return false;
    ++chosen_.back().first;
    return true;
  }

 private:
  std::vector<std::pair<std::size_t, std::size_t>> chosen_;
  std::size_t at_ = 0;
};

}  // namespace

class SimulatedDisk::File final : public NewFile, public ReadableFile {
 public:
  File(const SimulatedDisk& disk, std::string path, NodePointer node)
      : disk_(disk), path_(std::move(path)), node_(std::move(node)) {}

  absl::Status append(std::span<const std::byte> bytes) override {
    const absl::Status may = disk_.may(Operation::kWrite, path_);
    node_->bytes.append(reinterpret_cast<const char*>(bytes.data()),
                        may.ok() ? bytes.size() : bytes.size() / 2);
    return may;
  }
  absl::Status sync() override {
    const absl::Status may = disk_.may(Operation::kSync, path_);
    if (!may.ok()) node_->is_lost = true;
    if (may.ok() && !node_->is_lost && disk_.ignored_ != path_) node_->synced_bytes = node_->bytes.size();
    return may;
  }
  [[nodiscard]] std::uint64_t bytes() const override { return node_->bytes.size(); }
  absl::Status read(std::uint64_t offset, std::span<std::byte> to) const override {
    if (offset > node_->bytes.size() || to.size() > node_->bytes.size() - offset)
      return absl::DataLossError(fmt::format("{}: ends before", path_));
    if (!to.empty()) std::memcpy(to.data(), node_->bytes.data() + offset, to.size());
    return absl::OkStatus();
  }

 private:
  const SimulatedDisk& disk_;
  std::string path_;
  NodePointer node_;
};

/// One disk as it may be found.
class SimulatedDisk::Survival {
 public:
  explicit Survival(absl::FunctionRef<std::size_t(std::size_t)> choose) : choose_(choose) {}

  NodePointer found(const NodePointer& node) {
    NodePointer& copy = found_[node.get()];
    if (copy == nullptr) {
      copy = std::make_shared<Node>();
      copy->kind = node->kind;
      if (node->kind == FolderEntry::Kind::kFolder) {
        for (const auto& [name, child] : names_of(*node)) copy->names[name] = found(child);
        copy->synced_names = copy->names;
      } else {
        copy->bytes = bytes_of(*node);
        copy->synced_bytes = copy->bytes.size();
      }
    }
    return copy;
  }

 private:
  std::map<std::string, NodePointer> names_of(const Node& folder) {
    static constexpr std::size_t kFew = 5;
    std::map<std::string, NodePointer> names = folder.synced_names;
    const std::size_t changes = folder.changes.size();
    const bool are_few = changes <= kFew;
    // Of many: the first some of them, perhaps without one.
    const std::size_t first = are_few ? changes : choose_(changes + 1);
    const std::size_t without = are_few ? changes : choose_(changes + 1);
    for (std::size_t i = 0; i < first; ++i) {
      if (are_few ? choose_(2) == 1 : i != without) apply(folder.changes[i], names);
    }
    return names;
  }
  std::string bytes_of(const Node& file) {
    const std::size_t more = file.bytes.size() - file.synced_bytes;
    if (more == 0) return file.bytes;
    switch (choose_(4)) {
      case 0:
        return file.bytes.substr(0, file.synced_bytes);
      case 1:
        return file.bytes;
      case 2:
        return file.bytes.substr(0, file.synced_bytes + more / 2);
      default:
        return file.bytes.substr(0, file.synced_bytes) + std::string(more, '\0');
    }
  }

  absl::FunctionRef<std::size_t(std::size_t)> choose_;
  std::map<const Node*, NodePointer> found_;
};

SimulatedDisk::SimulatedDisk() : root_(std::make_shared<Node>()) {
  root_->kind = FolderEntry::Kind::kFolder;
}

void SimulatedDisk::settle() {
  settle(*root_);
}

void SimulatedDisk::settle(Node& node) {
  node.synced_bytes = node.bytes.size();
  node.synced_names = node.names;
  node.changes.clear();
  for (const auto& [name, child] : node.names) settle(*child);
}

void SimulatedDisk::for_each_survivor(absl::FunctionRef<bool(SimulatedDisk&)> visit) const {
  Choices choices;
  bool goes_on = true;
  while (goes_on) {
    SimulatedDisk found = survivor([&](std::size_t ways) { return choices.choose(ways); });
    goes_on = visit(found) && choices.advance();
  }
}

SimulatedDisk SimulatedDisk::survivor(absl::FunctionRef<std::size_t(std::size_t ways)> choose) const {
  SimulatedDisk found;
  found.root_ = Survival(choose).found(root_);
  return found;
}

std::string& SimulatedDisk::bytes_of(const std::string& path) {
  return (*find(path))->bytes;
}

void SimulatedDisk::put(const std::string& path, FolderEntry::Kind kind, std::string_view bytes) {
  auto node = std::make_shared<Node>();
  node->kind = kind;
  node->bytes = bytes;
  const absl::Status added = add(path, std::move(node));
  assert(added.ok());
}

std::vector<std::string> SimulatedDisk::paths() const {
  std::vector<std::string> paths;
  const std::function<void(const Node&, const std::string&)> walk = [&](const Node& node,
                                                                        const std::string& path) {
    for (const auto& [name, child] : node.names) {
      const std::string below = path.empty() ? name : path + "/" + name;
      if (child->kind == FolderEntry::Kind::kFile) paths.push_back(below);
      walk(*child, below);
    }
  };
  walk(*root_, "");
  return paths;
}

absl::Status SimulatedDisk::may(Operation operation, const std::string& path) const {
  return interception_ ? interception_(operation, path) : absl::OkStatus();
}

absl::StatusOr<SimulatedDisk::NodePointer> SimulatedDisk::find(const std::string& path) const {
  NodePointer node = root_;
  for (std::size_t begin = 0; begin < path.size();) {
    const std::size_t end = std::min(path.find('/', begin), path.size());
    const std::string name = path.substr(begin, end - begin);
    begin = end + 1;
    if (name.empty() || name == ".") continue;
    if (node->kind != FolderEntry::Kind::kFolder) return no(path, "open", ENOTDIR);
    const auto found = node->names.find(name);
    if (found == node->names.end()) return no(path, "open", ENOENT);
    node = found->second;
  }
  return node;
}

absl::StatusOr<std::pair<SimulatedDisk::NodePointer, std::string>> SimulatedDisk::place_of(
    const std::string& path) const {
  const std::size_t slash = path.rfind('/');
  auto folder = find(slash == std::string::npos ? "" : path.substr(0, slash));
  if (!folder.ok()) return no(path, "open", ENOENT);
  if ((*folder)->kind != FolderEntry::Kind::kFolder) return no(path, "open", ENOTDIR);
  return std::pair(*std::move(folder), path.substr(slash == std::string::npos ? 0 : slash + 1));
}

void SimulatedDisk::apply(const Change& change, std::map<std::string, NodePointer>& names) {
  for (const auto& [name, node] : change) {
    if (node == nullptr) {
      names.erase(name);
    } else {
      names[name] = node;
    }
  }
}

absl::Status SimulatedDisk::add(const std::string& path, NodePointer node) {
  const auto place = place_of(path);
  if (!place.ok()) return place.status();
  const auto& [folder, name] = *place;
  if (folder->names.contains(name)) return no(path, "create", EEXIST);
  folder->changes.push_back({{name, std::move(node)}});
  apply(folder->changes.back(), folder->names);
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<NewFile>> SimulatedDisk::create(const std::string& path) {
  RETURN_IF_ERROR(may(Operation::kCreate, path));
  auto node = std::make_shared<Node>();
  RETURN_IF_ERROR(add(path, node));
  return std::make_unique<File>(*this, path, std::move(node));
}

absl::StatusOr<std::unique_ptr<ReadableFile>> SimulatedDisk::open(const std::string& path) {
  auto node = find(path);
  if (!node.ok()) return node.status();
  if ((*node)->kind != FolderEntry::Kind::kFile)
    return absl::InvalidArgumentError(fmt::format("{}: expected a file, found something else", path));
  return std::make_unique<File>(*this, path, *std::move(node));
}

absl::Status SimulatedDisk::make_folder(const std::string& path) {
  RETURN_IF_ERROR(may(Operation::kMakeFolder, path));
  auto node = std::make_shared<Node>();
  node->kind = FolderEntry::Kind::kFolder;
  return add(path, std::move(node));
}

absl::Status SimulatedDisk::sync_folder(const std::string& path) {
  RETURN_IF_ERROR(may(Operation::kSyncFolder, path));
  auto folder = find(path);
  if (!folder.ok()) return folder.status();
  if (ignored_ == path) return absl::OkStatus();
  (*folder)->synced_names = (*folder)->names;
  (*folder)->changes.clear();
  return absl::OkStatus();
}

absl::StatusOr<std::vector<FolderEntry>> SimulatedDisk::list(const std::string& path) {
  const auto folder = find(path);
  if (!folder.ok()) return folder.status();
  if ((*folder)->kind != FolderEntry::Kind::kFolder) return no(path, "open the folder", ENOTDIR);
  std::vector<FolderEntry> entries;
  for (const auto& [name, node] : (*folder)->names) entries.push_back({.name = name, .kind = node->kind});
  return entries;
}

absl::Status SimulatedDisk::rename(const std::string& from, const std::string& to) {
  RETURN_IF_ERROR(may(Operation::kRename, from));
  const auto source = place_of(from);
  const auto target = place_of(to);
  if (!source.ok()) return source.status();
  if (!target.ok()) return target.status();
  assert(source->first == target->first);
  const NodePointer& folder = source->first;
  const auto node = folder->names.find(source->second);
  if (node == folder->names.end()) return no(from, "rename", ENOENT);
  const auto taken = folder->names.find(target->second);
  if (taken != folder->names.end() && taken->second->kind != FolderEntry::Kind::kFile)
    return no(from, fmt::format("rename to {}", to), ENOTEMPTY);
  folder->changes.push_back({{source->second, nullptr}, {target->second, node->second}});
  apply(folder->changes.back(), folder->names);
  return absl::OkStatus();
}

absl::Status SimulatedDisk::remove_file(const std::string& path) {
  RETURN_IF_ERROR(may(Operation::kRemoveFile, path));
  const auto place = place_of(path);
  if (!place.ok()) return place.status();
  const auto& [folder, name] = *place;
  const auto node = folder->names.find(name);
  if (node == folder->names.end()) return no(path, "remove", ENOENT);
  if (node->second->kind == FolderEntry::Kind::kFolder) return no(path, "remove", EISDIR);
  folder->changes.push_back({{name, nullptr}});
  apply(folder->changes.back(), folder->names);
  return absl::OkStatus();
}

absl::Status SimulatedDisk::remove_folder(const std::string& path) {
  RETURN_IF_ERROR(may(Operation::kRemoveFolder, path));
  const auto place = place_of(path);
  if (!place.ok()) return place.status();
  const auto& [folder, name] = *place;
  const auto node = folder->names.find(name);
  if (node == folder->names.end()) return no(path, "remove the folder", ENOENT);
  if (node->second->kind != FolderEntry::Kind::kFolder) return no(path, "remove the folder", ENOTDIR);
  if (!node->second->names.empty()) return no(path, "remove the folder", ENOTEMPTY);
  folder->changes.push_back({{name, nullptr}});
  apply(folder->changes.back(), folder->names);
  return absl::OkStatus();
}

}  // namespace verbena::checkpoint
