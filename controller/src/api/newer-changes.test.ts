import { type Logger, silentLogger } from "@sallyport/wire";
import { expect, it, vi } from "vitest";
import { appendChange } from "../store/changes/change-log.ts";
import { startTestController } from "./testing/test-controller.ts";

it("a controller goes on, and loads nothing again, when a newer one writes changes of kinds that it does not know", async () => {
  const warn = vi.fn();
  const error = vi.fn();
  const log: Logger = { ...silentLogger, warn, error };
  const c = await startTestController({ log });
  try {
    const { store } = c.ctx;
    const onReset = vi.fn();
    store.changes.subscribe({ name: "test", onChanges: () => undefined, onReset });
    const id = await c.make("services", { name: "before", encryptionRequired: true });
    const changes = (["create", "update", "delete"] as const).flatMap((op) => [
      { kind: "of_a_newer_version", key: "no number", op, before: { attrs: "no list", token: 7 } },
      { kind: "", key: "", op },
    ]);
    await store.transaction((trx) => appendChange(trx, ...changes));
    await store.changes.caughtUp();
    expect((await c.admin("GET", `/services/${id}`)).status).toBe(200);
    const after = await c.make("services", { name: "after", encryptionRequired: true });
    expect((await c.admin("GET", `/services/${after}`)).status).toBe(200);
    expect(onReset).not.toHaveBeenCalled();
    expect([...warn.mock.calls, ...error.mock.calls]).toEqual([]);
  } finally {
    await c.close();
  }
});
