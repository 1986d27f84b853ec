/** What fixes a problem, as commands of `sallyport` where there is one. */
import { isPrintable, shellWord, subjectWord } from "@sallyport/program/shell-word";
import type { Permission } from "@sallyport/wire";
import { quoted, type Remedy } from "./check.ts";
import type { Named, NamedEntity, ServicePolicyRef } from "./facts.ts";

/** A selector of a single entity, by its name if that can be copied, or else by its id. */
function roleOf(named: Named): string {
  return `@${printable(named)}`;
}

/** The name where a terminal shows it as it is, or else the id. */
function printable({ id, name }: Named): string {
  return isPrintable(name) ? name : id;
}

function command(...words: readonly string[]): string {
  return ["sallyport", ...words].join(" ");
}

/** @param field of the API, such as `identityRoles`, for the option `--identity-roles` */
function option(field: string, ...values: readonly string[]): string {
  const name = field.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
  return `--${name} ${shellWord(values.join(","))}`;
}

export function createServicePolicy(type: Permission, identity: Named, service: Named): Remedy {
  return {
    text: `Create a service policy of type ${type} that selects both.`,
    command: command(
      "create service-policy",
      shellWord(`${type.toLowerCase()}-${printable(service)}`),
      option("type", type),
      option("identityRoles", roleOf(identity)),
      option("serviceRoles", roleOf(service)),
      option("semantic", "AnyOf"),
    ),
  };
}

/** A policy of type `Bind` for hosts of a service, which the administrator gives the attribute. */
export function createBindPolicy(service: Named): Remedy {
  return {
    text: "Create a service policy of type Bind, and give its role attribute to the identities that host the service.",
    command: command(
      "create service-policy",
      shellWord(`bind-${printable(service)}`),
      option("type", "Bind"),
      option("identityRoles", `#${printable(service)}-hosts`),
      option("serviceRoles", roleOf(service)),
      option("semantic", "AnyOf"),
    ),
  };
}

/** Role attributes that an entity lacks for a policy to select it; undefined when attributes alone cannot do it. */
export function missingAttributes(
  { attrs: wanted }: ServicePolicyRef["identities"],
  semantic: ServicePolicyRef["semantic"],
  { attrs }: NamedEntity,
): readonly string[] | undefined {
  const missing = wanted.filter((attribute) => !attrs.includes(attribute));
  if (missing.length === 0) return undefined;
  return semantic === "AllOf" ? missing : missing.slice(0, 1);
}

export function addAttributes(kind: "identity" | "service", entity: NamedEntity, missing: readonly string[]): Remedy {
  const attributes = missing.map((attribute) => `#${attribute}`).join(", ");
  const text = `Give the ${kind} the role attribute${missing.length === 1 ? "" : "s"} ${attributes}.`;
  const all = [...entity.attrs, ...missing];
  // The option takes a list with commas.
  if (all.some((attribute) => attribute.includes(","))) return { text };
  return { text, command: command("patch", kind, subjectWord(entity), option("roleAttributes", ...all)) };
}

export function createEdgeRouterPolicy(identity: Named, routers: readonly Named[]): Remedy {
  return {
    text: "Create an edge router policy that selects the identity and a router.",
    command: command(
      "create edge-router-policy",
      shellWord(`routers-of-${printable(identity)}`),
      option("identityRoles", roleOf(identity)),
      option("edgeRouterRoles", ...(routers.length === 0 ? ["#all"] : routers.map(roleOf))),
      option("semantic", "AnyOf"),
    ),
  };
}

export function createServiceRouterPolicy(service: Named, routers: readonly Named[]): Remedy {
  return {
    text: "Create a service edge router policy that selects the service and a router.",
    command: command(
      "create service-edge-router-policy",
      shellWord(`routers-of-${printable(service)}`),
      option("serviceRoles", roleOf(service)),
      option("edgeRouterRoles", ...(routers.length === 0 ? ["#all"] : routers.map(roleOf))),
      option("semantic", "AnyOf"),
    ),
  };
}

export function enableIdentity(id: string): Remedy {
  return { text: "Enable the identity.", command: command("api POST", shellWord(`/identities/${id}/enable`)) };
}

const DAY_MS = 86_400_000;

export function reEnroll(authenticatorId: string, at: number): Remedy {
  const expiresAt = new Date(at + DAY_MS).toISOString();
  return {
    text: "Enroll the identity again, and give its program the new token.",
    command: command(
      "api POST",
      shellWord(`/authenticators/${authenticatorId}/re-enroll`),
      `--data ${shellWord(JSON.stringify({ expiresAt }))}`,
    ),
  };
}

/** Of a certificate that the network did not issue, and so cannot replace. */
export function replaceCertificate(authority: Named): Remedy {
  const text = `Have the certificate authority ${quoted(authority.name)} issue a new certificate, and create an authenticator of the identity with it.`;
  return inWords(text);
}

export function enableRouter(router: Named): Remedy {
  return {
    text: "Enable the router.",
    command: command("patch edge-router", subjectWord(router), option("disabled", "false")),
  };
}

export function turnEncryptionOff(service: Named): Remedy {
  return {
    text: "Or let the service go without end-to-end encryption, if its traffic may be read by routers.",
    command: command("patch service", subjectWord(service), option("encryptionRequired", "false")),
  };
}

export function describeHost(host: Named, service: Named): Remedy {
  return {
    text: `Start the program of ${printable(host)} that hosts the service. This says why it cannot host:`,
    command: command("why", subjectWord(host), subjectWord(service), option("type", "bind")),
  };
}

/** An action without a command of its own. */
export function inWords(text: string): Remedy {
  return { text };
}
