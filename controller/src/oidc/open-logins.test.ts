import { describe, expect, test } from "vitest";
import { OpenLogins } from "./open-logins.ts";

const rates = {
  enabled: true,
  address: { burst: 1_000, perMinute: 1_000 },
  failures: { burst: 1_000, perMinute: 1_000 },
};

function start(more: Partial<ConstructorParameters<typeof OpenLogins>[0]> = {}) {
  let at = 1_000_000;
  const logins = new OpenLogins({ rates, lifeMs: 600_000, now: () => new Date(at), max: 5, maxPerAddress: 3, ...more });
  const begin = (id: string, key: string) => {
    logins.admit({ key });
    logins.add(id, { key });
  };
  const pass = (ms: number) => {
    at += ms;
  };
  return { logins, begin, pass };
}
const tooMany = expect.objectContaining({ status: 429, headers: { "retry-after": expect.stringMatching(/^[1-9]/) } });

describe("open logins", () => {
  test("are limited per address and in all; a finished one makes room at once", () => {
    const { logins, begin } = start();
    for (const id of ["1", "2", "3"]) begin(id, "a");
    expect(() => begin("4", "a")).toThrow(tooMany);
    begin("4", "b");
    begin("5", "b");
    expect(() => begin("6", "c")).toThrow(tooMany);
    logins.remove("1");
    logins.remove("1");
    begin("6", "a");
    expect(logins.size).toBe(5);
  });

  test("are forgotten when they are over", () => {
    const { logins, begin, pass } = start();
    begin("1", "a");
    pass(300_000);
    for (const id of ["2", "3"]) begin(id, "a");
    pass(299_999);
    expect(() => begin("4", "a")).toThrow(tooMany);
    pass(1);
    begin("4", "a");
    pass(600_000);
    expect(logins.size).toBe(0);
  });

  test("may begin only so often from an address, unless limits are off", () => {
    const slow = { ...rates, address: { burst: 1, perMinute: 1 } };
    const { begin } = start({ rates: slow });
    begin("1", "a");
    expect(() => begin("2", "a")).toThrow(tooMany);
    begin("2", "b");
    const off = start({ rates: { ...slow, enabled: false } });
    for (const id of ["1", "2", "3"]) off.begin(id, "a");
  });
});
