/** A client of the Management API at the Service that all controllers share, which reads and writes all the time and counts what fails. */
import { createClient } from "@sallyport/api";
import { pause } from "@sallyport/async";
import type { Stage } from "../stage.ts";

const EVERY_MS = 100;
const RETRY_MS = 1_000;

type Management = ReturnType<typeof createClient<"management">>;

export class ApiCalls {
  readonly #client: Management;
  readonly #running: Promise<void>;
  readonly #ending = new AbortController();
  /** Ids of what was written. */
  readonly written: string[] = [];
  /** Time and error of each call that failed twice. */
  readonly failed: string[] = [];

  private constructor(client: Management) {
    this.#client = client;
    this.#running = this.#run();
  }

  static async start(stage: Stage): Promise<ApiCalls> {
    const { spec } = await stage.get<{ spec: { clusterIP: string } }>("service", "main-controller");
    const { data: bundle } = await stage.get<{ data: { "ca.crt": string } }>("configmap", "main-ca");
    const { data } = await stage.get<{ data: { username: string; password: string } }>("secret", "main-admin");
    const text = (value: string) => Buffer.from(value, "base64").toString();
    const client = createClient("management", {
      baseUrl: `https://${spec.clusterIP}:1280`,
      ca: bundle["ca.crt"],
      tls: { servername: `main-controller.${stage.namespace}.svc` },
    });
    const body = { username: text(data.username), password: text(data.password) };
    client.setToken((await client.authenticate({ query: { method: "password" }, body })).data.token);
    return new ApiCalls(client);
  }

  /** Ends it. @throws when something that was written is not there */
  async end(): Promise<void> {
    this.#ending.abort();
    await this.#running;
    for (const id of this.written) await this.#client.detailService({ params: { id } });
    this.#client.close();
  }

  async #run(): Promise<void> {
    for (let n = 0; !this.#ending.signal.aborted; n++) {
      try {
        const body = { name: `written-${n}`, encryptionRequired: true };
        this.written.push((await this.#twice(() => this.#client.createService({ body }))).data.id);
      } catch (error) {
        this.failed.push(`${new Date().toISOString()} ${String(error)}`);
      }
      await pause(EVERY_MS, this.#ending.signal);
    }
  }

  async #twice<T>(call: () => Promise<T>): Promise<T> {
    return await call().catch(async () => {
      await pause(RETRY_MS);
      return await call();
    });
  }
}
