import { type Check, type CheckName, entities, failed, namesOf, ok, quoted, type Remedy, skipped } from "./check.ts";
import type { AccessFacts, EdgeRouter, RouterSide } from "./facts.ts";
import { createEdgeRouterPolicy, createServiceRouterPolicy, enableRouter, inWords } from "./remedies.ts";

/** Do the policies leave an edge router over which the identity reaches the service, and is it there? */
export function routerChecks(facts: AccessFacts): Check[] {
  const { identity, service, routers } = facts;
  const { ofIdentity, ofService } = routers;
  return [
    sideCheck("edge-router-policy", `the identity ${quoted(identity.name)}`, ofIdentity, {
      codes: ["NO_EDGE_ROUTER_POLICY", "EDGE_ROUTER_POLICY_EMPTY"],
      policies: "edge-router-policies",
      remedy: createEdgeRouterPolicy(identity, ofService.routers.slice(0, 1)),
    }),
    sideCheck("service-edge-router-policy", `the service ${quoted(service.name)}`, ofService, {
      codes: ["NO_SERVICE_EDGE_ROUTER_POLICY", "SERVICE_EDGE_ROUTER_POLICY_EMPTY"],
      policies: "service-edge-router-policies",
      remedy: createServiceRouterPolicy(service, ofIdentity.routers.slice(0, 1)),
    }),
    commonCheck(facts),
    onlineCheck(facts),
  ];
}

interface SideTexts {
  /** When no policy selects the entity, and when those that do select no router. */
  readonly codes: readonly [string, string];
  readonly policies: string;
  readonly remedy: Remedy;
}

function sideCheck(check: CheckName, whose: string, side: RouterSide, { codes, policies, remedy }: SideTexts): Check {
  const kind = policies === "edge-router-policies" ? "edge router policy" : "service edge router policy";
  if (side.routers.length > 0) {
    return ok(check, `${whose} may use ${namesOf(side.routers)}`, { entities: entities(policies, side.policies) });
  }
  if (side.policies.length === 0) return failed(check, codes[0], `no ${kind} selects ${whose}`, { remedies: [remedy] });
  if (side.disabled.length > 0) {
    const message = `the policies of ${whose} select only disabled edge routers: ${namesOf(side.disabled)}`;
    return failed(check, "EDGE_ROUTERS_DISABLED", message, {
      entities: entities("edge-routers", side.disabled),
      remedies: side.disabled.slice(0, 1).map(enableRouter),
    });
  }
  const message = `the policies of ${whose} select no edge router: ${namesOf(side.policies)}`;
  return failed(check, codes[1], message, { entities: entities(policies, side.policies), remedies: [remedy] });
}

function commonCheck({ identity, service, routers }: AccessFacts): Check {
  const { common, ofIdentity, ofService } = routers;
  if (common.length > 0) return ok("common-routers", `both may use ${namesOf(common)}`);
  if (ofIdentity.routers.length === 0 || ofService.routers.length === 0) {
    return skipped("common-routers", "one of the two may use no edge router");
  }
  if (identity.isRouter) {
    const message = `a tunneling router dials over itself, and the service edge router policies of ${quoted(service.name)} do not select it`;
    return failed("common-routers", "ROUTER_NOT_FOR_SERVICE", message, {
      remedies: [createServiceRouterPolicy(service, [identity])],
    });
  }
  const message = `the identity may use ${namesOf(ofIdentity.routers)}, the service ${namesOf(ofService.routers)}: no edge router is common`;
  return failed("common-routers", "NO_COMMON_EDGE_ROUTER", message, {
    remedies: [
      createServiceRouterPolicy(service, ofIdentity.routers.slice(0, 1)),
      createEdgeRouterPolicy(identity, ofService.routers.slice(0, 1)),
    ],
  });
}

/** Over which of the common routers does the identity get into the network now? */
export function usableRouters<R extends Pick<EdgeRouter, "isOnline" | "hasListener">>(
  common: readonly R[],
  isTunneler: boolean,
): R[] {
  return common.filter(({ isOnline, hasListener }) => isOnline && (isTunneler || hasListener));
}

const SHOWN = 10;

function onlineCheck(facts: AccessFacts): Check {
  const { common } = facts.routers;
  if (common.length === 0) return skipped("edge-routers", "there is no common edge router");
  const usable = usableRouters(common, facts.identity.isRouter);
  const shown = common.slice(0, SHOWN).map((router) => routerCheck(router, facts.identity.isRouter));
  if (usable.length > 0) {
    return ok("edge-routers", `${usable.length} of ${common.length} common edge routers can be used`, {
      // One that is away is no obstacle while another one is there.
      checks: shown.map((each) => (each.status === "failed" ? { ...each, status: "warning" } : each)),
    });
  }
  const isAny = common.some(({ isOnline }) => isOnline);
  const message = isAny
    ? `no online edge router has a listener for applications: ${namesOf(common)}`
    : `every common edge router is offline: ${namesOf(common)}`;
  return failed("edge-routers", isAny ? "NO_EDGE_LISTENER" : "EDGE_ROUTERS_OFFLINE", message, { checks: shown });
}

function routerCheck(router: EdgeRouter, isTunneler: boolean): Check {
  const about = { entities: entities("edge-routers", [router]) };
  const name = quoted(router.name);
  if (!router.isOnline) {
    return failed("edge-router", "EDGE_ROUTER_OFFLINE", `${name} is not connected to the controller`, {
      ...about,
      remedies: [inWords("Start the router; its log says why it cannot connect.")],
    });
  }
  if (router.hasListener || isTunneler) return ok("edge-router", `${name} is online`, about);
  return failed("edge-router", "NO_EDGE_LISTENER", `${name} is online, and applications cannot connect to it`, {
    ...about,
    remedies: [inWords("Configure an edge listener with an advertised address on the router.")],
  });
}
