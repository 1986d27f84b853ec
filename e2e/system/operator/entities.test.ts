/** The operator's entities on a real Sallyport controller: each kind made, changed, adopted and taken away, with nothing to do in between. */

import { silentLogger } from "@sallyport/wire";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { startTestController, type TestController } from "../../../controller/src/api/testing/test-controller.ts";
import { NetworkConnection } from "../../../operator/src/controller-client/connection.ts";
import { ownerOf, tagsOf } from "../../../packages/resources/src/entity/ownership.ts";
import type {
  EntityResource,
  EntitySpec,
  FoundEntity,
  Surroundings,
} from "../../../packages/resources/src/entity/plan.ts";
import { NO_REFERENCES } from "../../../packages/resources/src/entity/references.ts";
import { EntitySync, type KnownEntity, type SyncResult } from "../../../packages/resources/src/entity/sync.ts";
import { authPolicies, authPolicy } from "../../../packages/resources/src/kinds/auth-policy/entity.ts";
import { DEFINITIONS } from "../../../packages/resources/src/kinds/definitions.ts";
import {
  edgeRouterPolicies,
  edgeRouterPolicy,
} from "../../../packages/resources/src/kinds/edge-router-policy/entity.ts";
import { overlayService, services } from "../../../packages/resources/src/kinds/overlay-service/entity.ts";
import { postureCheck, postureChecks } from "../../../packages/resources/src/kinds/posture-check/entity.ts";
import { configs, serviceConfig } from "../../../packages/resources/src/kinds/service-config/entity.ts";
import {
  serviceEdgeRouterPolicies,
  serviceEdgeRouterPolicy,
} from "../../../packages/resources/src/kinds/service-edge-router-policy/entity.ts";
import { servicePolicies, servicePolicy } from "../../../packages/resources/src/kinds/service-policy/entity.ts";
import { sample } from "../../../packages/resources/src/kinds/testing/samples.ts";
import { admit } from "../../../packages/resources/src/testing/admit.ts";
import { SPECS } from "../../operator/entity-specs.ts";

type Json = Readonly<Record<string, unknown>>;
/** Their types differ, what is tested here does not. */
type AnySync = EntitySync<EntitySpec, object, FoundEntity, { configTypeId: string; data: Json }>;
const anySync = (sync: unknown): AnySync => sync as AnySync;

const SYNCS: Readonly<Record<string, { sync: AnySync; path: string }>> = {
  OverlayService: { sync: anySync(new EntitySync(overlayService, services)), path: "services" },
  ServiceConfig: { sync: anySync(new EntitySync(serviceConfig, configs)), path: "configs" },
  ServicePolicy: {
    sync: anySync(new EntitySync(servicePolicy, servicePolicies)),
    path: "service-policies",
  },
  EdgeRouterPolicy: {
    sync: anySync(new EntitySync(edgeRouterPolicy, edgeRouterPolicies)),
    path: "edge-router-policies",
  },
  ServiceEdgeRouterPolicy: {
    sync: anySync(new EntitySync(serviceEdgeRouterPolicy, serviceEdgeRouterPolicies)),
    path: "service-edge-router-policies",
  },
  AuthPolicy: { sync: anySync(new EntitySync(authPolicy, authPolicies)), path: "auth-policies" },
  PostureCheck: { sync: anySync(new EntitySync(postureCheck, postureChecks)), path: "posture-checks" },
};

const CLUSTER = "kube-system-uid";
const { signal } = new AbortController();
let controller: TestController;
let connection: NetworkConnection;
/** How many requests went out, by operation. */
const requests: string[] = [];
let configTypeId: string;
let uids = 0;

beforeAll(async () => {
  controller = await startTestController();
  connection = new NetworkConnection({
    name: "default/main",
    endpoints: [`https://localhost:${controller.port}/edge/management/v1`],
    ca: controller.pki.caBundlePem,
    credentials: { method: "password", username: "admin", password: "admin" },
    requestTimeoutMs: 20_000,
    maxRequestsPerSecond: 1_000,
    log: silentLogger,
    onRequest: (operation) => requests.push(operation),
  });
  const types = await connection.client.listConfigTypes({ query: { filter: 'name = "host.v1"' } });
  configTypeId = types.data[0]!.id;
});

afterAll(async () => {
  await connection?.close();
  await controller?.close();
});

/** A resource and what its reconciler would keep of it. */
class Managed {
  readonly kind: string;
  resource: EntityResource;
  id: string | undefined;
  wasObserved = false;
  readonly #metadata: EntityResource["metadata"];

  constructor(kind: string, name: string, spec: Json = {}) {
    this.kind = kind;
    this.#metadata = { namespace: "default", name, uid: `uid-${++uids}` };
    this.resource = this.#resource(spec);
  }

  get entry() {
    return SYNCS[this.kind]!;
  }

  get owner() {
    return ownerOf(this.resource, CLUSTER);
  }

  get #known(): KnownEntity {
    return { id: this.id, wasObserved: this.wasObserved };
  }

  spec(spec: Json): this {
    this.resource = this.#resource(spec);
    return this;
  }

  #resource(spec: Json): EntityResource {
    const definition = DEFINITIONS.find(({ kind }) => kind === this.kind)!;
    const { object, problems } = admit(definition, sample(this.kind, spec, this.#metadata.name));
    expect(problems).toEqual([]);
    return { ...(object as unknown as EntityResource), metadata: this.#metadata };
  }

  async sync(through = this.entry.sync): Promise<SyncResult<FoundEntity>> {
    const surroundings: Surroundings & { configTypeId: string; data: Json } = {
      owner: this.owner,
      scope: { roleScope: "Global", namespace: "default" },
      references: NO_REFERENCES,
      configTypeId,
      data: (this.resource.spec as unknown as { data?: Json }).data ?? {},
    };
    const onIdentified = async (id: string): Promise<void> => {
      this.id = id;
    };
    const result = await through.sync(connection.client, this.resource, this.#known, surroundings, {
      signal,
      onIdentified,
    });
    this.wasObserved = result.state === "observed";
    this.id = "id" in result ? result.id : undefined;
    return result;
  }

  remove() {
    return this.entry.sync.remove(connection.client, this.resource, this.#known, this.owner, signal);
  }

  async stored(): Promise<Json | undefined> {
    const answer = await controller.admin("GET", `/${this.entry.path}/${this.id}`);
    return answer.status === 200 ? answer.json.data : undefined;
  }
}

test("what another administrator sets while the operator replaces an entity is kept", async () => {
  const managed = new Managed("OverlayService", "raced", { roleAttributes: ["before"] });
  await managed.sync();
  let races = 0;
  const raced = new EntitySync(overlayService, {
    ...services,
    replace: async (client, found, body, call) => {
      if (races++ === 0) {
        const { tags } = (await managed.stored()) as { tags: Json };
        await controller.admin("PATCH", `/services/${managed.id}`, { tags: { ...tags, note: "kept" } });
      }
      return services.replace(client, found, body, call);
    },
  });
  managed.spec({ roleAttributes: ["after"] });
  expect(await managed.sync(anySync(raced))).toMatchObject({ state: "synced", notes: [{ reason: "Updated" }] });
  expect(races).toBe(2);
  expect(await managed.stored()).toMatchObject({ roleAttributes: ["after"], tags: { note: "kept" } });
  await managed.remove();
});

/** What the operator asks of the network while `work` runs. */
async function asked(work: () => Promise<unknown>): Promise<string[]> {
  const from = requests.length;
  await work();
  return requests.slice(from);
}

describe.each(SPECS.map(([kind, first, second], index) => ({ kind, first, second, name: `e${index}` })))(
  "$kind $first",
  ({ kind, first, second, name }) => {
    test("is made, left alone, changed, left alone, and taken away", async () => {
      const managed = new Managed(kind, name, first);
      expect(await managed.sync()).toMatchObject({ state: "synced", id: managed.id, notes: [{ reason: "Created" }] });
      expect(await managed.stored()).toMatchObject({ name, tags: tagsOf(managed.owner) });
      expect(await asked(() => managed.sync())).toHaveLength(1);

      managed.spec(second);
      const { id } = managed;
      expect(await managed.sync()).toMatchObject({ state: "synced", id, notes: [{ reason: "Updated" }] });
      expect(await managed.sync()).toMatchObject({ state: "synced", id, notes: [] });

      expect(await managed.remove()).toEqual({ state: "gone" });
      expect(await managed.stored()).toBeUndefined();
      expect(await managed.remove()).toEqual({ state: "gone" });
    });

    test("is let go with the tags of others only, adopted by another resource, and stays when that one observes", async () => {
      const first_ = new Managed(kind, `${name}-kept`, { ...first, deletionPolicy: "Orphan", tags: { tier: "1" } });
      await first_.sync();
      const { id } = first_;
      expect(await first_.remove()).toEqual({ state: "released" });
      expect((await first_.stored())?.tags).toEqual({ tier: "1" });

      const next = new Managed(kind, `${name}-kept`, first);
      expect(await next.sync()).toMatchObject({ state: "conflict", reason: "NameConflict" });
      next.spec({ ...first, managementPolicy: "Observe" });
      expect(await next.sync()).toMatchObject({ state: "observed", id, differences: [] });
      // A resource that only looked has not become the owner.
      next.spec(first);
      expect(await next.sync()).toMatchObject({ state: "conflict", reason: "NameConflict" });
      next.spec({ ...first, managementPolicy: "Adopt" });
      expect(await next.sync()).toMatchObject({ state: "synced", id, notes: [{ reason: "Adopted" }] });
      expect((await next.stored())?.tags).toMatchObject({ tier: "1", ...tagsOf(next.owner) });
      next.spec({ ...first, managementPolicy: "Observe" });
      expect(await next.remove()).toEqual({ state: "released" });
      expect((await next.stored())?.tags).toEqual({ tier: "1" });
    });
  },
);

describe("an entity", () => {
  test("whose id was never written down is found by its tag: nothing is made twice", async () => {
    const managed = new Managed("OverlayService", "forgotten");
    await managed.sync();
    const { id } = managed;
    managed.id = undefined;
    expect(await managed.sync()).toMatchObject({ state: "synced", id, notes: [] });
    expect(managed.id).toBe(id);
    managed.id = undefined;
    expect(await managed.remove()).toEqual({ state: "gone" });
  });

  test("of another resource is neither changed nor deleted", async () => {
    const owner = new Managed("OverlayService", "owned", { name: "shared" });
    await owner.sync();
    const thief = new Managed("OverlayService", "thief", { name: "shared", managementPolicy: "Adopt" });
    expect(await thief.sync()).toMatchObject({ state: "conflict", reason: "NameConflict" });
    const importer = new Managed("OverlayService", "importer", { importId: owner.id! });
    expect(await importer.sync()).toMatchObject({ state: "conflict", reason: "OwnedByAnother" });
    thief.id = owner.id;
    expect(await thief.remove()).toEqual({ state: "released" });
    expect(await owner.stored()).toMatchObject({ tags: tagsOf(owner.owner) });
    await owner.remove();
  });

  test("is imported by its id, and gets the name that the spec says", async () => {
    const id = await controller.make("services", { name: "old-name", encryptionRequired: true, tags: { team: "a" } });
    const managed = new Managed("OverlayService", "imported", { importId: id });
    expect(await managed.sync()).toMatchObject({ state: "synced", id, notes: [{ reason: "Adopted" }] });
    expect(await managed.stored()).toMatchObject({ name: "imported", tags: { team: "a", ...tagsOf(managed.owner) } });
    await managed.remove();
  });

  test("that is only observed is reported and never written", async () => {
    const id = await controller.make("services", { name: "seen", encryptionRequired: true, maxIdleTimeMillis: 5 });
    const managed = new Managed("OverlayService", "seen", { managementPolicy: "Observe", maxIdleTimeMillis: 6 });
    expect(await managed.sync()).toMatchObject({ state: "observed", id, differences: ["maxIdleTimeMillis"] });
    expect(await asked(() => managed.sync())).toEqual(["detailService"]);
    expect(await managed.remove()).toEqual({ state: "released" });
    expect(await managed.stored()).toMatchObject({ maxIdleTimeMillis: 5, tags: {} });
  });

  test("with a name full of signs is found by it", async () => {
    const name = `"quoted" \\ and 'that' = #@`;
    const id = await controller.make("services", { name, encryptionRequired: true });
    const managed = new Managed("OverlayService", "signs", { name, managementPolicy: "Adopt" });
    expect(await managed.sync()).toMatchObject({ state: "synced", id });
    await managed.remove();
  });
});

test("the connection goes on when its session ends", async () => {
  const logins = () => requests.filter((operation) => operation === "oidc").length;
  const before = logins();
  const sessions = await controller.admin("GET", "/api-sessions?limit=500");
  for (const { id } of sessions.json.data) await controller.admin("DELETE", `/api-sessions/${id}`);
  await Promise.all([connection.client.listServices(), connection.client.listConfigs()]);
  expect(logins()).toBe(before + 1);
});
