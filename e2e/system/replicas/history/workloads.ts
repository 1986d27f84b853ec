import { createHash, randomBytes } from "node:crypto";
import { pause } from "@sallyport/async";
import { ADMIN_PASSWORD } from "../../../network/network.ts";
import type { Random } from "../../../soak/random.ts";
import type { Answer, CallOptions } from "./asker.ts";
import type { Recorder } from "./recorder.ts";

const MANAGEMENT = "/edge/management/v1";
const CLIENT = "/edge/client/v1";
const PASSWORD = "a-good-password";
const REDIRECT_URI = "http://localhost:8080/auth/callback";
/** Operations on one register, before another takes its place: longer histories take long to check. */
const MAX_REGISTER_OPERATIONS = 300;
/** Lists are read as a whole: so many of each kind fit into one page. */
const MAX_LISTED = 200;
const PAUSE_MS = 10;
/** How often what was taken away is tried again. */
const USES_AFTER_END = 12;

interface Session {
  readonly key: string;
  readonly credential: CallOptions;
  readonly identityId: string;
  /** Ways to take it away. */
  readonly ends: readonly (() => Promise<Answer>)[];
}

/** Controllers that can be asked, by number. */
export interface Askable {
  readonly size: number;
  /** Never rejects. */
  call(at: number, method: string, path: string, options?: CallOptions): Promise<Answer>;
}

/** Clients that ask any replica, with the same sessions at all of them, and record what they are told. */
export class Workloads {
  readonly #set: Askable;
  readonly #recorder: Recorder;
  readonly #random: Random;
  #token = "";
  #viewer: CallOptions = {};
  #viewerId = "";
  #number = 0;
  /** Entities whose tag is written and read. */
  readonly #registers: string[] = [];
  #running: Promise<unknown>[] = [];
  #isStopping = false;

  constructor(set: Askable, recorder: Recorder, random: Random) {
    this.#set = set;
    this.#recorder = recorder;
    this.#random = random;
  }

  /** Of the administrator, who is logged in from first to last. */
  get token(): string {
    return this.#token;
  }

  /** Makes what the workloads need; before any fault. */
  async prepare(): Promise<void> {
    this.#token = await this.#logIn("admin", ADMIN_PASSWORD, "management");
    const { id } = await this.#makeUser("viewer", ["viewer"]);
    this.#viewerId = id;
    this.#viewer = { token: await this.#logIn("viewer", PASSWORD, "client") };
    await this.#make("service-policies", {
      ...{ name: "listed", type: "Dial", semantic: "AnyOf", identityRoles: ["#viewer"], serviceRoles: ["#listed"] },
    });
    const service = await this.#make("services", { name: "register", encryptionRequired: true });
    this.#registers.push(`/services/${service}`, `/identities/${id}`);
  }

  start(): void {
    for (let n = 0; n < 4; n++) this.#loop(() => this.#useRegister());
    this.#loop(() => this.#changeServices());
    this.#loop(() => this.#changeGrants());
    this.#loop(() => this.#list());
    this.#loop(() => this.#list());
    this.#loop(() => this.#revokePlain());
    this.#loop(() => this.#revokeOidc());
  }

  async stop(): Promise<void> {
    this.#isStopping = true;
    await Promise.all(this.#running);
  }

  /** Reads everything at every replica. */
  async readAll(): Promise<void> {
    for (let at = 0; at < this.#set.size; at++) {
      for (const path of this.#registers) await this.#readRegister(path, at);
      await this.#listAt(at);
    }
  }

  #loop(work: () => Promise<unknown>): void {
    const running = async (): Promise<void> => {
      while (!this.#isStopping) {
        await work();
        await pause(PAUSE_MS);
      }
    };
    this.#running.push(running());
  }

  #anywhere(): number {
    return this.#random.between(0, this.#set.size - 1);
  }

  #ask(method: string, path: string, body?: unknown, at = this.#anywhere()): Promise<Answer> {
    return this.#set.call(at, method, `${MANAGEMENT}${path}`, { token: this.#token, body });
  }

  async #useRegister(): Promise<void> {
    const place = this.#random.between(0, this.#registers.length - 1);
    const path = this.#registers[place] ?? this.#none();
    if (this.#recorder.operationsOn(path) > MAX_REGISTER_OPERATIONS) return this.#replaceRegister(place, path);
    if (this.#random.next() < 0.6) return this.#readRegister(path, this.#anywhere());
    const value = `v${++this.#number}`;
    this.#recorder.write(path, value, await this.#ask("PATCH", path, { tags: { value } }));
  }

  async #replaceRegister(place: number, former: string): Promise<void> {
    const made = await this.#ask("POST", "/services", { name: `r${++this.#number}`, encryptionRequired: true });
    if (this.#recorder.outcome(made) !== "ok" || this.#registers[place] !== former) return;
    this.#registers[place] = `/services/${made.json.data.id}`;
  }

  async #readRegister(path: string, at: number): Promise<void> {
    this.#recorder.read(path, await this.#ask("GET", path, undefined, at), ({ data }) => data.tags.value);
  }

  /** Services that a policy selects by their attribute. */
  async #changeServices(): Promise<void> {
    if (this.#recorder.begun("service ").length > MAX_LISTED) return pause(100);
    const name = `s${++this.#number}`;
    const body = { name, encryptionRequired: true, roleAttributes: ["listed"] };
    const made = await this.#ask("POST", "/services", body);
    if (!this.#recorder.change("begin", `service ${name}`, made)) return;
    await this.#listAt(this.#anywhere());
    if (this.#random.next() < 0.4) return;
    const path = `/services/${made.json.data.id}`;
    // It is listed no more when it is gone, and when its attribute is.
    const end = this.#random.next() < 0.5 ? () => this.#ask("DELETE", path) : () => this.#patchRoles(path);
    await this.#end(`service ${name}`, end);
    await this.#listAt(this.#anywhere());
  }

  #patchRoles(path: string): Promise<Answer> {
    return this.#ask("PATCH", path, { roleAttributes: [] });
  }

  /** A policy that grants one service, and is withdrawn, or narrowed. */
  async #changeGrants(): Promise<void> {
    if (this.#recorder.begun("grant ").length > MAX_LISTED) return pause(100);
    const name = `g${++this.#number}`;
    const service = await this.#ask("POST", "/services", { name, encryptionRequired: true });
    if (this.#recorder.outcome(service) !== "ok") return;
    const policy = await this.#ask("POST", "/service-policies", {
      ...{ name, type: "Dial", semantic: "AnyOf", identityRoles: [`@${this.#viewerId}`] },
      serviceRoles: [`@${service.json.data.id}`],
    });
    if (!this.#recorder.change("begin", `grant ${name}`, policy)) return;
    await this.#listAt(this.#anywhere());
    const path = `/service-policies/${policy.json.data.id}`;
    const isNarrowed = this.#random.next() < 0.5;
    const narrow = () => this.#ask("PATCH", path, { identityRoles: ["#no-one"] });
    await this.#end(`grant ${name}`, isNarrowed ? narrow : () => this.#ask("DELETE", path));
    await this.#listAt(this.#anywhere());
  }

  /** Asks until the answer is certain. What is gone already was removed by a try that had no answer. */
  async #end(key: string, end: () => Promise<Answer>): Promise<void> {
    for (let isAgain = false; !this.#recorder.change("end", key, await end(), isAgain); isAgain = true) await pause(50);
  }

  #list(): Promise<void> {
    return this.#listAt(this.#anywhere());
  }

  async #listAt(at: number): Promise<void> {
    const keys = [...this.#recorder.begun("service "), ...this.#recorder.begun("grant ")];
    const answer = await this.#set.call(at, "GET", `${CLIENT}/services?limit=500`, this.#viewer);
    if (this.#recorder.outcome(answer) !== "ok") return;
    const present = new Set<string>(
      answer.json.data.map(({ name }: { name: string }) => `${name.startsWith("s") ? "service" : "grant"} ${name}`),
    );
    this.#recorder.sawAll(keys, present, answer);
  }

  async #revokePlain(): Promise<void> {
    const { id, username } = await this.#makeUser(`user${++this.#number}`, []);
    if (id === "") return;
    const answer = await this.#set.call(this.#anywhere(), "POST", `${CLIENT}/authenticate?method=password`, {
      body: { username, password: PASSWORD },
    });
    const key = `session of ${username}`;
    if (!this.#recorder.change("begin", key, answer)) return;
    const { token, id: sessionId } = answer.json.data;
    await this.#revoke({
      ...{ key, credential: { token }, identityId: id },
      ends: [
        () => this.#set.call(this.#anywhere(), "DELETE", `${CLIENT}/current-api-session`, { token }),
        () => this.#ask("DELETE", `/api-sessions/${sessionId}`),
      ],
    });
  }

  async #revokeOidc(): Promise<void> {
    const { id, username } = await this.#makeUser(`oidc${++this.#number}`, []);
    if (id === "") return;
    const answer = await this.#oidcTokens(username);
    if (answer === undefined) return;
    const key = `access token of ${username}`;
    if (!this.#recorder.change("begin", key, answer)) return;
    const { access_token: bearer, refresh_token: refresh } = answer.json;
    const form = (token: string) => ({ client_id: "openziti", token });
    await this.#revoke({
      ...{ key, credential: { bearer }, identityId: id },
      ends: [
        () => this.#set.call(this.#anywhere(), "POST", "/oidc/revoke", { form: form(bearer) }),
        () => this.#set.call(this.#anywhere(), "POST", "/oidc/revoke", { form: form(refresh) }),
        () => this.#set.call(this.#anywhere(), "DELETE", `${CLIENT}/current-api-session`, { bearer }),
      ],
    });
  }

  /** Uses it at every replica, takes it away, and uses it again. */
  async #revoke({ key, credential, identityId, ends }: Session): Promise<void> {
    const use = async (at: number): Promise<void> => {
      const answer = await this.#set.call(at, "GET", `${CLIENT}/current-api-session`, credential);
      const outcome = this.#recorder.outcome(answer, 401);
      if (outcome === "ok" || answer.status === 401) this.#recorder.saw(key, outcome === "ok", answer);
    };
    for (let at = 0; at < this.#set.size; at++) await use(at);
    const all = [
      ...ends,
      () => this.#ask("POST", `/identities/${identityId}/disable`, { durationMinutes: 5 }),
      () => this.#ask("DELETE", `/identities/${identityId}`),
    ] as const;
    const end = all[this.#random.between(0, all.length - 1)] ?? this.#none();
    let isEnded = false;
    // Other clients use it all the while.
    const uses = async (): Promise<void> => {
      for (let after = 0; after < USES_AFTER_END; ) {
        await use(this.#anywhere());
        if (isEnded) after += 1;
      }
    };
    const using = [uses(), uses()];
    await this.#end(key, end);
    isEnded = true;
    await Promise.all(using);
  }

  async #makeUser(username: string, roleAttributes: readonly string[]): Promise<{ id: string; username: string }> {
    const none = { id: "", username };
    const made = await this.#ask("POST", "/identities", {
      name: username,
      type: "User",
      isAdmin: false,
      roleAttributes,
    });
    if (this.#recorder.outcome(made) !== "ok") return none;
    const { id } = made.json.data;
    const body = { identityId: id, method: "updb", username, password: PASSWORD };
    const authenticator = await this.#ask("POST", "/authenticators", body);
    return this.#recorder.outcome(authenticator) === "ok" ? { id, username } : none;
  }

  async #make(collection: string, body: unknown): Promise<string> {
    const { status, json } = await this.#ask("POST", `/${collection}`, body);
    if (status !== 201) throw new Error(`POST ${collection} answered ${status}: ${JSON.stringify(json)}`);
    return json.data.id;
  }

  async #logIn(username: string, password: string, api: "client" | "management"): Promise<string> {
    const path = `${api === "client" ? CLIENT : MANAGEMENT}/authenticate?method=password`;
    const { status, json } = await this.#set.call(0, "POST", path, { body: { username, password } });
    if (status !== 200) throw new Error(`the login of ${username} answered ${status}: ${JSON.stringify(json)}`);
    return json.data.token;
  }

  /** A login whose steps any replica answers; undefined if a step had no answer. */
  async #oidcTokens(username: string): Promise<Answer | undefined> {
    const verifier = randomBytes(32).toString("base64url");
    const step = async (method: string, path: string, form?: Record<string, string>): Promise<Answer | undefined> => {
      const answer = await this.#set.call(this.#anywhere(), method, path, form && { form });
      return this.#recorder.outcome(answer) === "ok" ? answer : undefined;
    };
    const query = new URLSearchParams({
      client_id: "openziti",
      response_type: "code",
      scope: "openid offline_access",
      state: "state",
      nonce: "nonce",
      code_challenge: createHash("sha256").update(verifier).digest("base64url"),
      code_challenge_method: "S256",
      redirect_uri: REDIRECT_URI,
    });
    const begun = await step("GET", `/oidc/authorize?${query}`);
    const id = begun && parameter(begun, "authRequestID");
    if (id === undefined) return undefined;
    const finished = await step("POST", "/oidc/login/password", { id, username, password: PASSWORD });
    if (finished === undefined) return undefined;
    const { pathname, search } = new URL(finished.location, "https://localhost");
    const back = await step("GET", pathname + search);
    const code = back && parameter(back, "code");
    if (code === undefined) return undefined;
    const grant = { grant_type: "authorization_code", client_id: "openziti", redirect_uri: REDIRECT_URI };
    return this.#set.call(this.#anywhere(), "POST", "/oidc/oauth/token", {
      form: { ...grant, code, code_verifier: verifier },
    });
  }

  #none(): never {
    throw new Error("there is nothing to choose from");
  }
}

function parameter({ location }: Answer, name: string): string | undefined {
  return new URL(location, "https://localhost").searchParams.get(name) ?? undefined;
}
