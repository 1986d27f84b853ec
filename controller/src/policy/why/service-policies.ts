import type { Remedy } from "./check.ts";
import { type Check, entities, failed, namesOf, ok, quoted } from "./check.ts";
import type { AccessFacts, NamedEntity, ServicePolicyRef } from "./facts.ts";
import { addAttributes, createServicePolicy, inWords, missingAttributes } from "./remedies.ts";

/** Does a service policy let the identity dial, or host, the service? */
export function servicePolicyCheck({ type, identity, service, policies }: AccessFacts): Check {
  const { granting, ofOtherType, missingIdentity, missingService, isKeptAlive } = policies;
  if (granting.length > 0) {
    return ok("service-policy", `granted by ${namesOf(granting)}`, {
      entities: entities("service-policies", granting),
    });
  }
  if (isKeptAlive) return ok("service-policy", "an administrator keeps a session that it has, without a policy");
  const create = createServicePolicy(type, identity, service);
  if (missingIdentity.length > 0) {
    const nearest = nearestOf(missingIdentity, (policy) =>
      missingAttributes(policy.identities, policy.semantic, identity),
    );
    const other = otherType(type, ofOtherType);
    const message = `${selecting(missingIdentity, type)} the service ${quoted(service.name)} but not the identity ${quoted(identity.name)}`;
    return failed("service-policy", "IDENTITY_NOT_SELECTED", `${message}${nearest.text}${other}`, {
      entities: entities("service-policies", missingIdentity),
      remedies: [...remediesFor("identity", identity, nearest), create],
    });
  }
  if (ofOtherType.length > 0) {
    const message = `no service policy of type ${type} selects both;${otherType(type, ofOtherType).slice(1)}`;
    return failed("service-policy", "OTHER_TYPE_ONLY", message, {
      entities: entities("service-policies", ofOtherType),
      remedies: [create],
    });
  }
  if (missingService.length > 0) {
    const nearest = nearestOf(missingService, (policy) => missingAttributes(policy.services, policy.semantic, service));
    const message = `${selecting(missingService, type)} the identity ${quoted(identity.name)} but not the service ${quoted(service.name)}`;
    return failed("service-policy", "SERVICE_NOT_SELECTED", `${message}${nearest.text}`, {
      entities: entities("service-policies", missingService),
      remedies: [create, ...remediesFor("service", service, nearest)],
    });
  }
  const message = `no service policy of type ${type} selects the identity or the service`;
  return failed("service-policy", "NO_SERVICE_POLICY", message, { remedies: [create] });
}

function selecting(policies: readonly ServicePolicyRef[], type: string): string {
  const noun = policies.length === 1 ? "the service policy" : "the service policies";
  return `${noun} ${namesOf(policies)} of type ${type} select${policies.length === 1 ? "s" : ""}`;
}

function otherType(type: string, policies: AccessFacts["policies"]["ofOtherType"]): string {
  if (policies.length === 0) return "";
  const other = type === "Dial" ? "Bind" : "Dial";
  return `; ${namesOf(policies)} of type ${other} select${policies.length === 1 ? "s" : ""} both`;
}

interface Nearest {
  readonly missing: readonly string[];
  readonly policy: ServicePolicyRef | undefined;
  readonly text: string;
}

/** The policy for which the fewest attributes are missing. */
function nearestOf(
  policies: readonly ServicePolicyRef[],
  missingOf: (policy: ServicePolicyRef) => readonly string[] | undefined,
): Nearest {
  const found = policies
    .flatMap((policy) => {
      const missing = missingOf(policy);
      return missing === undefined ? [] : [{ policy, missing }];
    })
    .sort((a, b) => a.missing.length - b.missing.length)[0];
  if (found === undefined) return { missing: [], policy: undefined, text: "" };
  const attributes = found.missing.map((attribute) => quoted(`#${attribute}`)).join(", ");
  return { ...found, text: `; ${quoted(found.policy.name)} wants the role attribute ${attributes}` };
}

function remediesFor(kind: "identity" | "service", entity: NamedEntity, { missing, policy }: Nearest): Remedy[] {
  if (policy === undefined) return [];
  const attributes = addAttributes(kind, entity, missing);
  return missing.length > 0 ? [attributes] : [inWords(`Add the ${kind} to the policy ${quoted(policy.name)}.`)];
}
