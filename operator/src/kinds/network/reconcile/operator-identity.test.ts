import { expect, test } from "vitest";
import { FirstLogins } from "./operator-identity.ts";

const main = { namespace: "edge", name: "main" };

test("a password that was refused twice is not tried again, however often the Network is looked at", () => {
  const logins = new FirstLogins(0);
  const attempts = (password: string): number => {
    let count = 0;
    for (let look = 0; look < 5; look++) {
      const gate = logins.gateOf(main, password);
      if (gate.closed !== undefined) continue;
      count++;
      gate.refused("INVALID_AUTH");
    }
    return count;
  };
  expect(attempts("old")).toBe(2);
  expect(attempts("new")).toBe(2);
  expect(logins.gateOf({ ...main, name: "other" }, "new").closed).toBeUndefined();
  logins.gateOf(main, "new").open();
  expect(attempts("new")).toBe(2);
  logins.forget(main);
  expect(attempts("new")).toBe(2);
});
