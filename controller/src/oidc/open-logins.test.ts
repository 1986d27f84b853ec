import { describe, expect, test } from "vitest";
import { OpenLogins } from "./open-logins.ts";

const rates = {
  enabled: true,
  address: { burst: 1_000, perMinute: 1_000 },
  failures: { burst: 1_000, perMinute: 1_000 },
};

function start(more: Partial<ConstructorParameters<typeof OpenLogins>[0]> = {}) {
  let at = 1_000_000;
  const gone: string[] = [];
  const gaveWay = (id: string) => void gone.push(id);
  const limits = { lifeMs: 600_000, max: 5, maxPerAddress: 3 };
  const logins = new OpenLogins({ rates, now: () => new Date(at), gaveWay, ...limits, ...more });
  const begin = (id: string, key: string, certificate?: string) => {
    logins.add(
      id,
      logins.admit({ key }, () => certificate),
    );
  };
  const pass = (ms: number) => {
    at += ms;
  };
  return { logins, begin, pass, gone };
}
const tooMany = expect.objectContaining({ status: 429, headers: { "retry-after": expect.stringMatching(/^[1-9]/) } });

describe("open logins", () => {
  test("the oldest of an address, and the oldest of all, make room; a finished one does at once", () => {
    const { logins, begin, gone } = start();
    for (const id of ["1", "2", "3", "4"]) begin(id, "a");
    expect(gone).toEqual(["1"]);
    begin("5", "b");
    begin("6", "b");
    expect(gone).toEqual(["1"]);
    begin("7", "c");
    expect(gone).toEqual(["1", "2"]);
    logins.remove("3");
    logins.remove("3");
    begin("8", "c");
    expect([gone, logins.size]).toEqual([["1", "2"], 5]);
  });

  test("are forgotten when they are over", () => {
    const { logins, begin, pass, gone } = start();
    begin("1", "a");
    pass(300_000);
    for (const id of ["2", "3"]) begin(id, "a");
    pass(300_000);
    begin("4", "a");
    expect([gone, logins.size]).toEqual([[], 3]);
    pass(600_000);
    expect(logins.size).toBe(0);
  });

  test("may begin only so often from an address, unless limits are off", () => {
    const slow = { ...rates, address: { burst: 1, perMinute: 1 } };
    const { begin } = start({ rates: slow });
    begin("1", "a");
    expect(() => begin("2", "a")).toThrow(tooMany);
    begin("2", "b");
    // Others at the address do not keep out who has a certificate of the network; the certificate has a limit, too.
    begin("3", "a", "print");
    expect(() => begin("4", "a", "print")).toThrow(tooMany);
    const off = start({ rates: { ...slow, enabled: false } });
    for (const id of ["1", "2", "3"]) off.begin(id, "a");
  });
});
