import type { Check } from "./check.ts";
import { entities, failed, listOf, namesOf, ok, quoted, skipped, warning } from "./check.ts";
import type { AccessFacts, RouteFromRouter, Terminator } from "./facts.ts";
import { createBindPolicy, describeHost, inWords, turnEncryptionOff } from "./remedies.ts";

/** Is the service hosted, can its host be reached, and do both ends encrypt? */
export function hostingChecks(facts: AccessFacts): Check[] {
  return [terminatorCheck(facts), pathCheck(facts), encryptionCheck(facts)];
}

const SHOWN = 10;

function terminatorCheck(facts: AccessFacts): Check {
  const { service, hosting } = facts;
  const { terminators } = hosting;
  if (terminators.length === 0) return notHosted(facts);
  const checks = terminators.slice(0, SHOWN).map(describe);
  const dialled = dialledTerminators(terminators);
  if (dialled.length === 0) {
    const ids = [...new Set(terminators.map(({ instanceId }) => instanceId))];
    const message = `every terminator of ${quoted(service.name)} has an instance id, which a dial has to name: ${listOf(ids)}`;
    return failed("terminators", "INSTANCE_ID_NEEDED", message, {
      checks,
      remedies: [inWords("Dial with the instance id, or host without one.")],
    });
  }
  if (!dialled.some(({ router }) => router.isOnline)) {
    const routers = [...new Map(dialled.map(({ router }) => [router.id, router])).values()];
    const message = `the service is hosted over edge routers that are offline: ${namesOf(routers)}`;
    return failed("terminators", "HOST_ROUTERS_OFFLINE", message, {
      checks,
      entities: entities("edge-routers", routers),
      remedies: [inWords("Start the router, or let the host connect to another one.")],
    });
  }
  const strategy = facts.hosting.routes.find((route) => "cause" in route && route.cause === "INVALID_STRATEGY");
  if (strategy !== undefined && "message" in strategy) {
    return failed("terminators", "INVALID_STRATEGY", strategy.message, {
      remedies: [
        inWords("Choose a terminator strategy that this controller knows: smartrouting, weighted, random or sticky."),
      ],
    });
  }
  if (dialled.every(({ precedence }) => precedence === "failed")) {
    const message =
      "every terminator has the precedence failed: its host, or its health check, says that it does not work";
    return warning("terminators", "TERMINATORS_FAILED", message, {
      checks,
      remedies: [inWords("Look at the host's log and health checks.")],
    });
  }
  return ok("terminators", `hosted by ${dialled.length} terminator${dialled.length === 1 ? "" : "s"}`, { checks });
}

function notHosted({ service, hosting }: AccessFacts): Check {
  const { bindPolicies, mayHost } = hosting;
  const name = quoted(service.name);
  const policies = { entities: entities("service-policies", bindPolicies) };
  if (bindPolicies.length === 0) {
    const message = `no application hosts ${name}, and no service policy of type Bind selects it`;
    return failed("terminators", "NO_BIND_POLICY", message, { remedies: [createBindPolicy(service)] });
  }
  if (mayHost.length === 0) {
    const message = `no application hosts ${name}: ${namesOf(bindPolicies)} of type Bind select no identity`;
    return failed("terminators", "NO_IDENTITY_MAY_HOST", message, {
      ...policies,
      remedies: [createBindPolicy(service)],
    });
  }
  const hosts = mayHost.map((host) => `${quoted(host.name)} (${host.connection})`).join(", ");
  const message = `no application hosts ${name}; these identities may: ${hosts}`;
  return failed("terminators", "NOT_HOSTED", message, {
    entities: entities("identities", mayHost),
    remedies: mayHost.slice(0, 1).map((host) => describeHost(host, service)),
  });
}

function describe({ id, router, host, instanceId, precedence, cost }: Terminator): Check {
  const by = host === undefined ? "a router or an administrator" : quoted(host.name);
  const instance = instanceId === "" ? "" : `, instance ${quoted(instanceId)}`;
  const message = `hosted by ${by} over ${quoted(router.name)}${instance}: precedence ${precedence}, cost ${cost}`;
  const extra = { entities: entities("terminators", [{ id, name: id }]) };
  if (!router.isOnline)
    return warning("terminator", "HOST_ROUTER_OFFLINE", `${message}; that router is offline`, extra);
  if (precedence === "failed") return warning("terminator", "TERMINATOR_FAILED", message, extra);
  return ok("terminator", message, extra);
}

/** Those that a dial without an instance id may come to. */
function dialledTerminators(terminators: readonly Terminator[]): Terminator[] {
  return terminators.filter(({ instanceId }) => instanceId === "");
}

const isRefused = (route: RouteFromRouter): route is Extract<RouteFromRouter, { cause: string }> => "cause" in route;

function pathCheck({ hosting }: AccessFacts): Check {
  const { routes } = hosting;
  const blocked = routes.filter(isRefused);
  const open = routes.filter((route) => !isRefused(route));
  if (routes.length === 0) return skipped("path", "the identity reaches no edge router");
  const unreached = blocked.filter(({ cause }) => cause === "NO_PATH");
  if (open.length === 0) {
    if (unreached.length === 0) return skipped("path", "there is no terminator to reach");
    return failed("path", "NO_PATH", noPathText(unreached.length, routes.length), {
      entities: entities(
        "edge-routers",
        unreached.map(({ from }) => ({ id: from, name: from })),
      ),
      remedies: [
        inWords(
          "Let the routers link: give one of them a link listener that the other can reach. Their logs say why links fail.",
        ),
      ],
    });
  }
  if (unreached.length > 0) {
    return warning("path", "NO_PATH_FROM_SOME", noPathText(unreached.length, routes.length), {
      entities: entities(
        "edge-routers",
        unreached.map(({ from }) => ({ id: from, name: from })),
      ),
      remedies: [inWords("Let these routers link to the routers of the hosts.")],
    });
  }
  return ok("path", "the routers of the identity reach a router of the host");
}

function noPathText(unreached: number, all: number): string {
  return `from ${unreached} of ${all} usable edge routers no link leads to a router of the host`;
}

function encryptionCheck({ service, hosting }: AccessFacts): Check {
  if (!service.encryptionRequired) return ok("encryption", "the service does not require end-to-end encryption");
  const dialled = dialledTerminators(hosting.terminators).filter(({ router }) => router.isOnline);
  if (dialled.length === 0) return skipped("encryption", "there is no terminator to look at");
  const silent = dialled.filter(({ sendsPublicKey }) => !sendsPublicKey);
  const chosen = new Set(hosting.routes.flatMap((route) => (isRefused(route) ? [] : [route.terminatorId])));
  const dialsComeTo = hosting.isDrawn || chosen.size === 0 ? dialled : dialled.filter(({ id }) => chosen.has(id));
  if (silent.length === 0) return ok("encryption", "the hosts take part in end-to-end encryption");
  const extra = {
    entities: entities(
      "terminators",
      silent.map(({ id }) => ({ id, name: id })),
    ),
    remedies: [
      inWords("Let the hosting program encrypt: it has to send a public key when it binds."),
      turnEncryptionOff(service),
    ],
  };
  if (!dialsComeTo.some(({ sendsPublicKey }) => sendsPublicKey)) {
    const who =
      silent.length === dialled.length
        ? "no host sends a public key"
        : "the host that dials come to sends no public key";
    const message = `the service requires end-to-end encryption, and ${who}`;
    return failed("encryption", "HOST_DOES_NOT_ENCRYPT", message, extra);
  }
  const message = "the service requires end-to-end encryption, and some hosts send no public key";
  return warning("encryption", "SOME_HOSTS_DO_NOT_ENCRYPT", message, extra);
}

/** For an identity that may host: does it? */
export function ownHostingCheck({ identity, service, hosting }: AccessFacts): Check {
  const own = hosting.terminators.filter(({ host }) => host?.id === identity.id);
  if (own.length > 0) {
    return ok("hosting", `the identity hosts the service by ${own.length} terminator${own.length === 1 ? "" : "s"}`, {
      checks: own.slice(0, SHOWN).map(describe),
    });
  }
  const message = `the identity does not host ${quoted(service.name)} now`;
  return warning("hosting", "DOES_NOT_HOST", message, {
    remedies: [inWords("Start the program that hosts the service; its log says why it does not bind.")],
  });
}
