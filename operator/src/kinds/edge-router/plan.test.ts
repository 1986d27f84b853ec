import type { FoundEdgeRouter } from "@sallyport/resources";
import { describe, expect, test } from "vitest";
import { Admissions } from "../../children/intent.ts";
import type { ObservedRouter, RouterPlanInput } from "./plan/router-plan.ts";
import { planEdgeRouter, rolloutTurn } from "./plan.ts";
import {
  ago,
  applied,
  formers,
  found,
  input,
  object,
  of,
  pair,
  plannedActions,
  pod,
  router,
  settled,
  tokenless,
  unowned,
  unverified,
  withSpec,
} from "./testing/routers.ts";

const SHARED = ["apply ServiceAccount eu", "apply Service eu"];
const conflict = { reason: "NameConflict", message: "m", isStalled: true };
const ONE = ["apply Service eu-0-edge", "apply ConfigMap eu-0-config", "apply StatefulSet eu-0"];

describe("what is to be done", () => {
  test("for a new router: token before pod, Service, file, pod", () => {
    const given = input([of(unverified(), { before: undefined, pod: undefined, claim: undefined })]);
    expect(plannedActions(given)).toEqual([...SHARED, "apply Secret eu-0-enrollment", ...ONE]);
    expect(plannedActions(applied(given))).toEqual([]);
  });

  test("nothing of a spec with a mistake in it, also not what would be possible", () => {
    const wrong = { config: { overrides: { nonsense: 1 } }, networkPolicy: { enabled: true } };
    const before = settled(pair());
    expect(plannedActions(withSpec(before, { replicas: 2, networkPolicy: { enabled: true } }))).toEqual([
      "apply NetworkPolicy eu",
    ]);
    expect(plannedActions(withSpec(before, { replicas: 2, ...wrong }))).toEqual([]);
    expect(plannedActions(input([of(unverified(), { before: undefined, pod: undefined })], { spec: wrong }))).toEqual(
      [],
    );
  });

  test("nothing once all is there, whatever there is", () => {
    for (const spec of [
      {},
      { networkPolicy: { enabled: true }, serviceMonitor: { enabled: true } },
      { exposure: { type: "NodePort", hostname: "x", nodePort: 30_000 } },
      { exposure: { type: "HostPort" } },
      { exposure: { type: "None" } },
      { template: { spec: { resources: { requests: { cpu: "1000m" } } } } },
    ]) {
      const given = settled(pair(), { spec: { replicas: 2, ...spec } });
      expect(plannedActions(given), JSON.stringify(spec)).toEqual([]);
    }
  });

  // biome-ignore format: a table
  test.each<[string, RouterPlanInput, string[]]>([
    ["the token goes once it was used", settled([router({ secret: object("Secret", "eu-0-enrollment") })]), ["delete Secret eu-0-enrollment"]],
    ["the volume grows, and its StatefulSet keeps the size", withSpec(settled(), { storage: { size: "1Gi" } }), ["grow data-eu-0-0 1Gi"]],
    ["a Service that is needed no more goes when the router has moved", withSpec(settled(), { exposure: { type: "None" } }),
      ["apply ConfigMap eu-0-config", "apply StatefulSet eu-0"]],
    ["and not before", applied(withSpec(settled(), { exposure: { type: "None" } }), { isReady: false }), []],
    ["but then", applied(withSpec(settled(), { exposure: { type: "None" } })), ["delete Service eu-0-edge"]],
    [
      "guards that are not wanted any more go",
      withSpec(settled(pair(), { spec: { networkPolicy: { enabled: true } } }), { podDisruptionBudget: { enabled: false } }),
      ["delete PodDisruptionBudget eu", "delete NetworkPolicy eu"],
    ],
    ["nothing is made without an address", input([router()], { spec: { exposure: { type: "LoadBalancer" } } }),
      [...SHARED, "apply Service eu-0-edge"]],
    ["a file that can't be leaves the pods as they are", withSpec(settled(), { config: { overrides: { v: 4 } } }), []],
    ["so does a template that can't be", withSpec(settled(), { drainSeconds: 7, template: { spec: { volumes: [{ name: "data" }] } } }), []],
    ["an entity that is another owner's stops its router only", input([router({ entity: { state: "failed", ...conflict } }), router({ ordinal: 1 })]),
      [...SHARED, "apply PodDisruptionBudget eu", ...ONE.map((each) => each.replace("eu-0", "eu-1"))]],
    ["an object that is another owner's stops its router only", input([router({ configMap: unowned("ConfigMap", "eu-0-config") })]), SHARED],
    ["a new token comes before anything else is known of it", settled([of(unverified({ enrollmentExpiresAt: ago(1) }))]), ["reEnroll 0"]],
    ["what concerns the entity alone touches no object", withSpec(settled(), { roleAttributes: ["x"], cost: 5, tags: { a: "b" }, noTraversal: true }),
      []],
    [
      "what a former EdgeRouter of the name has left goes first",
      input([router({ configMap: formers("ConfigMap", "eu-0-config") })], { shared: new Map([["Service/eu", formers("Service", "eu")]]) }),
      ["apply ServiceAccount eu", "delete Service eu", "delete ConfigMap eu-0-config"],
    ],
  ])("%s", (_name, given, wanted) => expect(plannedActions(given)).toEqual(wanted));
});

describe("the Service of a router whose address changes", () => {
  type Shape = { spec: { type: string; ports: { name: string; port: number }[] } };
  const shape = (given: RouterPlanInput) => {
    const service = given.routers[0]?.service as unknown as Shape | undefined;
    return `${service?.spec.type} ${service?.spec.ports.map(({ port }) => port).join(" ")}`;
  };
  const advertised = "lb.example:443";
  const at = (type: string, more: object = {}) => ({ exposure: { type, ...more } });
  const start = (spec: object) => {
    const given = settled([router()], { spec });
    const before = { ...given.routers[0]?.before, ordinal: 0, advertiseAddress: advertised };
    return { ...given, routers: given.routers.map((each) => ({ ...each, before })) };
  };
  // biome-ignore format: a table
  test.each<[string, object, object, string, string]>([
    ["keeps its load balancer", at("LoadBalancer", { hostname: "lb.example", port: 443 }), at("ClusterIP"), "LoadBalancer 443", "ClusterIP 3022"],
    ["keeps its node port", at("NodePort", { hostname: "lb.example" }), at("ClusterIP"), "NodePort 3022", "ClusterIP 3022"],
    ["gets its load balancer at once", at("ClusterIP"), at("LoadBalancer", { hostname: "b.example", port: 443 }), "LoadBalancer 443 3022",
      "LoadBalancer 443"],
    ["has both ports", at("ClusterIP"), { edge: { port: 4000 } }, "ClusterIP 4000 3022", "ClusterIP 4000"],
    ["keeps the node port that it had", at("NodePort", { hostname: "lb.example", nodePort: 30_000 }),
      at("NodePort", { hostname: "lb.example", nodePort: 30_001 }), "NodePort 3022", "NodePort 3022"],
  ])("%s until the router has moved", (_name, from, to, meanwhile, after) => {
    const names = ["lb.example", "b.example", "eu-0-edge.edge.svc"];
    const moving = withSpec(start(from), to);
    const going = applied(moving, { isReady: false });
    expect(shape(going)).toBe(meanwhile);
    expect(plannedActions(going)).toEqual([]);
    const there = applied(
      applied({ ...going, routers: going.routers.map((each) => ({ ...each, servedNames: names })) }),
    );
    const moved = applied(applied(there));
    expect(shape(moved)).toBe(after);
    expect(plannedActions(moved)).toEqual([]);
  });
});

test("what admission makes of the objects is left so, and the rollout goes on to the next router", () => {
  const admissions = new Admissions();
  const mirrored = (given: RouterPlanInput): RouterPlanInput => ({
    ...given,
    routers: given.routers.map((each) => {
      const text = JSON.stringify(each).replaceAll("docker.io/", "mirror.example/");
      return JSON.parse(text) as ObservedRouter;
    }),
  });
  const given = input(pair(), { image: "docker.io/router:1", isThere: admissions.isThere });
  const done = mirrored(applied(given));
  const sets = ["apply StatefulSet eu-0", "apply StatefulSet eu-1"];
  expect(plannedActions(done)).toEqual(sets.slice(0, 1));
  for (const action of planEdgeRouter(given).actions) {
    if (action.type !== "apply" || action.object.kind !== "StatefulSet") continue;
    const ordinal = Number(action.object.metadata.labels?.["sallyport.dev/ordinal"]);
    const { statefulSet } = done.routers[ordinal] ?? {};
    if (statefulSet !== undefined) admissions.wrote(action.object, statefulSet);
  }
  expect(plannedActions(done)).toEqual([]);
  expect(planEdgeRouter(done).conditions.map(({ type }) => type)).not.toContain("Reconciling");
  expect(plannedActions({ ...done, image: "docker.io/router:2" })).toEqual(sets.slice(0, 1));
});

describe("a rollout", () => {
  const three = () =>
    settled(
      [0, 1, 2].map((ordinal) => router({ ordinal })),
      { spec: { exposure: { type: "None" } } },
    );
  const changed = (given: RouterPlanInput, more: object = {}) =>
    withSpec(given, { exposure: { type: "None" }, drainSeconds: 7, ...more });
  const away = (given: RouterPlanInput, ordinal: number, more: Partial<FoundEdgeRouter> = { isOnline: false }) => ({
    ...given,
    routers: given.routers.map((each) =>
      each.ordinal === ordinal
        ? { ...each, entity: { state: "synced" as const, found: found({ id: `r-${ordinal}`, ...more }) } }
        : each,
    ),
  });
  const allAway = (given: RouterPlanInput) => [0, 1, 2].reduce((each, ordinal) => away(each, ordinal), given);
  const unready = (given: RouterPlanInput) => ({
    ...given,
    routers: given.routers.map((each) => ({
      ...each,
      statefulSet: {
        ...each.statefulSet,
        status: { observedGeneration: 1, readyReplicas: 0, updatedReplicas: 1 },
      } as ObservedRouter["statefulSet"],
    })),
  });
  const readyFor = (given: RouterPlanInput, ordinal: number, seconds: number) => {
    const ready = { type: "Ready", status: "True", lastTransitionTime: ago(seconds) };
    const routers = given.routers.map((each) =>
      each.ordinal === ordinal ? { ...each, pod: pod({ conditions: [ready] }) } : each,
    );
    return { ...given, routers };
  };
  const turns = (given: RouterPlanInput) => plannedActions(given).filter((each) => each.includes("StatefulSet"));

  test("goes from router to router, the next one when the one before is back", () => {
    let given = changed(three());
    for (const ordinal of [0, 1, 2]) {
      expect(turns(given)).toEqual([`apply StatefulSet eu-${ordinal}`]);
      given = applied(given);
    }
    expect(plannedActions(given)).toEqual([]);
  });

  // biome-ignore format: a table
  test.each<[string, RouterPlanInput, string[]]>([
    ["waits for one that is not ready", applied(changed(three()), { isReady: false }), []],
    ["waits for one that is not connected", away(applied(changed(three())), 0), []],
    ["waits for one whose data model is not there", away(applied(changed(three())), 0, { syncStatus: "SYNC_IN_PROGRESS" }), []],
    ["waits until the one before has been ready for long enough", readyFor(applied(changed(three())), 0, 9), []],
    ["goes on when the one before has been ready for long enough", readyFor(applied(changed(three())), 0, 10), ["apply StatefulSet eu-1"]],
    ["waits for as long as the spec says", readyFor(applied(changed(three(), { updateStrategy: { minReadySeconds: 60 } })), 0, 59), []],
    ["takes the one again that has just become ready, before any other", changed(readyFor(applied(changed(three())), 0, 1), { drainSeconds: 8 }),
      ["apply StatefulSet eu-0"]],
    ["begins with one that is away anyway", away(changed(three()), 2), ["apply StatefulSet eu-2"]],
    ["repairs the one that it broke, and no other", changed(applied(changed(three()), { isReady: false }), { drainSeconds: 8 }),
      ["apply StatefulSet eu-0"]],
    ["takes as many at a time as may be away", changed(three(), { updateStrategy: { maxUnavailable: 2 } }),
      ["apply StatefulSet eu-0", "apply StatefulSet eu-1"]],
    ["takes one at a time of those that serve when no controller has any, as after a restart of the controller", allAway(changed(three())),
      ["apply StatefulSet eu-0"]],
    ["and the next one only when the one before is ready again", allAway(applied(allAway(changed(three())), { isReady: false })), []],
    ["touches none that a controller has while another one is lost", away(changed(applied(changed(three()))), 2), ["apply StatefulSet eu-2"]],
    ["takes all at once whose pods are not ready", unready(changed(three())),
      ["apply StatefulSet eu-0", "apply StatefulSet eu-1", "apply StatefulSet eu-2"]],
  ])("%s", (_name, given, wanted) => expect(turns(given)).toEqual(wanted));

  test("is asked for by an annotation, and told when it is done", () => {
    const metadata = { annotations: { "sallyport.dev/restart-requested-at": "now" } };
    const given = { ...three() };
    let asked: RouterPlanInput = {
      ...given,
      resource: input(given.routers, { spec: { exposure: { type: "None" } }, metadata }).resource,
    };
    for (const ordinal of [0, 1, 2]) {
      expect(turns(asked)).toEqual([`apply StatefulSet eu-${ordinal}`]);
      expect(planEdgeRouter(asked).lastHandledRestart).toBeUndefined();
      asked = applied(asked);
    }
    expect(planEdgeRouter(asked).lastHandledRestart).toBe("now");
  });

  test("is looked after until the next one may be touched", () => {
    expect(planEdgeRouter(readyFor(applied(changed(three())), 0, 9)).requeueAfterMs).toBeLessThanOrEqual(1_000);
  });

  test("never lets more than the allowed number be away, of any start", () => {
    for (let bits = 0; bits < 8 ** 4; bits++) {
      const routers = [0, 1, 2, 3].map((ordinal) => {
        const state = Math.floor(bits / 8 ** ordinal) % 8;
        const [isServing, isAvailable, isSettled] = [state % 4 < 3, state % 4 < 2, state % 4 < 1];
        return { ordinal, exists: true, isOutdated: state > 3, isServing, isAvailable, isSettled };
      });
      const turn = rolloutTurn(routers, 2);
      for (const is of ["isServing", "isAvailable", "isSettled"] as const) {
        const gone = routers.filter((each) => !each[is] || turn.has(each.ordinal)).length;
        const were = routers.filter((each) => !each[is]).length;
        expect(gone, `${is} of ${JSON.stringify(routers)}`).toBeLessThanOrEqual(Math.max(2, were));
      }
    }
  });
});

describe("events", () => {
  const events = (given: RouterPlanInput) =>
    planEdgeRouter(given).events.map(({ type, reason }) => `${type} ${reason}`);
  const before = { ordinal: 0, id: "r-0", verified: true, online: true, everOnline: true };
  test.each<[string, RouterPlanInput, string[]]>([
    ["nothing happened", settled([router({ before })]), []],
    [
      "it was enrolled and came online",
      settled([router({ before: { ...before, verified: false, online: false } })]),
      ["Normal RouterVerified", "Normal RouterOnline"],
    ],
    ["it went", settled([of(found({ isOnline: false }), { before })]), ["Warning RouterOffline"]],
    [
      "its token is replaced",
      settled([
        of(unverified({ enrollmentExpiresAt: ago(1) }), { before: { ...before, verified: false, online: false } }),
      ]),
      ["Normal ReEnrolled"],
    ],
    [
      "its volume was lost",
      settled([
        of(found({ isOnline: false }), { before: { ...before, online: false, volume: "other" }, pod: tokenless() }),
      ]),
      ["Warning ReEnrolled"],
    ],
    [
      "a load balancer has no name",
      // biome-ignore format: a table
      input(
        [router({ before, service: object("Service", "eu-0-edge", { status: { loadBalancer: { ingress: [{ ip: "192.0.2.1" }] } } }) })],
        { spec: { exposure: { type: "LoadBalancer" } } },
      ),
      ["Warning LoadBalancerIpAdvertised"],
    ],
  ])("%s", (_name, given, wanted) => expect(events(given)).toEqual(wanted));
});

test("when the next look is", () => {
  const next = (given: RouterPlanInput) => planEdgeRouter(given).requeueAfterMs;
  expect(next(settled())).toBe(30_000);
  expect(next(settled([of(unverified(), { pod: pod({}, { creationTimestamp: ago(5) }) })]))).toBe(1_000);
  expect(next(settled([of(found({ isOnline: false }))]))).toBe(15_000);
  expect(next(settled([router({ secret: unowned("Secret", "eu-0-enrollment") })]))).toBe(15_000);
});

test("a token that was replaced while a pod has used the one before is a new Secret, which is newer than the pod", () => {
  const given = settled([of(unverified(), { pod: pod() })]);
  const [only] = given.routers;
  const again = {
    ...only,
    entity: { state: "synced", found: unverified({ enrollmentJwt: "d.e.f" }) },
  } as ObservedRouter;
  expect(plannedActions({ ...given, routers: [again] })).toEqual(["delete Secret eu-0-enrollment"]);
  expect(plannedActions({ ...given, routers: [{ ...again, secret: undefined }] })).toEqual([
    "apply Secret eu-0-enrollment",
  ]);
  expect(plannedActions({ ...given, routers: [{ ...again, pod: tokenless() }] })).toEqual([
    "apply Secret eu-0-enrollment",
  ]);
});

test("a pod that runs under certificates that are void is started again, once its token is there", () => {
  const given = settled([of(unverified(), { pod: pod() })]);
  const [only] = given.routers;
  const late = {
    ...only?.secret,
    metadata: { ...only?.secret?.metadata, creationTimestamp: ago(5) },
  } as ObservedRouter["secret"];
  expect(plannedActions({ ...given, routers: [{ ...only, secret: late } as ObservedRouter] })).toEqual([
    "delete Pod eu-0-0",
  ]);
});
