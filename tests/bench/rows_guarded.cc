// SPDX-License-Identifier: Apache-2.0
// Rows of a broker that knows its callers: TLS with certificates of both ends, and a policy of a thousand rules, beside
// a broker without either.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "bench/broker_load.h"
#include "bench/rows.h"

namespace distlock::bench {
namespace {

using Kind = Comparison::Kind;

constexpr int kRules = 1000;
constexpr int kOfTheCaller = 100;  // of them

// What a broker asks of its callers.
enum class Asked { kNothing, kCertificate, kPolicy };

std::string TextOf(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file) throw std::runtime_error("cannot read " + path);
  return text.str();
}

// One pair for both ends, which is its own authority. Returns where its files begin.
std::string Certificate(const Lab& lab) {
  const std::string pair = lab.folder() + "/pair";
  if (std::filesystem::exists(pair + ".pem")) return pair;
  const std::string command =
      "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=bench "
      "-addext subjectAltName=IP:127.0.0.1,DNS:bench -keyout " +
      pair + ".key -out " + pair + ".pem 2>" + pair + ".log";
  if (std::system(command.c_str()) != 0) throw std::runtime_error("openssl: " + TextOf(pair + ".log"));
  return pair;
}

// Rules for many callers; the last of those for this one allows the locks of the bench.
std::string Policy(const Lab& lab) {
  std::string path = lab.folder() + "/policy.yaml";
  std::ofstream file(path);
  file << "version: 1\nrules:\n  - {name: status, who: [anyone], broker: [status]}\n";
  for (int i = 1; i < kRules; ++i) {
    const bool ours = i <= kOfTheCaller;
    const std::string number = std::to_string(i);
    const std::string locks = i == kOfTheCaller ? "default:lock-*\", \"default:unary-*" : "shop:order-" + number + "/*";
    file << "  - {name: rule-" << number << ", who: [\"" << (ours ? "anonymous" : "k8s:shop/worker-" + number)
         << "\"], locks: [\"" << locks << "\"], may: [acquire, look]}\n";
  }
  file.close();
  if (!file) throw std::runtime_error("cannot write " + path);
  return path;
}

std::vector<std::string> Flags(const Lab& lab, Asked asked) {
  if (asked == Asked::kPolicy) return {"--policy", Policy(lab)};
  if (asked == Asked::kNothing) return {};
  const std::string pair = Certificate(lab);
  return {"--tls-cert", pair + ".pem", "--tls-key", pair + ".key", "--tls-client-ca", pair + ".pem", "--allow-all"};
}

Target Reach(const Lab& lab, const Daemon& broker, Asked asked) {
  if (asked != Asked::kCertificate) return {broker.target()};
  const std::string pair = Certificate(lab);
  return {broker.target(), grpc::SslCredentials({.pem_root_certs = TextOf(pair + ".pem"),
                                                 .pem_private_key = TextOf(pair + ".key"),
                                                 .pem_cert_chain = TextOf(pair + ".pem")})};
}

using MakeLoad = std::function<std::unique_ptr<Load>(Target)>;

struct Shape {
  std::string name;
  MakeLoad make;
};

Case Guarded(const std::string& name, Asked asked, const MakeLoad& make) {
  return {name, [=](Lab& lab) -> Sample {
            try {
              return MeasureFresh(lab, "guarded", Flags(lab, asked),
                                  [&](const Daemon& broker) { return make(Reach(lab, broker, asked)); });
            } catch (const std::runtime_error& e) {
              return {{}, e.what()};  // of the files that the flags name
            }
          }};
}

std::vector<Shape> Shapes(const Setup& setup) {
  std::vector<Shape> shapes{{"1 client", [](const Target& target) { return BrokerSessions(target, 1, 1); }},
                            {"16 unary callers", [](const Target& target) { return UnaryClients(target, 16); }}};
  if (setup.size.smoke) return shapes;
  shapes.push_back({"64 clients", [](const Target& target) { return BrokerSessions(target, 64, 1); }});
  shapes.push_back({"1 session x 256", [](const Target& target) { return BrokerSessions(target, 1, 256); }});
  return shapes;
}

}  // namespace

std::vector<Section> GuardedSections(const Setup& setup) {
  if (!setup.clients_on_tcp) return {};  // sockets have no TLS
  Section section{"guarded",
                  "Callers that prove who they are by TLS, and a policy of 1 000 rules of which 100 are the caller's",
                  {"pairs/s", "op p50 µs", "op p99 µs", "client CPU", "daemon CPU", "redis CPU"},
                  {},
                  {},
                  "CPU columns are microseconds per pair; the client is this process, which pays for its own TLS."};
  for (const Shape& shape : Shapes(setup)) {
    const std::string plain = shape.name + ", plain";
    const std::string tls = shape.name + ", TLS";
    const std::string policy = shape.name + ", policy";
    section.cases.push_back(Guarded(plain, Asked::kNothing, shape.make));
    section.cases.push_back(Guarded(tls, Asked::kCertificate, shape.make));
    section.cases.push_back(Guarded(policy, Asked::kPolicy, shape.make));
    section.floors.push_back({tls, plain, "pairs/s", ""});
    section.floors.push_back({policy, plain, "pairs/s", ""});
    section.comparisons.push_back(
        {shape.name + ", TLS against plain", Kind::kRatio, tls, plain, "pairs/s", "0.85", ""});
    section.comparisons.push_back(
        {shape.name + ", policy against none", Kind::kRatio, policy, plain, "pairs/s", "0.99", ""});
    section.comparisons.push_back(
        {shape.name + ", daemon CPU with a policy", Kind::kRatio, policy, plain, "daemon CPU", "1.01", ""});
  }
  section.comparisons.push_back(
      {"p50 µs that TLS adds to one op", Kind::kDifference, "1 client, TLS", "1 client, plain", "op p50 µs", "30", ""});
  return {section};
}

}  // namespace distlock::bench
