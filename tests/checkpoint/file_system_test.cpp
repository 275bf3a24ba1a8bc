// What a file system promises: the host's, and the simulated one that other tests stand on.
#include "checkpoint/file_system.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/folder.hpp"
#include "checkpoint/folder_names.hpp"
#include "checkpoint/part_writer.hpp"
#include "checkpoint/verify.hpp"
#include "tests/checkpoint/sample.hpp"
#include "tests/checkpoint/simulated_disk.hpp"
#include "tests/temporary_folder.hpp"

namespace verbena::checkpoint {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;
using Kind = FolderEntry::Kind;

/// Parameter: whether it is the host's.
class FileSystemTest : public ::testing::TestWithParam<bool> {
 protected:
  FileSystem& files() { return GetParam() ? host_file_system() : simulated_; }
  [[nodiscard]] std::string path(const std::string& name) const {
    return GetParam() ? temporary_.path(name) : name;
  }
  void write(const std::string& name, std::string_view bytes) {
    const auto file = files().create(path(name));
    ASSERT_TRUE(file.ok()) << file.status();
    EXPECT_EQ((*file)->append(std::as_bytes(std::span(bytes))), absl::OkStatus());
    EXPECT_EQ((*file)->sync(), absl::OkStatus());
  }
  std::string read(const std::string& name) {
    const auto file = files().open(path(name));
    if (!file.ok()) return file.status().ToString();
    std::string bytes((*file)->bytes(), '\0');
    EXPECT_EQ((*file)->read(0, std::as_writable_bytes(std::span(bytes))), absl::OkStatus());
    return bytes;
  }
  /// Expects an error of that code, with the path of what it is about.
  void expect_error(const absl::Status& status, absl::StatusCode code, const std::string& name) const {
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(path(name) + ": "));
  }

  testing::TemporaryFolder temporary_;
  SimulatedDisk simulated_;
};
INSTANTIATE_TEST_SUITE_P(Disks, FileSystemTest, ::testing::Bool(),
                         [](const auto& test) { return test.param ? "Host" : "Simulated"; });

TEST_P(FileSystemTest, FilesAreWrittenAndRead) {
  write("a", "");
  write("b", "hello");
  EXPECT_EQ(read("a"), "");
  EXPECT_EQ(read("b"), "hello");
  const auto file = files().open(path("b")).value();
  std::string middle(3, ' ');
  EXPECT_EQ(file->read(1, std::as_writable_bytes(std::span(middle))), absl::OkStatus());
  EXPECT_EQ(middle, "ell");
  for (const std::uint64_t offset : {std::uint64_t{3}, std::uint64_t{6}, UINT64_MAX}) {
    expect_error(file->read(offset, std::as_writable_bytes(std::span(middle))), absl::StatusCode::kDataLoss,
                 "b");
  }
}

TEST_P(FileSystemTest, ErrorsHaveTheirCodeAndThePath) {
  using enum absl::StatusCode;
  write("file", "x");
  ASSERT_EQ(files().make_folder(path("folder")), absl::OkStatus());
  write("folder/file", "x");
  expect_error(files().create(path("file")).status(), kAlreadyExists, "file");
  expect_error(files().create(path("none/file")).status(), kNotFound, "none/file");
  expect_error(files().open(path("none")).status(), kNotFound, "none");
  expect_error(files().open(path("folder")).status(), kInvalidArgument, "folder");
  expect_error(files().make_folder(path("file")), kAlreadyExists, "file");
  expect_error(files().make_folder(path("folder")), kAlreadyExists, "folder");
  expect_error(files().make_folder(path("none/folder")), kNotFound, "none/folder");
  EXPECT_EQ(files().sync_folder(path("none")).code(), kNotFound);
  EXPECT_EQ(files().list(path("none")).status().code(), kNotFound);
  EXPECT_EQ(files().list(path("file")).status().code(), kFailedPrecondition);
  expect_error(files().rename(path("none"), path("other")), kNotFound, "none");
  expect_error(files().remove_file(path("none")), kNotFound, "none");
  EXPECT_FALSE(files().remove_file(path("folder")).ok());
  EXPECT_FALSE(files().remove_folder(path("folder")).ok()) << "it is not empty";
  EXPECT_FALSE(files().remove_folder(path("file")).ok());
}

TEST_P(FileSystemTest, NamesChangeAndGo) {
  write("a", "1");
  write("b", "2");
  EXPECT_EQ(files().rename(path("a"), path("b")), absl::OkStatus());
  EXPECT_EQ(read("b"), "1");
  ASSERT_EQ(files().make_folder(path("c")), absl::OkStatus());
  write("c/d", "3");
  EXPECT_EQ(files().rename(path("c"), path("e")), absl::OkStatus());
  EXPECT_EQ(read("e/d"), "3");
  ASSERT_EQ(files().make_folder(path("f")), absl::OkStatus());
  EXPECT_FALSE(files().rename(path("f"), path("e")).ok()) << "the name is taken";
  EXPECT_EQ(files().sync_folder(path("e")), absl::OkStatus());
  EXPECT_EQ(files().remove_file(path("e/d")), absl::OkStatus());
  EXPECT_EQ(files().remove_folder(path("e")), absl::OkStatus());
  std::vector<std::pair<std::string, Kind>> entries;
  const std::vector<FolderEntry> listed = files().list(path(".")).value();
  for (const FolderEntry& entry : listed) entries.emplace_back(entry.name, entry.kind);
  EXPECT_THAT(entries, UnorderedElementsAre(std::pair("b", Kind::kFile), std::pair("f", Kind::kFolder)));
}

TEST(HostFileSystemTest, OnlyThisUserCanReadWhatIsWritten) {
  const testing::TemporaryFolder folder;
  FileSystem& files = host_file_system();
  ASSERT_TRUE(files.create(folder.path("file")).ok());
  ASSERT_EQ(files.make_folder(folder.path("folder")), absl::OkStatus());
  struct stat info {};
  ASSERT_EQ(::stat(folder.path("file").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777U, 0600U);
  ASSERT_EQ(::stat(folder.path("folder").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777U, 0700U);
}

TEST(HostFileSystemTest, LinksAndPipesAreNoFiles) {
  const testing::TemporaryFolder folder;
  testing::write_file(folder.path("file"), "x");
  ASSERT_EQ(::symlink("file", folder.path("link").c_str()), 0);
  ASSERT_EQ(::mkfifo(folder.path("pipe").c_str(), 0600), 0);
  const std::vector<FolderEntry> listed = host_file_system().list(folder.path().string()).value();
  for (const FolderEntry& entry : listed)
    EXPECT_EQ(entry.kind, entry.name == "file" ? Kind::kFile : Kind::kOther) << entry.name;
  EXPECT_EQ(host_file_system().create(folder.path("link")).status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(host_file_system().open(folder.path("pipe")).status().code(), absl::StatusCode::kInvalidArgument)
      << "and nobody waits for a writer";
}

/// Its base lies beside an increment, however the path to that is written.
TEST(HostFileSystemTest, ACheckpointsFolderIsFoundFromAnyPathToIt) {
  const testing::TemporaryFolder temporary;
  const std::string folder = std::filesystem::canonical(temporary.path());
  std::filesystem::create_directory(folder + "/ckpt-20");
  ASSERT_EQ(::symlink("ckpt-20", (folder + "/newest").c_str()), 0);
  for (const std::string path : {"/ckpt-20", "/ckpt-20/", "/ckpt-20//", "/ckpt-20/.", "/newest", "/newest/"})
    EXPECT_EQ(folder_of_checkpoint(folder + path), folder) << path;
  std::filesystem::create_directory(folder + "/elsewhere");
  ASSERT_EQ(::symlink("../ckpt-20", (folder + "/elsewhere/ckpt-20").c_str()), 0);
  EXPECT_EQ(folder_of_checkpoint(folder + "/elsewhere/ckpt-20"), folder);
  EXPECT_EQ(folder_of_checkpoint("saved/ckpt-20"), "saved") << "need not be there";
  EXPECT_EQ(folder_of_checkpoint("ckpt-20/"), ".");
}

TEST(HostFileSystemTest, ACheckpointIsWrittenAndRead) {
  const testing::TemporaryFolder temporary;
  Folder folder(host_file_system(), temporary.path("runs/today"));
  ASSERT_EQ(write_checkpoint(host_file_system(), folder, 10, content_of(1)), absl::OkStatus());
  ASSERT_EQ(write_checkpoint(host_file_system(), folder, 20, content_of(2)), absl::OkStatus());
  ASSERT_EQ(write_checkpoint(host_file_system(), folder, 20, content_of(3), {.zstd_level = 1}),
            absl::OkStatus());
  ASSERT_EQ(folder.keep(1), absl::OkStatus());
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(temporary.path("runs/today")), {}), 1);
  const auto newest = folder.newest_valid();
  ASSERT_TRUE(newest.ok()) << newest.status();
  EXPECT_EQ(load(newest->reader).value(), content_of(3));
  EXPECT_THAT(verify(host_file_system(), newest->reader.path()), IsEmpty());
}

/// A limit on the length of files stands for a disk that is full.
TEST(HostFileSystemTest, AFileThatMayNotGrowSaysSo) {
  const testing::TemporaryFolder temporary;
  Folder folder(host_file_system(), temporary.path("ckpts"));
  ASSERT_EQ(write_checkpoint(host_file_system(), folder, 10, content_of(1)), absl::OkStatus());

  const auto ignored = std::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small{.rlim_cur = 200, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const absl::Status failed = write_checkpoint(host_file_system(), folder, 20, content_of(2));
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, ignored);

  EXPECT_THAT(std::string(failed.message()),
              AllOf(HasSubstr("ckpts/ckpt-20.tmp/server-0: cannot write: File too large"),
                    HasSubstr("at offset 188")));
  EXPECT_EQ(load(folder.newest_valid()->reader).value(), content_of(1));
  EXPECT_EQ(folder.discard(20), absl::OkStatus());
}

/// 20 MB, with what a process may need of memory and files as it is by default.
TEST(HostFileSystemTest, LargePartsAreCutIntoChunks) {
  const testing::TemporaryFolder temporary;
  Folder folder(host_file_system(), temporary.path("ckpts"));
  const std::string path = folder.begin(1).value();
  auto writer =
      PartWriter::create(host_file_system(), path, 1, {.name = "server-0", .most_file_bytes = 8 << 20});
  ASSERT_TRUE(writer.ok()) << writer.status();
  constexpr std::uint64_t kRows = 20'000;
  constexpr std::uint32_t kRowBytes = 1000;
  std::string values(kRows * kRowBytes, '\0');
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<char>(i * 7 / 1000 + i);
  const Column column{.bytes = std::as_bytes(std::span(values)), .row_bytes = kRowBytes};
  ASSERT_EQ(writer->add_rows(kDenseTable, 0, std::span(&column, 1)), absl::OkStatus());
  const Part part = writer->finish().value();
  EXPECT_EQ(part.files.size(), 3U);
  ASSERT_EQ(folder.commit(manifest_of(1, {part})), absl::OkStatus());

  const auto newest = folder.newest_valid();
  ASSERT_TRUE(newest.ok()) << newest.status();
  std::string found;
  const NumberRange range{1234, 17'000};
  ASSERT_EQ(newest->reader.read_rows(kDenseTable, range,
                                     [&](const Rows& rows) {
                                       const auto bytes = rows.columns[0].bytes;
                                       EXPECT_LE(bytes.size(), std::size_t{4} << 20);
                                       found.append(reinterpret_cast<const char*>(bytes.data()),
                                                    bytes.size());
                                       return absl::OkStatus();
                                     }),
            absl::OkStatus());
  EXPECT_TRUE(found == values.substr(range.first * kRowBytes, (range.end - range.first) * kRowBytes));
}

}  // namespace
}  // namespace verbena::checkpoint
