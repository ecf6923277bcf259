// SPDX-License-Identifier: Apache-2.0
//
// The daemon's options from flags, variables and the YAML file: no input crashes the parser, none makes a message show
// a password, and what --print-config shows is a file that gives the same options. A byte 0x01 stands for the head of a
// URL with a password.
#include <sys/mman.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "bytes.h"
#include "core/check.h"
#include "ops/options.h"

namespace {

using distlock::fuzz::Bytes;
using distlock::fuzz::Planted;
using distlock::ops::Invocation;
using distlock::ops::Options;

constexpr std::string_view kUrlHead = "redis://u:QQQQ@";

// A file without a folder.
class ConfigFile {
 public:
  ConfigFile() : fd_(memfd_create("distlock.yaml", 0)), path_("/proc/self/fd/" + std::to_string(fd_)) {}
  const std::string& With(const std::string& text) const {
    DISTLOCK_CHECK(ftruncate(fd_, 0) == 0);
    DISTLOCK_CHECK(pwrite(fd_, text.data(), text.size(), 0) == static_cast<ssize_t>(text.size()));
    return path_;
  }

 private:
  const int fd_;
  const std::string path_;
};

std::string Name(Bytes& bytes) {
  const auto names = distlock::ops::OptionNames();
  const size_t which = bytes.Byte();
  return which < names.size() ? std::string(names[which]) : Planted(bytes.Text(), kUrlHead);
}

std::string Variable(std::string name) {
  for (char& c : name) c = c == '-' ? '_' : c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  return "DISTLOCK_" + name;
}

std::vector<std::string> Arguments(Bytes& bytes) {
  std::vector<std::string> args;
  for (size_t count = bytes.Below(5); count > 0; --count) {
    const size_t form = bytes.Below(3);
    if (form == 0) {
      args.push_back(Planted(bytes.Text(), kUrlHead));
      continue;
    }
    args.push_back("--" + Name(bytes));
    const std::string value = Planted(bytes.Text(), kUrlHead);
    form == 1 ? void(args.back() += "=" + value) : args.push_back(value);
  }
  return args;
}

void CheckSilence(std::string_view text) { DISTLOCK_CHECK(text.find(distlock::fuzz::kSecret) == text.npos); }

// `--config` itself is not part of what it shows, and shown passwords are gone for good.
void CheckRoundTrip(const Options& options, const ConfigFile& file) {
  const std::string shown = ConfigText(options);
  CheckSilence(shown);
  const auto again = distlock::ops::ParseOptions({"--config", file.With(shown)}, {});
  DISTLOCK_CHECK(again.ok());
  DISTLOCK_CHECK(ConfigText(again->options) == shown);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const ConfigFile file;
  Bytes bytes(data, size);
  std::vector<std::string> args = Arguments(bytes);
  std::vector<std::string> environment;
  for (size_t count = bytes.Below(4); count > 0; --count) {
    const std::string name = Variable(Name(bytes));
    environment.push_back(name + "=" + Planted(bytes.Text(), kUrlHead));
  }
  const std::string yaml = Planted(bytes.Rest(), kUrlHead);
  if (!yaml.empty()) args.push_back("--config=" + file.With(yaml));

  const auto invocation = distlock::ops::ParseOptions(args, environment);
  if (!invocation.ok()) {
    CheckSilence(invocation.status().ToString());
    const int code = distlock::ops::ExitCode(invocation.status());
    DISTLOCK_CHECK(code == 64 || code == 78);
    DISTLOCK_CHECK(invocation.status().message().find('\n') == absl::string_view::npos);
    return 0;
  }
  for (const std::string& warning : invocation->warnings) CheckSilence(warning);
  const bool filled =
      invocation->action == Invocation::Action::kServe || invocation->action == Invocation::Action::kPrintConfig;
  if (filled) CheckRoundTrip(invocation->options, file);
  return 0;
}
