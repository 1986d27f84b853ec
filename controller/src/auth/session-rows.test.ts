import { expect, it } from "vitest";
import type { ChangeRow, ChangeSubscriber } from "../store/change-log.ts";
import { SessionRows } from "./session-rows.ts";

/** A change log that is told by the test what was written. */
class ScriptedLog {
  readonly position = "";
  readonly #subscribers: ChangeSubscriber[] = [];
  subscribe(subscriber: ChangeSubscriber): () => void {
    this.#subscribers.push(subscriber);
    return () => undefined;
  }
  async noticed(): Promise<void> {}
  async caughtUp(): Promise<void> {}
  async wake(): Promise<void> {}
  tell(kind: string, key: string, op: ChangeRow["op"] = "update"): void {
    const row: ChangeRow = { seq: "1", xid: "1", at: new Date(), kind, key, op, before: null };
    for (const subscriber of this.#subscribers) void subscriber.onChanges([row], "");
  }
}

function harness() {
  const log = new ScriptedLog();
  const reads: string[] = [];
  let whileReading = (): void => undefined;
  const rows = new SessionRows(log, async (token) => {
    reads.push(token);
    await Promise.resolve();
    whileReading();
    return token.startsWith("none") ? undefined : { id: `session of ${token}`, identity_id: `identity of ${token}` };
  });
  return {
    log,
    rows,
    reads,
    duringTheNextRead: (work: () => void) => {
      whileReading = () => {
        whileReading = () => undefined;
        work();
      };
    },
  };
}

it("a row is read once, until its session or its identity changes", async () => {
  const { log, rows, reads } = harness();
  await rows.find("t");
  await rows.find("t");
  expect(reads).toHaveLength(1);
  log.tell("identity", "identity of another");
  log.tell("service", "session of t");
  log.tell("api_session", "session of t", "create");
  await rows.find("t");
  expect(reads).toHaveLength(1);
  log.tell("api_session", "session of t", "delete");
  await rows.find("t");
  expect(reads).toHaveLength(2);
  log.tell("identity", "identity of t");
  await rows.find("t");
  expect(reads).toHaveLength(3);
});

it.each(["auth_policy", "ext_jwt_signer"])("a change of an %s concerns every row", async (kind) => {
  const { log, rows, reads } = harness();
  await rows.find("t");
  await rows.find("u");
  log.tell(kind, "any");
  await rows.find("t");
  await rows.find("u");
  expect(reads).toEqual(["t", "u", "t", "u"]);
});

it("what changes while it is being read is not kept", async () => {
  const { log, rows, reads, duringTheNextRead } = harness();
  await rows.find("other");
  duringTheNextRead(() => log.tell("api_session", "session of t", "delete"));
  await rows.find("t");
  await rows.find("t");
  expect(reads).toEqual(["other", "t", "t"]);
});

it("unknown tokens take no room", async () => {
  const { rows, reads } = harness();
  await rows.find("none");
  await rows.find("none");
  expect(reads).toHaveLength(2);
});
