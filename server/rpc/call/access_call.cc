// SPDX-License-Identifier: Apache-2.0
#include "rpc/call/access_call.h"

#include <string>
#include <vector>

#include "access/pattern_text.h"
#include "contract/utf8.h"
#include "contract/validate.h"

namespace distlock::rpc {
namespace {

constexpr size_t kMostPatterns = 100;
constexpr std::string_view kNobody = "anonymous";

bool IsForOperators(access::Verb verb) {
  return verb == access::Verb::kForceRelease || verb == access::Verb::kDrain || verb == access::Verb::kReload ||
         verb == access::Verb::kStore;
}

// `is_served`: what is for operators may be called where the caller is.
void AddRights(const access::Rights& rights, bool is_served, v1::CheckAccessResponse* response) {
  for (int number = 0; number < access::kVerbs; ++number) {
    const auto verb = static_cast<access::Verb>(number);
    if (!is_served && IsForOperators(verb)) continue;
    const bool of_locks = access::IsLockVerb(verb);
    if (of_locks ? !rights.MayAnywhere(verb) : !rights.MayAtBroker(verb).allowed) continue;
    v1::AccessRight& right = *response->add_rights();
    right.set_verb(std::string(access::NameOf(verb)));
    if (!of_locks) continue;
    for (std::string& one : rights.Allowed(verb, kMostPatterns)) right.add_locks(contract::CleanText(one));
    for (std::string& one : rights.Denied(verb, kMostPatterns)) right.add_denied_locks(contract::CleanText(one));
  }
}

access::Decision Decide(const access::Rights& rights, access::Verb verb, const v1::CheckAccessRequest& request) {
  if (!access::IsLockVerb(verb)) return rights.MayAtBroker(verb);
  if (!request.prefix()) return rights.May(verb, request.namespace_(), request.key());
  return rights.MayAll(verb, contract::NamespaceOf(request.namespace_()), request.key());
}

}  // namespace

void CheckAccessCall::Start(const grpc::ByteBuffer& bytes) {
  v1::CheckAccessRequest request;
  if (!Read(bytes, &request)) return;
  contract::Validator check(frontend().limits);
  const auto verb = access::VerbOf(request.verb());
  if (!request.verb().empty() && !verb) {
    check.Bad("verb",
              "is no verb of a policy; there are exclusive, shared, permit, look, watch, list, force-release, "
              "min-hold, status, sessions, drain, reload, access, store");
  }
  if (verb && access::IsLockVerb(*verb) && !request.prefix()) check.Name(request.namespace_(), request.key(), "");
  const auto principal = access::ParsePrincipal(request.principal());
  if (!request.principal().empty() && request.principal() != kNobody && !principal) {
    check.Bad("principal", "is none that a caller can have; pass one such as k8s:shop/worker, or anonymous");
  }
  if (!check.ok()) return void(Refuse(check.Refusal()));
  Authorizer& authorizer = frontend().authorizer;
  if (!request.principal().empty() && Denied(authorizer.CheckBroker(subject(), access::Verb::kAccess))) return;
  Subject other;
  if (!request.principal().empty()) {
    other = authorizer.As(principal ? std::vector{*principal} : std::vector<access::Principal>());
  } else {
    authorizer.Refresh(subject());
  }
  const Subject& whose = request.principal().empty() ? subject() : other;
  v1::CheckAccessResponse response;
  response.set_identity(contract::CleanText(whose.identity()));
  response.set_allowed(whose.rights == nullptr && verb.has_value());
  if (whose.rights != nullptr) {
    if (verb) {
      const access::Decision decision = Decide(*whose.rights, *verb, request);
      response.set_allowed(decision.allowed);
      response.set_rule(std::string(decision.rule));
    }
    AddRights(*whose.rights, obstacle_.empty() || !request.principal().empty(), &response);
  }
  // How somebody else is connected is not known.
  if (request.principal().empty() && !obstacle_.empty() && (!verb || IsForOperators(*verb))) {
    const std::string what(verb ? access::NameOf(*verb) : "force-release, drain, reload and store: each");
    response.set_obstacle(what + " " + obstacle_);
    if (verb) response.set_allowed(false);
  }
  Answer(response);
}

}  // namespace distlock::rpc
