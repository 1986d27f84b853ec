/** The operator in this process between a fake API server and a real controller, which a way leads to that can be cut. */
import { afterAll, afterEach, beforeAll } from "vitest";
import { startTestController, type TestController } from "../../controller/src/api/testing/test-controller.ts";
import { KINDS } from "../../operator/src/kube/kinds.ts";
import type { FakeApiServer } from "../../operator/src/kube/testing/fake-api-server.ts";
import { type StartOptions, startOperator, type TestOperator } from "../../operator/src/testing/start-operator.ts";
import { loginOfRun } from "../network/login/logins.ts";
import { TcpWay } from "../network/tcp-way.ts";
import { ENTITY_PATHS } from "./entity-paths.ts";

/** What the Management API tells of an entity, as far as tests look at it. */
export interface Entity {
  readonly id: string;
  readonly name: string;
  readonly tags: Readonly<Record<string, unknown>>;
  readonly updatedAt: string;
  readonly [field: string]: unknown;
}

/** One for a test file. */
export class OperatorScene {
  #controller: TestController | undefined;
  #way: TcpWay | undefined;
  readonly #running: TestOperator[] = [];

  /** Of the file that calls it: opened before its tests, cleared after each of them, closed in the end. */
  static ofThisFile(o: Parameters<typeof startTestController>[0] = {}): OperatorScene {
    const scene = new OperatorScene();
    beforeAll(async () => {
      scene.#controller = await startTestController({ oidc: { enabled: loginOfRun() === "oidc" }, ...o });
      scene.#way = await TcpWay.start(scene.#controller.port);
    });
    afterEach(() => scene.clear());
    afterAll(() => scene.close());
    return scene;
  }

  get controller(): TestController {
    if (this.#controller === undefined) throw new Error("a scene is there in tests and hooks only");
    return this.#controller;
  }

  get way(): TcpWay {
    if (this.#way === undefined) throw new Error("a scene is there in tests and hooks only");
    return this.#way;
  }

  /** Put it into `networks` for a network of that controller. */
  get network() {
    return { endpoint: `https://localhost:${this.way.port}`, ca: this.controller.pki.caBundlePem };
  }

  async start(o: StartOptions = {}): Promise<TestOperator> {
    const operator = await startOperator({ networks: { main: this.network }, ...o });
    this.#running.push(operator);
    return operator;
  }

  /** The Secret of its administrator, and the `external` of a Network that uses it. */
  asExternal(server: FakeApiServer) {
    const text = Buffer.from("admin").toString("base64");
    const metadata = { name: "admin", namespace: "default" };
    server.put(KINDS.Secret, { apiVersion: "v1", kind: "Secret", metadata, data: { username: text, password: text } });
    const { endpoint, ca } = this.network;
    return {
      endpoints: [endpoint],
      caBundle: { inline: ca, configMapRef: null },
      auth: { passwordSecretRef: { name: "admin" }, certificateSecretRef: null },
    };
  }

  /** The entity of a kind with that id. */
  async entity(kind: string, id: unknown): Promise<Entity | undefined> {
    const { status, json } = await this.controller.admin("GET", `/${ENTITY_PATHS[kind]}/${id}`);
    return status === 200 ? json.data : undefined;
  }

  /** What the network has of an Identity. */
  async identity(operator: TestOperator, name: string) {
    return (await this.controller.admin("GET", `/identities/${operator.read("Identity", name)?.status.id}`)).json.data;
  }

  /** Those of a kind that have the name. */
  async named(kind: string, name: string): Promise<Entity[]> {
    const filter = encodeURIComponent(`name = ${JSON.stringify(name)}`);
    return (await this.controller.admin("GET", `/${ENTITY_PATHS[kind]}?filter=${filter}`)).json.data;
  }

  /** Ends the operators that it started, and makes the way as it was. */
  async clear(): Promise<void> {
    this.#way?.heal();
    for (const operator of this.#running.splice(0)) await operator.close();
  }

  async close(): Promise<void> {
    await this.clear();
    await this.#way?.close();
    await this.#controller?.close();
  }
}
