import { ApiError } from "@sallyport/api";
import { describe, expect, test } from "vitest";
import { AttemptLimits, originAt, originBehind } from "./attempt-limits.ts";
import { RateLimit } from "./rate-limit.ts";

describe("a rate limit", () => {
  test("lets a burst through, then as many as come back with time, and says how long to wait", () => {
    let now = 0;
    const limit = new RateLimit({ burst: 3, perMinute: 60 }, { now: () => now });
    expect([1, 2, 3, 4].map(() => limit.take("a"))).toEqual([0, 0, 0, 1_000]);
    expect(limit.take("b")).toBe(0);
    now += 500;
    expect([limit.wait("a"), limit.take("a")]).toEqual([500, 500]);
    now += 500;
    expect([limit.wait("a"), limit.take("a"), limit.take("a")]).toEqual([0, 0, 1_000]);
    now += 3_600_000;
    expect([1, 2, 3, 4].map(() => limit.take("a"))).toEqual([0, 0, 0, 1_000]);
  });

  test("is divided among those who share it, however many there are at the moment", () => {
    let now = 0;
    let controllers = 2;
    const limit = new RateLimit({ burst: 4, perMinute: 60 }, { now: () => now, sharedBy: () => controllers });
    expect([1, 2, 3].map(() => limit.take("a"))).toEqual([0, 0, 2_000]);
    now += 2_000;
    expect([limit.take("a"), limit.take("a")]).toEqual([0, 2_000]);
    // The other one is gone: the whole rate is ours from here on.
    controllers = 1;
    now += 1_000;
    expect([limit.take("a"), limit.take("a")]).toEqual([0, 1_000]);
    controllers = 100;
    expect([limit.take("b"), limit.take("b") > 0]).toEqual([0, true]);
  });

  test("has bounded memory, and forgets first the key that was quiet longest", () => {
    let now = 0;
    const limit = new RateLimit({ burst: 2, perMinute: 1 }, { now: () => now });
    limit.take("first");
    limit.take("first");
    for (let i = 0; i < 100_000; i++) limit.take(`key ${i}`);
    expect(limit.size).toBe(100_000);
    expect(limit.wait("first")).toBe(0);
    now += 60_000;
    limit.take("another");
    // All that were full again went with the one that had to go.
    expect(limit.size).toBe(1);
  });
});

describe("attempts", () => {
  const rates = { enabled: true, address: { burst: 3, perMinute: 6 } };
  const refusal = (run: () => void): ApiError | undefined => {
    try {
      run();
      return undefined;
    } catch (error) {
      if (error instanceof ApiError) return error;
      throw error;
    }
  };

  test("are counted per address, and refused with 429 and the seconds to wait", () => {
    const limits = new AttemptLimits(rates);
    for (let i = 0; i < 3; i++) limits.admit(originAt("192.0.2.1"));
    const error = refusal(() => limits.admit(originAt("192.0.2.1")));
    expect(error).toMatchObject({ status: 429, code: "SERVER_TOO_MANY_REQUESTS" });
    expect(error?.headers?.["retry-after"]).toBe("10");
    limits.admit(originAt("192.0.2.2"));
    // A client at the same address with a certificate of the network.
    for (let i = 0; i < 3; i++) limits.admitCertificate("aa");
    limits.admitCertificate("bb");
    expect(refusal(() => limits.admitCertificate("aa"))?.status).toBe(429);
  });

  test("of one client behind a router leave the others behind it their share", () => {
    const limits = new AttemptLimits(rates);
    const admit = (ip: string, router = "aa") => refusal(() => limits.admit(originBehind(router, ip)))?.status;
    const flood = Array.from({ length: 40 }, () => admit("192.0.2.1"));
    expect(flood.filter((status) => status === undefined)).toHaveLength(3);
    expect(admit("192.0.2.2")).toBeUndefined();
    // A router that makes addresses up has ten times what one address has, and they keep what they have elsewhere.
    const all = Array.from({ length: 40 }, (_, i) => admit(`198.51.100.${i}`));
    expect(all.filter((status) => status === undefined)).toHaveLength(26);
    expect(admit("192.0.2.2", "bb")).toBeUndefined();
    limits.admit(originAt("192.0.2.1"));
  });

  test("are not limited where that is switched off", () => {
    const limits = new AttemptLimits({ ...rates, enabled: false });
    for (let i = 0; i < 100; i++) {
      limits.admit(originAt("192.0.2.1"));
    }
  });
});
