import type { EdgeRouterResource } from "@sallyport/resources";
import { describe, expect, test } from "vitest";
import type { UsableNetwork } from "../../../controller-client/network-clients.ts";
import { KubeError } from "../../../kube/client/errors.ts";
import { KINDS, type KubeObject } from "../../../kube/kinds.ts";
import type { RouterAction } from "../plan/router-plan.ts";
import { edgeRouter } from "../testing/edge-router.ts";
import { RouterActions } from "./actions.ts";
import { ChildReader, type RouterContext } from "./observe.ts";

const resource = edgeRouter() as EdgeRouterResource;
const network = {} as UsableNetwork;
const MINUTE_MS = 60_000;

/** As much of a context as is looked at. */
function contextOf(client: object, known: object = {}) {
  let now = Date.parse("2026-11-02T12:00:00Z");
  const recorded: string[] = [];
  const context = {
    client,
    known,
    signal: new AbortController().signal,
    now: () => new Date(now),
    recordEvent: ({ reason }: { reason: string }) => void recorded.push(reason),
  } as unknown as RouterContext;
  const wait = (ms: number): void => {
    now += ms;
  };
  return { context, recorded, wait };
}

describe("a volume that the cluster does not let grow", () => {
  const grow = (size: string): RouterAction => ({ type: "growClaim", name: "data-eu-0-0", size });

  test("is recorded, left alone for a while, and asked for again without a restart; another size at once", async () => {
    const message = "only dynamically provisioned pvc can be resized";
    let error: KubeError | undefined = new KubeError({ status: 403, reason: "Forbidden", message });
    const asked: unknown[] = [];
    const patch = async (_ref: unknown, body: unknown) => {
      asked.push(body);
      if (error !== undefined) throw error;
    };
    const { context, recorded, wait } = contextOf({ patch });
    const actions = new RouterActions(new ChildReader());
    const isPutOff = (size: string) => actions.isPutOff(resource, grow(size), context.now());
    expect(isPutOff("1Gi")).toBe(false);
    await actions.carryOut(resource, grow("1Gi"), network, context);
    expect(recorded).toEqual(["VolumeNotGrown"]);
    expect(isPutOff("1Gi")).toBe(true);
    expect(isPutOff("2Gi")).toBe(false);
    wait(11 * MINUTE_MS);
    expect(isPutOff("1Gi")).toBe(false);
    error = undefined;
    await actions.carryOut(resource, grow("1Gi"), network, context);
    expect(asked).toHaveLength(2);
    expect(recorded).toEqual(["VolumeNotGrown"]);
  });

  test("is forgotten with its resource", async () => {
    const patch = async () => {
      throw new KubeError({ status: 422, reason: "Invalid", message: "no" });
    };
    const { context } = contextOf({ patch });
    const actions = new RouterActions(new ChildReader());
    await actions.carryOut(resource, grow("1Gi"), network, context);
    actions.forget(resource);
    expect(actions.isPutOff(resource, grow("1Gi"), context.now())).toBe(false);
  });
});

test("a network that does not show the token of a router is not asked for one after the other, but when a user asks", async () => {
  const asked: unknown[] = [];
  const reEnrollEdgeRouter = async (input: unknown) => void asked.push(input);
  const { context, wait } = contextOf({});
  const keep = async () => resource;
  const actions = new RouterActions(new ChildReader());
  const automatic: RouterAction = { type: "reEnroll", ordinal: 0, id: "r-0" };
  const isPutOff = (action: RouterAction) => actions.isPutOff(resource, action, context.now());
  expect(isPutOff(automatic)).toBe(false);
  const silent = { client: { reEnrollEdgeRouter } } as unknown as UsableNetwork;
  await actions.carryOut(resource, automatic, silent, { ...context, keep } as RouterContext);
  expect(asked).toEqual([{ params: { id: "r-0" } }]);
  expect(isPutOff(automatic)).toBe(true);
  expect(isPutOff({ ...automatic, id: "r-1" })).toBe(false);
  expect(isPutOff({ ...automatic, handled: "0:again" })).toBe(false);
  wait(2 * MINUTE_MS);
  expect(isPutOff(automatic)).toBe(false);
});

test("a router that has used its token since it was looked at keeps its certificate", async () => {
  const asked: string[] = [];
  let isVerified = true;
  const client = {
    detailEdgeRouter: async () => ({ data: { isVerified } }),
    reEnrollEdgeRouter: async ({ params }: { params: { id: string } }) => void asked.push(params.id),
  };
  const { context } = contextOf({});
  const carryOut = async (action: RouterAction) =>
    await new RouterActions(new ChildReader()).carryOut(
      resource,
      action,
      { client } as unknown as UsableNetwork,
      {
        ...context,
        keep: async () => resource,
      } as unknown as RouterContext,
    );
  const action = { type: "reEnroll", ordinal: 0, id: "r-0" } as const;
  await carryOut({ ...action, unlessVerified: true });
  expect(asked).toEqual([]);
  await carryOut(action);
  isVerified = false;
  await carryOut({ ...action, unlessVerified: true });
  expect(asked).toEqual(["r-0", "r-0"]);
});

test("what was read of the children is forgotten with their owner, and nothing of another one", async () => {
  const map = (name: string): KubeObject => ({
    apiVersion: "v1",
    kind: "ConfigMap",
    metadata: { name, namespace: "edge", uid: name, resourceVersion: "1" },
  });
  const reads: string[] = [];
  const get = async ({ name }: { name: string }) => {
    reads.push(name);
    return map(name);
  };
  const { context } = contextOf({ get }, { child: (_kind: unknown, _namespace: string, name: string) => map(name) });
  const reader = new ChildReader();
  const look = async (name: string) =>
    await reader.find(context, { kind: KINDS.ConfigMap, namespace: "edge", name }, true);
  for (const name of ["eu-0-config", "us-0-config", "eu-0-config", "us-0-config"]) await look(name);
  expect(reads).toEqual(["eu-0-config", "us-0-config"]);
  reader.forgetAll(resource);
  for (const name of ["eu-0-config", "us-0-config"]) await look(name);
  expect(reads).toEqual(["eu-0-config", "us-0-config", "eu-0-config"]);
});
